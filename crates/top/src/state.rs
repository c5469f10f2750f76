//! The frames shown and the user's choices: changed by keys and frames only.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::history::History;
use crate::{Frame, GroupRow, RowKey};

/// The figure that the list is sorted by, largest first; names ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Hot memory.
    #[default]
    Hot,
    /// Warm memory.
    Warm,
    /// Cold memory.
    Cold,
    /// Swapped memory.
    Swapped,
    /// Name.
    Name,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Hot, Self::Warm, Self::Cold, Self::Swapped, Self::Name];

    /// The word for it on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Swapped => "swap",
            Self::Name => "name",
        }
    }
}

/// The pane below the list. Large terminals show several at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Addresses over time.
    #[default]
    Heatmap,
    /// Hot and warm memory over time.
    WorkingSet,
    /// Memory by age: generations, or regions without access.
    Ages,
    /// Refaults, pressure, huge pages, placement.
    Figures,
    /// NUMA nodes.
    Nodes,
}

impl Tab {
    /// Panes, in the order of the keys 1 to 5.
    pub const ALL: [Self; 5] = [Self::Heatmap, Self::WorkingSet, Self::Ages, Self::Figures, Self::Nodes];

    /// The word for it on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heatmap => "heatmap",
            Self::WorkingSet => "working set",
            Self::Ages => "ages",
            Self::Figures => "figures",
            Self::Nodes => "nodes",
        }
    }
}

/// Action of the event loop after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect: the key has no meaning here.
    None,
    /// Draw again.
    Redraw,
    /// Clear the terminal and draw everything again: another program wrote on it.
    Repaint,
    /// Restore the terminal and end.
    Quit,
    /// Restore the terminal and stop until the shell continues the program.
    Suspend,
}

/// Time that one column of the time axis spans, in nanoseconds.
const ZOOMS_NS: [u64; 11] = [
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    60_000_000_000,
];
const ZOOM_START: usize = 3;
/// Columns that an arrow key goes back or forward in time.
const STEP_COLUMNS: u64 = 5;
/// Rows of a page of the list.
const PAGE_ROWS: isize = 10;

/// Frames received, and the user's choices.
#[derive(Debug, Default)]
pub struct State {
    pub(crate) source: String,
    pub(crate) history: History,
    pub(crate) chosen: Option<RowKey>,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// Whether keys go into the filter.
    pub(crate) editing: bool,
    /// The moment that is shown; `None` follows the newest frame.
    pub(crate) view_ns: Option<u64>,
    zoom_steps: isize,
    pub(crate) tab: Tab,
    pub(crate) help: bool,
    pub(crate) ended: bool,
}

impl State {
    /// Without frames. `source`: [`crate::Feed::name`].
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// Adds the newest frame. Chooses the first row if none was chosen.
    pub fn push(&mut self, frame: Frame) {
        self.history.push(frame);
        if self.chosen.is_none() {
            self.chosen = self.rows().first().map(|row| row.key);
        }
    }

    /// The feed has no more frames.
    pub fn set_ended(&mut self) {
        self.ended = true;
    }

    /// The row whose details are shown.
    pub fn chosen(&self) -> Option<RowKey> {
        self.chosen
    }

    /// Time that one column of the time axis spans, in nanoseconds.
    pub(crate) fn column_ns(&self) -> u64 {
        let index = ZOOM_START.saturating_add_signed(self.zoom_steps).min(ZOOMS_NS.len() - 1);
        ZOOMS_NS[index]
    }

    /// The frame that is shown.
    pub(crate) fn frame(&self) -> Option<&Frame> {
        match self.view_ns {
            Some(at_ns) => self.history.at(at_ns),
            None => self.history.newest(),
        }
    }

    /// Rows that the filter lets through, in the order of the list. Unknown figures come last.
    pub(crate) fn rows(&self) -> Vec<&GroupRow> {
        let wanted = self.filter.to_lowercase();
        let groups = self.frame().map_or(&[][..], |frame| &frame.groups);
        let mut rows: Vec<&GroupRow> =
            groups.iter().filter(|row| wanted.is_empty() || row.name.to_lowercase().contains(&wanted)).collect();
        let figure = |row: &GroupRow| match self.sort {
            Sort::Hot => row.hot_bytes,
            Sort::Warm => row.warm_bytes,
            Sort::Cold => row.cold_bytes,
            Sort::Swapped => row.swapped_bytes,
            Sort::Name => None,
        };
        // Where the figure is not known, the largest come first all the same.
        let resident = |row: &GroupRow| if self.sort == Sort::Name { None } else { row.resident_bytes };
        rows.sort_by(|a, b| {
            let by_figure = figure(b).cmp(&figure(a)).then_with(|| resident(b).cmp(&resident(a)));
            by_figure.then_with(|| a.name.cmp(&b.name)).then(a.key.cmp(&b.key))
        });
        rows
    }

