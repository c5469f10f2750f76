//! The event loop: keys, frames, drawing, and a terminal that is left as it was found.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::backend::Backend as _;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use crate::{Effect, Feed, FeedError, Look, State, draw};

/// Longest wait for a key, and shortest time between two drawings that no key caused.
const TICK: Duration = Duration::from_millis(100);

/// Why the program ended other than by a key or a signal.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The feed failed.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The terminal failed.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
}

/// Signals that arrived and were not yet acted on.
struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let mut signals = Self { end: Arc::default(), stop: Arc::default(), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signals.ids.push(signal_hook::flag::register(signal, Arc::clone(&signals.end))?);
        }
        signals.ids.push(signal_hook::flag::register(SIGTSTP, Arc::clone(&signals.stop))?);
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.ids.drain(..).for_each(|id| _ = signal_hook::low_level::unregister(id));
    }
}

/// Shows the feed on the terminal of standard output until the user quits or SIGINT, SIGTERM or SIGHUP arrives. The terminal is
/// restored at the end, after an error, when the program panics and while it is suspended.
///
/// # Errors
/// When the feed or the terminal fails.
pub fn run(feed: &mut dyn Feed, look: Look, from_ns: Option<u64>) -> Result<(), TopError> {
    let mut state = State::new(feed.name());
    if let Some(from_ns) = from_ns {
        skip(feed, &mut state, from_ns)?;
    }
    let signals = Signals::register()?;
    let mut terminal = ratatui::try_init()?;
    let done = show(feed, &mut state, look, &signals, &mut terminal);
    if matches!(&done, Err(TopError::Terminal(error)) if error.kind() == io::ErrorKind::NotConnected) {
        // It would print to the terminal that it cannot be restored.
        std::mem::forget(terminal);
        return done;
    }
    let restored = ratatui::try_restore();
    done?;
    Ok(restored?)
}

/// Takes frames without waiting for their time until one is at `from_ns`.
fn skip(feed: &mut dyn Feed, state: &mut State, from_ns: u64) -> Result<(), FeedError> {
    feed.fast_forward(from_ns);
    while state.frame().is_none_or(|frame| frame.at_ns < from_ns) {
        match feed.next(Duration::ZERO)? {
            Some(frame) => state.push(frame),
            None => break,
        }
    }
    Ok(())
}

fn show(
    feed: &mut dyn Feed,
    state: &mut State,
    look: Look,
    signals: &Signals,
    terminal: &mut DefaultTerminal,
) -> Result<(), TopError> {
    // One that has gone is no terminal any more.
    let keys_from_stdin = io::stdin().is_terminal();
    let mut to_draw = true;
    let mut drawn: Option<Instant> = None;
    let mut asked = None;
    loop {
        if signals.end.load(Ordering::Relaxed) {
            return Ok(());
        }
        if signals.stop.swap(false, Ordering::Relaxed) {
            suspend(terminal)?;
            to_draw = true;
        }
        if to_draw && drawn.is_none_or(|drawn| drawn.elapsed() >= TICK) {
            terminal.draw(|frame| draw(state, frame.buffer_mut(), look))?;
            (to_draw, drawn) = (false, Some(Instant::now()));
        }
        if poll(keys_from_stdin)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match state.key(key) {
                    Effect::Quit => return Ok(()),
                    Effect::Suspend => signals.stop.store(true, Ordering::Relaxed),
                    // A key is answered at once.
                    Effect::Redraw => (to_draw, drawn) = (true, None),
                    Effect::Repaint => {
                        terminal.backend_mut().clear()?;
                        // Clears the old buffer, so that everything is drawn again.
                        terminal.swap_buffers();
                        (to_draw, drawn) = (true, None);
                    }
                    Effect::None => {}
                },
                Event::Resize(..) => to_draw = true,
                _ => {}
            }
        }
        if state.chosen() != asked {
            asked = state.chosen();
            asked.into_iter().for_each(|key| feed.choose(key));
        }
        // All frames that are due, but not for longer than a tick: keys come first.
        let started = Instant::now();
        while let Some(frame) = feed.next(Duration::ZERO)? {
            state.push(frame);
            to_draw = true;
            if started.elapsed() >= TICK {
                break;
            }
        }
        if feed.is_at_end() && !state.ended {
            state.set_ended();
            to_draw = true;
        }
    }
}

/// Waits for a key for at most a tick. A signal ends the wait early and is no error.
///
/// # Errors
/// The terminal was closed: the library that reads keys would then read nothing, for ever.
fn poll(keys_from_stdin: bool) -> io::Result<bool> {
    if !keys_from_stdin {
        // They come from the controlling terminal.
        return unless_interrupted(event::poll(TICK));
    }
    let stdin = io::stdin();
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    unless_interrupted(rustix::event::poll(&mut keys, Some(&wait)).map(|ready| ready > 0).map_err(io::Error::from))?;
    if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "it has gone"));
    }
    unless_interrupted(event::poll(Duration::ZERO))
}

fn unless_interrupted(polled: io::Result<bool>) -> io::Result<bool> {
    match polled {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        polled => polled,
    }
}

/// Gives the terminal back, stops, and takes it again when the shell continues the program.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::try_restore()?;
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    // Its buffers are new, so that everything is drawn. `Terminal::clear` would ask the terminal for its cursor and wait.
    *terminal = ratatui::try_init()?;
    Ok(())
}
