//! Runs of the loop in the simulated world: events at given times, the tape of the run, and what must hold at its end.

use super::super::*;
use super::system::*;
use crate::changes::Journal;
use crate::tape::{self, Tape, Taped};
use isotherm_units::{Clock, Instant, Meter, PAGE_BYTES, Woken};
use std::cell::RefCell;
use std::rc::Rc;

/// CPU time in the simulated world.
pub(super) struct Spent(Rc<Truth>);

impl Meter for Spent {
    fn spent(&mut self) -> Duration {
        self.0.spent.get()
    }
}

/// Changes the world at given times, and may ask for a reload.
pub(super) struct Script<'a> {
    pub(super) truth: Rc<Truth>,
    pub(super) events: Vec<Event<'a>>,
}

impl Clock for Script<'_> {
    fn now(&self) -> Instant {
        self.truth.now()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        if self.truth.ends_at.get().is_some() && self.truth.is_asked_to_end() {
            return Woken::Stopped;
        }
        let mut clock = self.truth.clock.clone();
        while let Some((second, _)) = self.events.first() {
            let at = Instant::START + Duration::from_secs(*second);
            if at > until {
                break;
            }
            clock.sleep_until(at);
            // Accounts the old pressure up to now.
            self.truth.stalled();
            let (_, mut event) = self.events.remove(0);
            if let Some(woken) = event(&self.truth) {
                return woken;
            }
        }
        clock.sleep_until(until)
    }
}

pub(super) type Event<'a> = (u64, Box<dyn FnMut(&Truth) -> Option<Woken> + 'a>);

pub(super) fn at<'a>(second: u64, mut event: impl FnMut(&Truth) + 'a) -> Event<'a> {
    (
        second,
        Box::new(move |truth| {
            event(truth);
            None
        }),
    )
}

/// One run, its tape, and the replay of the tape without the world.
pub(super) fn steered(truth: &Rc<Truth>, config: &Config, seconds: u64, events: Vec<Event<'_>>) -> LoopEnd {
    let length = Some(Duration::from_secs(seconds));
    let header =
        tape::Header { isotherm_tape: tape::VERSION, build: "this".to_owned(), config: config.clone(), length };
    let recorded = Recorded::default();
    let tape = Tape::record(&header, Box::new(recorded.clone())).unwrap();
    let steered = run(truth, events, &mut |host, outside| {
        let outside = Environment {
            world: &mut Taped::new(outside.world, &tape),
            knobs: &mut Taped::new(outside.knobs, &tape),
            clock: &mut Taped::new(outside.clock, &tape),
            meter: &mut Taped::new(outside.meter, &tape),
            log: &mut Taped::new(outside.log, &tape),
        };
        steer(config, length, &mut Taped::new(host, &tape), outside).unwrap()
    });
    is_replayed(&recorded.0.borrow(), &steered);
    steered
}

/// One run of many: every eighth is [`steered`], the others without a tape, which takes twice as long as the loop.
pub(super) fn swept(nth: u64, truth: &Rc<Truth>, config: &Config, seconds: u64, events: Vec<Event<'_>>) {
    if nth.is_multiple_of(8) {
        steered(truth, config, seconds, events);
    } else {
        let length = Some(Duration::from_secs(seconds));
        run(truth, events, &mut |host, outside| steer(config, length, host, outside).unwrap());
    }
}

/// Calls `steers` with the simulated world, and does then what `isotherm restore` does.
fn run(
    truth: &Rc<Truth>,
    events: Vec<Event<'_>>,
    steers: &mut dyn FnMut(&mut Machine, Environment<'_>) -> LoopEnd,
) -> LoopEnd {
    let mut script = Script { truth: truth.clone(), events };
    let (mut world, mut log) = (truth.clone(), truth.clone());
    let journal = Rc::new(RefCell::new(Vec::new()));
    let knobs = |journal: &Rc<RefCell<Vec<u8>>>| {
        JournaledKnobs::new(Journal::read(Disk(journal.clone())).unwrap(), Files(truth.clone()), "b1")
    };
    let outside = Environment {
        world: &mut world,
        knobs: &mut knobs(&journal),
        clock: &mut script,
        meter: &mut Spent(truth.clone()),
        log: &mut log,
    };
    let steered = steers(&mut Machine(truth.clone()), outside);
    // A knob that could not be put back stays in the journal, for `isotherm restore`.
    if !steered.left.is_empty() {
        truth.fails_at.set(None);
    }
    let _ = knobs(&journal).restore();
    steered
}

pub(super) fn holds(truth: &Truth, case: &str) {
    let high: Vec<_> = truth.groups.borrow().iter().filter_map(|group| Some((group.path, group.high?))).collect();
    assert!(high.is_empty(), "{case}: {high:?}");
    assert_eq!(*truth.knobs.borrow(), module_at_rest(), "{case}: knobs are as before");
    assert!(truth.forbidden.borrow().is_empty(), "{case}: {:?}", truth.forbidden);
    assert!(!truth.memory.is_compacting.get(), "{case}: compaction goes on");
    for (process, group) in [(201, "/app/db"), (301, "sshd"), (401, "guaranteed"), (501, "protected")] {
        assert!(!truth.spaces.borrow().is_touched(process), "{case}: {group}");
    }
    for spared in ["/app/db", "/system.slice/sshd.service", "/app/web-4", "/app/web-5"] {
        assert_eq!(truth.evicted_of(spared), 0, "{case}: {spared}");
    }
    let acts = truth.acts();
    let verified: u64 = acts.iter().filter(|act| act.action != "promote").map(|act| act.verified_bytes).sum();
    let evicted: u64 = truth.evicted.borrow().iter().map(|evicted| evicted.2).sum();
    assert!(verified <= evicted * PAGE_BYTES, "{case}: more is claimed than went");
}

#[derive(Clone, Default)]
struct Recorded(Rc<RefCell<String>>);

impl tape::Sink for Recorded {
    fn add(&mut self, line: &str) -> Result<(), tape::RecordError> {
        let mut text = self.0.borrow_mut();
        text.push_str(line);
        text.push('\n');
        Ok(())
    }
}

/// Checks that the tape leads to the same decisions, without the world.
fn is_replayed(text: &str, steered: &LoopEnd) {
    let (header, tape) = Tape::read(text).unwrap();
    let [mut world, mut knobs, mut clock, mut meter, mut log, mut host] = [tape::NoHost; 6];
    let outside = Environment {
        world: &mut Taped::new(&mut world, &tape),
        knobs: &mut Taped::new(&mut knobs, &tape),
        clock: &mut Taped::new(&mut clock, &tape),
        meter: &mut Taped::new(&mut meter, &tape),
        log: &mut Taped::new(&mut log, &tape),
    };
    let again = steer(&header.config, header.length, &mut Taped::new(&mut host, &tape), outside).unwrap();
    let played = tape.played();
    assert_eq!((played.difference, played.left), (None, 0));
    assert_eq!(again, *steered);
}