    /// Changes the state for `key`.
    pub fn key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                KeyCode::Char('z') => Effect::Suspend,
                KeyCode::Char('l') => Effect::Repaint,
                _ => Effect::None,
            };
        }
        if self.editing {
            return self.edit(key.code);
        }
        if self.help {
            self.help = false;
            return Effect::Redraw;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('j') | KeyCode::Down => self.move_by(1),
            KeyCode::Char('k') | KeyCode::Up => self.move_by(-1),
            KeyCode::PageDown => self.move_by(PAGE_ROWS),
            KeyCode::PageUp => self.move_by(-PAGE_ROWS),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Char('s') => {
                let index = Sort::ALL.iter().position(|&sort| sort == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(index + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ' | 'p') => {
                self.view_ns = match self.view_ns {
                    Some(_) => None,
                    None => self.history.newest().map(|frame| frame.at_ns),
                }
            }
            KeyCode::Left => self.go(false),
            KeyCode::Right => self.go(true),
            KeyCode::Char('+' | '=') => self.zoom(-1),
            KeyCode::Char('-') => self.zoom(1),
            KeyCode::Tab | KeyCode::Enter => {
                let index = Tab::ALL.iter().position(|&tab| tab == self.tab).unwrap_or(0);
                self.tab = Tab::ALL[(index + 1) % Tab::ALL.len()];
            }
            KeyCode::Char(digit @ '1'..='5') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            _ => return Effect::None,
        }
        Effect::Redraw
    }

    fn edit(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(c) => self.filter.push(c),
            _ => return Effect::None,
        }
        Effect::Redraw
    }

    fn move_by(&mut self, rows: isize) {
        let keys: Vec<RowKey> = self.rows().iter().map(|row| row.key).collect();
        let at = keys.iter().position(|&key| Some(key) == self.chosen).unwrap_or(0);
        let to = at.saturating_add_signed(rows).min(keys.len().saturating_sub(1));
        self.chosen = keys.get(to).copied().or(self.chosen);
    }

    /// Steps of the zoom stay within its table, so that each key press has an effect or none.
    fn zoom(&mut self, steps: isize) {
        let index = ZOOM_START.saturating_add_signed(self.zoom_steps).saturating_add_signed(steps);
        if index < ZOOMS_NS.len() && ZOOM_START.checked_add_signed(self.zoom_steps + steps).is_some() {
            self.zoom_steps += steps;
        }
    }

    /// Goes back or forward in time; forward from the newest frame follows it.
    fn go(&mut self, forward: bool) {
        let frames = self.history.frames();
        let (Some(oldest), Some(newest)) = (frames.front(), frames.back()) else { return };
        let (oldest_ns, newest_ns) = (oldest.at_ns, newest.at_ns);
        let step_ns = STEP_COLUMNS * self.column_ns();
        let at_ns = self.view_ns.unwrap_or(newest_ns);
        self.view_ns = if forward {
            Some(at_ns.saturating_add(step_ns)).filter(|&at_ns| at_ns < newest_ns)
        } else {
            Some(at_ns.saturating_sub(step_ns).max(oldest_ns))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_keys;

    fn state() -> State {
        let mut state = State::new("test");
        for second in 1..=100 {
            let row = |key, name: &str, hot: Option<u64>, cold| GroupRow {
                key: RowKey(key),
                name: name.to_owned(),
                hot_bytes: hot,
                cold_bytes: cold,
                ..GroupRow::default()
            };
            let groups =
                vec![row(1, "beta", Some(5), Some(1)), row(2, "Alpha", Some(9), None), row(3, "gamma", None, Some(7))];
            state.push(Frame { at_ns: second * 1_000_000_000, groups, ..Frame::default() });
        }
        state
    }

    #[test]
    fn keys_by_table() {
        type Check = fn(&State) -> bool;
        let table: [(&str, Check); 17] = [
            ("", |state| state.chosen == Some(RowKey(2)) && state.view_ns.is_none()),
            ("j", |state| state.chosen == Some(RowKey(1))),
            ("jjjjj", |state| state.chosen == Some(RowKey(3))),
            ("<end><home>", |state| state.chosen == Some(RowKey(2))),
            ("<end>k", |state| state.chosen == Some(RowKey(1))),
            ("ss", |state| state.sort == Sort::Cold && state.rows()[0].key == RowKey(3)),
            ("ssss", |state| state.rows()[0].name == "Alpha"),
            ("sssss", |state| state.sort == Sort::Hot),
            ("/AL", |state| state.rows().len() == 1 && state.editing),
            ("/AL<backspace><backspace><enter>", |state| state.rows().len() == 3 && !state.editing),
            ("/q<esc>", |state| state.filter.is_empty() && !state.editing),
            ("p", |state| state.view_ns == Some(100_000_000_000)),
            ("pp", |state| state.view_ns.is_none()),
            ("<left><left>", |state| {
                state.view_ns == Some(99_000_000_000) && state.frame().unwrap().at_ns == 99_000_000_000
            }),
            ("<left><right>", |state| state.view_ns.is_none()),
            ("----------+", |state| state.column_ns() == 10_000_000_000),
            ("++++++++++-", |state| state.column_ns() == 20_000_000),
        ];
        for (keys, check) in table {
            let mut state = state();
            for key in parse_keys(keys).unwrap() {
                assert_eq!(state.key(key), Effect::Redraw, "{keys}");
            }
            assert!(check(&state), "{keys}: {:?} {:?} {:?}", state.chosen, state.view_ns, state.sort);
        }
    }

    #[test]
    fn control_keys_work_everywhere() {
        for before in ["", "/", "?"] {
            let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
            let mut state = state();
            parse_keys(before).unwrap().into_iter().for_each(|key| _ = state.key(key));
            assert_eq!(state.key(control('c')), Effect::Quit);
            assert_eq!(state.key(control('z')), Effect::Suspend);
            assert_eq!(state.key(control('x')), Effect::None);
        }
        assert_eq!(State::new("").key(parse_keys("q").unwrap()[0]), Effect::Quit);
    }

    #[test]
    fn an_empty_state_takes_every_key() {
        let mut state = State::new("");
        for c in "jk?x s/ab".chars().chain(('1'..='9').rev()) {
            state.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
        for key in parse_keys("<enter><esc><tab><left><right><home><end><pageup><pagedown>+-p").unwrap() {
            state.key(key);
        }
        assert_eq!(state.chosen(), None);
    }
}
