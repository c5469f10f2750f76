//! Tests of the journal and the knob writer, with a fault or a kill at every call.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

const HIGH: &str = "/sys/fs/cgroup/a/memory.high";
const ENABLED: &str = "/sys/kernel/mm/lru_gen/enabled";
const TTL: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";
/// Takes no value.
const STUBBORN: &str = "/proc/sys/kernel/numa_balancing";
/// Rounds down to a page.
const ROUND: &str = "/sys/fs/cgroup/b/memory.max";

/// State that outlives a program: bytes on disk, knobs of the kernel.
#[derive(Debug, Default)]
struct System {
    bytes: RefCell<Vec<u8>>,
    knobs: RefCell<BTreeMap<String, String>>,
    /// Calls that were made.
    calls: Cell<u32>,
    /// The call that fails, from 0 on.
    fails_at: Cell<Option<u32>>,
    /// All calls from that one on fail: the program was killed.
    is_kill: Cell<bool>,
    /// A write of this knob does not return in time.
    slow: Cell<Option<&'static str>>,
    /// Value that it will hold later.
    late: RefCell<Option<String>>,
    /// No byte can be written any more.
    is_full: Cell<bool>,
    /// The journal was removed.
    is_removed: Cell<bool>,
    /// Writes of the journal.
    appends: Cell<u32>,
    /// Inode of each group, once there are any.
    group: Cell<u64>,
    has_groups: Cell<bool>,
    /// Quarters, of 4, of the faulty write that reach the disk.
    quarters: Cell<usize>,
}

impl System {
    fn new() -> Rc<Self> {
        let world = Self { has_groups: Cell::new(true), ..Self::default() };
        let knobs = [(HIGH, "max"), (ENABLED, "0x0007"), (TTL, "0"), (STUBBORN, "1"), (ROUND, "1048576")];
        world.knobs.borrow_mut().extend(knobs.map(|(path, value)| (path.to_owned(), value.to_owned())));
        Rc::new(world)
    }

    /// Whether this call fails.
    fn fails(&self) -> bool {
        let call = self.calls.replace(self.calls.get() + 1);
        self.fails_at.get().is_some_and(|at| call == at || (self.is_kill.get() && call > at))
    }

    /// Whether this call is the first to fail.
    fn is_first_fault(&self) -> bool {
        self.fails_at.get().is_some_and(|at| self.calls.get() == at + 1)
    }
}

#[derive(Debug)]
struct Disk(Rc<System>);

impl Store for Disk {
    fn reader(&mut self) -> io::Result<Box<dyn io::Read + '_>> {
        Ok(Box::new(io::Cursor::new(self.0.bytes.borrow().clone())))
    }
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        if self.0.fails() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0.bytes.borrow_mut().truncate(usize::try_from(bytes).unwrap());
        Ok(())
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.is_removed.get() {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        self.0.appends.set(self.0.appends.get() + 1);
        if self.0.is_full.get() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if self.0.fails() {
            if self.0.is_first_fault() {
                let some = bytes.len() * self.0.quarters.get() / 4;
                self.0.bytes.borrow_mut().extend_from_slice(&bytes[..some]);
            }
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0.bytes.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.is_full.get() || self.0.fails() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0.is_removed.set(false);
        *self.0.bytes.borrow_mut() = bytes.to_vec();
        Ok(())
    }
}

#[derive(Debug)]
struct Knobs(Rc<System>);

impl KnobStore for Knobs {
    fn value(&mut self, path: &str) -> Result<Option<String>, KnobError> {
        if self.0.fails() {
            return Err(KnobError::machine("EIO"));
        }
        Ok(self.0.knobs.borrow().get(path).cloned())
    }
    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        if self.0.slow.get() == Some(path) {
            assert!(self.0.late.replace(Some(value.to_owned())).is_none(), "never two on one knob");
            return Err(KnobError::machine("the kernel has not come back"));
        }
        let (fails, first) = (self.0.fails(), self.0.is_first_fault());
        // A write that fails may have happened or not.
        if !fails || (first && self.0.quarters.get() >= 2) {
            let value = match path {
                STUBBORN => "1".to_owned(),
                ROUND => (value.parse::<u64>().unwrap() / 4096 * 4096).to_string(),
                _ => value.to_owned(),
            };
            self.0.knobs.borrow_mut().insert(path.to_owned(), value);
        }
        if fails { Err(KnobError::machine("EIO")) } else { Ok(()) }
    }

    fn group(&mut self, path: &str) -> Option<u64> {
        (path.starts_with("/sys/fs/cgroup/") && self.0.has_groups.get()).then(|| self.0.group.get())
    }

    fn is_being_written(&mut self, path: &str) -> bool {
        self.0.slow.get() == Some(path) && self.0.late.borrow().is_some()
    }
}

fn hands(world: &Rc<System>, boot: &str) -> Result<JournaledKnobs<Disk, Knobs>, JournalError> {
    Ok(JournaledKnobs::new(Journal::read(Disk(Rc::clone(world)))?, Knobs(Rc::clone(world)), boot))
}

/// Some writes: one is refused by every kernel, one is rounded. After a failed write the next write follows.
fn work(world: &Rc<System>) {
    let mut hands = hands(world, "boot").unwrap();
    for (path, value) in [(HIGH, "104857600"), (ENABLED, "0x0000"), (STUBBORN, "2"), (HIGH, "73400320"), (TTL, "1000")]
    {
        let _ = hands.set("limits", path, value, |now| now == value);
    }
    let _ = hands.set("limits", ROUND, "100000", |now| now == "98304");
}

fn knobs(world: &System) -> BTreeMap<String, String> {
    world.knobs.borrow().clone()
}

/// The write of a knob takes effect after it timed out: the journal still has it.
#[test]
fn what_is_written_late_is_taken_back_too() {
    for is_killed in [false, true] {
        let world = System::new();
        let before = knobs(&world);
        world.slow.set(Some(HIGH));
        let mut first = hands(&world, "boot").unwrap();
        first.set("limits", HIGH, "104857600", |now| now == "104857600").unwrap_err();
        assert_eq!(knobs(&world), before);
        let returned = first.restore().changes;
        assert!(matches!(&returned[..], [(_, Returned::Failed(KnobError::Pending))]), "{returned:?}");
        let late = world.late.take().unwrap();
        world.knobs.borrow_mut().insert(HIGH.to_owned(), late);
        world.slow.set(None);
        if is_killed {
            first = hands(&world, "boot").unwrap();
        }
        let returned = first.restore().changes;
        assert!(matches!(&returned[..], [(_, Returned::Back)]), "{returned:?}");
        assert_eq!((knobs(&world), first.journal().open().count()), (before, 0));
    }
}

#[test]
fn what_was_written_is_taken_back() {
    let world = System::new();
    let before = knobs(&world);
    work(&world);
    let now = knobs(&world);
    assert_eq!((now[HIGH].as_str(), now[TTL].as_str(), now[ROUND].as_str()), ("73400320", "1000", "98304"));
    assert_eq!(now[STUBBORN], "1");
    let mut hands = hands(&world, "boot").unwrap();
    let open: Vec<&str> = hands.journal().open().map(|open| open.path.as_str()).collect();
    assert_eq!(open, [HIGH, ENABLED, HIGH, TTL, ROUND], "what no kernel takes is closed at once");
    let would = hands.would_restore(|_| true);
    assert_eq!(knobs(&world), now, "a dry run writes nothing");
    let returned = hands.restore().changes;
    assert_eq!(returned, would, "what a dry run says is what is done");
    assert!(returned.iter().all(|(_, what)| *what == Returned::Back), "{returned:?}");
    assert_eq!(knobs(&world), before);
    assert_eq!(hands.journal().open().count(), 0);
    assert!(hands.restore().changes.is_empty());
    // Again, in the same journal.
    work(&world);
    let _ = self::hands(&world, "boot").unwrap().restore();
    assert_eq!(knobs(&world), before);
}

#[test]
fn a_fault_or_a_kill_at_any_call_leaves_nothing_changed_after_a_restore() {
    let whole = System::new();
    work(&whole);
    let calls = whole.calls.get();
    assert!(calls > 20, "{calls}");
    let before = knobs(&System::new());
    let mut restored = 0;
    for (is_kill, quarters) in [(false, 0), (false, 2), (false, 4), (true, 0), (true, 1), (true, 3), (true, 4)] {
        for at in 0..calls + 30 {
            let world = System::new();
            world.fails_at.set(Some(at));
            world.is_kill.set(is_kill);
            world.quarters.set(quarters);
            work(&world);
            // A late fault hits the first restore too; a kill ends it.
            if let Ok(mut hands) = hands(&world, "boot") {
                let _ = hands.restore();
            }
            world.fails_at.set(None);
            let mut hands = hands(&world, "boot").unwrap_or_else(|error| panic!("{at} {is_kill} {quarters}: {error}"));
            let returned = hands.restore().changes;
            assert_eq!(knobs(&world), before, "at {at}, kill {is_kill}, {quarters} quarters: {returned:?}");
            assert_eq!(hands.journal().open().count(), 0);
            restored += returned.len();
        }
    }
    assert!(restored > 100, "{restored}");
}

#[test]
fn what_somebody_else_wrote_since_stays() {
    let world = System::new();
    work(&world);
    world.knobs.borrow_mut().insert(TTL.to_owned(), "7".to_owned());
    world.knobs.borrow_mut().insert(ENABLED.to_owned(), "0x0007".to_owned());
    world.knobs.borrow_mut().remove(ROUND);
    let mut hands = hands(&world, "boot").unwrap();
    let returned = hands.restore().changes;
    let of = |path: &str| returned.iter().find(|(open, _)| open.path == path).map(|(_, what)| what.clone()).unwrap();
    assert_eq!(of(TTL), Returned::Foreign("7".to_owned()));
    assert_eq!(of(ENABLED), Returned::WasSo);
    assert_eq!(of(ROUND), Returned::Gone);
    assert_eq!((knobs(&world)[TTL].as_str(), knobs(&world)[HIGH].as_str()), ("7", "max"));
    assert_eq!(hands.journal().open().count(), 0);
}

#[test]
fn what_cannot_be_read_stays_open() {
    let world = System::new();
    work(&world);
    let mut hands = hands(&world, "boot").unwrap();
    // The newest change is that of `ROUND`, and its reading the first call.
    world.fails_at.set(Some(world.calls.get()));
    let returned = hands.restore().changes;
    assert!(matches!(returned[0].1, Returned::Failed(_)), "{returned:?}");
    let open: Vec<&str> = hands.journal().open().map(|open| open.path.as_str()).collect();
    assert_eq!(open, [ROUND]);
    world.fails_at.set(None);
    assert_eq!(hands.restore().changes[0].1, Returned::Back);
}

#[test]
fn another_boot_has_nothing_to_take_back() {
    let world = System::new();
    work(&world);
    let now = knobs(&world);
    let returned = hands(&world, "later").unwrap().restore().changes;
    assert!(!returned.is_empty() && returned.iter().all(|(_, what)| *what == Returned::OtherBoot));
    assert_eq!(knobs(&world), now);
    assert_eq!(hands(&world, "boot").unwrap().journal().open().count(), 0);
}

#[test]
fn nothing_is_written_where_the_journal_cannot_be() {
    let world = System::new();
    let mut hands = hands(&world, "boot").unwrap();
    // The first call reads the knob, the second writes the journal.
    world.fails_at.set(Some(1));
    let refused = hands.set("x", TTL, "5", |now| now == "5").unwrap_err();
    assert!(matches!(refused, Refusal::Journal(JournalError::Io { what: "written", .. })), "{refused}");
    assert_eq!(knobs(&world)[TTL], "0");
    let missing = hands.set("x", "/sys/fs/cgroup/gone/memory.max", "5", |now| now == "5").unwrap_err().to_string();
    assert_eq!(missing, "/sys/fs/cgroup/gone/memory.max: there is no such knob");
    let so = hands.set("x", TTL, "0", |now| now == "0").unwrap();
    assert!(so.was_so && hands.journal().open().count() == 0);
}

#[test]
fn damaged_journals_are_refused_with_the_line() {
    let read = |bytes: &[u8]| {
        let world = System::new();
        *world.bytes.borrow_mut() = bytes.to_vec();
        Journal::read(Disk(world)).map(|journal| journal.open().count())
    };
    let world = System::new();
    work(&world);
    let good = world.bytes.borrow().clone();
    let whole = read(&good).unwrap();
    for end in 0..=good.len() {
        assert!(read(&good[..end]).unwrap() <= whole + 1, "cut at {end}");
    }
    assert_eq!(read(b"").unwrap(), 0);
    for (bytes, words) in [
        (&b"garbage\n"[..], "line 1 of the journal is damaged"),
        (b"{\"kind\":\"journal\",\"version\":1}\n{\"kind\":\"sets\"}\n", "line 2 of the journal is damaged"),
        (b"{\"kind\":\"journal\",\"version\":9}\n", "the journal is of version 9; allowed: 1 to 2"),
        (b"\xff\xfe\n", "line 1 of the journal is damaged"),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    let twice = [&good[..], &good[..]].concat();
    assert!(read(&twice).unwrap_err().to_string().contains("comes after change"));
    let mut flipped = good.clone();
    for at in (0..good.len()).step_by(7) {
        flipped[at] ^= 0x15;
        let _ = read(&flipped);
        flipped[at] = good[at];
    }
}

/// A write that failed decides nothing: what the knob holds afterwards does.
#[test]
fn a_write_that_failed_stays_open_only_if_it_changed_the_knob() {
    // None of the value reached the knob, or all of it.
    for (quarters, open) in [(0, 0), (2, 1)] {
        let world = System::new();
        world.quarters.set(quarters);
        let mut hands = hands(&world, "boot").unwrap();
        // The first call reads the knob, the second writes the journal, the third writes the knob.
        world.fails_at.set(Some(2));
        let refused = hands.set("x", TTL, "5", |now| now == "5").unwrap_err();
        assert!(refused.to_string().contains("EIO"), "{refused}");
        assert_eq!(hands.journal().open().count(), open, "{quarters} quarters");
        let holds = hands.journal().open().next().and_then(|open| open.holds.clone());
        assert_eq!(holds.as_deref(), (open == 1).then_some("5"));
        // Another program writes the same value later: it is no longer ours.
        world.knobs.borrow_mut().insert(TTL.to_owned(), "5".to_owned());
        let _ = hands.restore();
        assert_eq!(knobs(&world)[TTL], if open == 1 { "0" } else { "5" });
    }
}

#[test]
fn a_number_is_one_change_for_its_section_boot_and_group() {
    let change = |section: &str, boot: &str, group: u64| {
        let world = System::new();
        hands(&world, "boot").unwrap().set_often("limits.a", HIGH, 104_857_600).unwrap();
        world.group.set(group);
        hands(&world, boot).unwrap().set_often(section, HIGH, 73_400_320).unwrap();
        let hands = hands(&world, boot).unwrap();
        hands.journal().open().map(|open| (open.section.clone(), open.old.clone())).collect::<Vec<_>>()
    };
    let first = ("limits.a".to_owned(), "max".to_owned());
    assert_eq!(change("limits.a", "boot", 0), std::slice::from_ref(&first));
    for (section, boot, group) in [("limits.b", "boot", 0), ("limits.a", "later", 0), ("limits.a", "boot", 7)] {
        let second = (section.to_owned(), "104857600".to_owned());
        assert_eq!(change(section, boot, group), [first.clone(), second], "{section} {boot} {group}");
    }
}

#[test]
fn a_write_that_is_made_elsewhere_is_taken_back_if_it_was_made() {
    let world = System::new();
    let mut first = hands(&world, "boot").unwrap();
    first.note("monitor", TTL, "0", "5").unwrap();
    assert!(matches!(first.note("monitor", "/etc/passwd", "0", "5"), Err(Refusal::Knob { .. })));
    let open: Vec<_> = first.journal().open().map(|open| (open.path.clone(), open.new.clone())).collect();
    assert_eq!(open, [(TTL.to_owned(), "5".to_owned())]);
    world.knobs.borrow_mut().insert(TTL.to_owned(), "5".to_owned());
    let returned = hands(&world, "boot").unwrap().restore().changes;
    assert!(matches!(&returned[..], [(_, Returned::Back)]), "{returned:?}");
    assert_eq!(knobs(&world)[TTL], "0");
}

/// A knob of a kernel thread is noted before the thread is there. Once it is, the change is its own, and no other's.
#[test]
fn an_owner_that_came_later_is_noted() {
    let world = System::new();
    let groups = |world: &Rc<System>| {
        let hands = hands(world, "boot").unwrap();
        hands.journal().open().map(|open| (open.section.clone(), open.group)).collect::<Vec<_>>()
    };
    world.has_groups.set(false);
    let mut first = hands(&world, "boot").unwrap();
    for (section, path) in [("damon", HIGH), ("other", HIGH), ("damon", TTL)] {
        first.note(section, path, &knobs(&world)[path], "5").unwrap();
    }
    world.has_groups.set(true);
    world.group.set(9);
    first.identify("damon").unwrap();
    // What is noted again stands last.
    let noted = [("other", None), ("damon", None), ("damon", Some(9))].map(|(name, group)| (name.to_owned(), group));
    assert_eq!(groups(&world), noted);
    // The owner was replaced: what it noted stays as it is.
    world.group.set(10);
    first.identify("damon").unwrap();
    assert_eq!(groups(&world), noted);
}

/// On a full disk, or one that can only be read, all knobs are restored; the journal closes them when it can.
#[test]
fn knobs_are_restored_though_nothing_can_be_noted() {
    let world = System::new();
    let before = knobs(&world);
    work(&world);
    world.is_full.set(true);
    let mut full = hands(&world, "boot").unwrap();
    let restored = full.restore();
    assert_eq!(knobs(&world), before);
    assert_eq!(restored.changes.len(), 5);
    assert!(restored.changes.iter().all(|(_, what)| *what == Returned::Back), "{restored:?}");
    assert!(restored.not_noted.is_some_and(|why| why.to_string().contains("cannot be written")));
    // The same again, by this program and by another one.
    for mut again in [full, hands(&world, "boot").unwrap()] {
        let restored = again.restore();
        assert!(restored.changes.iter().all(|(_, what)| *what == Returned::WasSo), "{restored:?}");
        assert_eq!((knobs(&world), restored.changes.len()), (before.clone(), 5));
    }
    world.is_full.set(false);
    let mut later = hands(&world, "boot").unwrap();
    assert!(later.restore().not_noted.is_none());
    assert_eq!(hands(&world, "boot").unwrap().journal().open().count(), 0);
}

#[test]
fn zeros_of_a_power_cut_are_cut_off() {
    let before = knobs(&System::new());
    let whole = System::new();
    work(&whole);
    let good = whole.bytes.borrow().clone();
    // Within the last line, and behind it.
    for cut in (0..30).map(|short| good.len() - short) {
        for zeros in [1, 511, 4096, 3 << 20] {
            let world = System::new();
            *world.bytes.borrow_mut() = [&good[..cut], &vec![0; zeros]].concat();
            *world.knobs.borrow_mut() = knobs(&whole);
            let mut first = hands(&world, "boot").unwrap();
            first.set("x", STUBBORN, "2", |now| now == "2").unwrap_err();
            assert!(!world.bytes.borrow().contains(&0), "{cut} {zeros}");
            let restored = hands(&world, "boot").unwrap().restore();
            assert!(restored.not_noted.is_none());
            assert_eq!(knobs(&world), before, "{cut} {zeros}: {restored:?}");
        }
    }
    // As earlier versions left it, which appended behind the zeros.
    let world = System::new();
    *world.bytes.borrow_mut() =
        [&good[..], &[0; 100], b"\n", b"{\"kind\":\"closed\",\"number\":1,\"why\":\"x\"}\n"].concat();
    assert_eq!(hands(&world, "boot").unwrap().journal().open().count(), 4);
}

#[test]
fn a_journal_is_written_anew_when_most_of_it_is_closed() {
    let world = System::new();
    let mut hands = hands(&world, "boot").unwrap();
    hands.set("stays", TTL, "5", |now| now == "5").unwrap();
    for round in 0..4_000 {
        let value = (4096 * (1 + round)).to_string();
        hands.set("goes", HIGH, &value, |now| now == value).unwrap();
        hands.set_often("often", ROUND, 4096 * (1 + round)).unwrap();
        hands.restore_sections(&["goes".to_owned()]);
    }
    let length = world.bytes.borrow().len();
    assert!(length < 600 << 10, "{length}");
    let open: Vec<String> =
        self::hands(&world, "boot").unwrap().journal().open().map(|open| open.section.clone()).collect();
    assert_eq!(open, ["stays", "often"]);
    let restored = self::hands(&world, "boot").unwrap().restore().changes;
    assert!(restored.iter().all(|(_, what)| *what == Returned::Back), "{restored:?}");
    assert_eq!(knobs(&world), knobs(&System::new()));
}

#[test]
fn ten_thousand_changes_are_restored_with_one_write_of_the_journal() {
    let world = System::new();
    let mut hands = hands(&world, "boot").unwrap();
    let paths: Vec<String> = (0..10_000).map(|group| format!("/sys/fs/cgroup/{group}/memory.high")).collect();
    for path in &paths {
        world.knobs.borrow_mut().insert(path.clone(), "max".to_owned());
        hands.set("limits.x", path, "4096", |now| now == "4096").unwrap();
    }
    let appends = world.appends.get();
    assert_eq!(hands.restore().changes.len(), paths.len());
    assert_eq!(world.appends.get(), appends + 1);
    assert!(paths.iter().all(|path| world.knobs.borrow()[path] == "max"));
}

#[test]
fn a_journal_that_was_removed_is_begun_anew_with_what_is_open() {
    let world = System::new();
    let before = knobs(&world);
    work(&world);
    let mut first = hands(&world, "boot").unwrap();
    world.bytes.borrow_mut().clear();
    world.is_removed.set(true);
    first.set("x", TTL, "9", |now| now == "9").unwrap();
    let mut second = hands(&world, "boot").unwrap();
    assert_eq!(second.journal().open().count(), 6);
    let restored = second.restore();
    assert!(restored.changes.iter().all(|(_, what)| *what == Returned::Back), "{restored:?}");
    assert_eq!(knobs(&world), before);
}

/// A group that was removed and made again under the same name is not the limited one.
#[test]
fn a_group_that_was_made_again_keeps_what_it_holds() {
    let world = System::new();
    let mut hands = hands(&world, "boot").unwrap();
    hands.set("limits", HIGH, "104857600", |now| now == "104857600").unwrap();
    world.group.set(7);
    let returned = self::hands(&world, "boot").unwrap().restore().changes;
    assert!(matches!(&returned[..], [(_, Returned::Gone)]), "{returned:?}");
    assert_eq!(knobs(&world)[HIGH], "104857600", "its unit says so");
}

/// A value near the written one is not ours; a value that the kernel rounded down to a page is.
#[test]
fn a_number_close_to_ours_is_somebody_elses() {
    for (held, is_ours) in [("73400320", true), ("83886080", false), ("73396224", false), ("52428800", false)] {
        let world = System::new();
        let mut hands = hands(&world, "boot").unwrap();
        for value in [104_857_600, 94_371_840, 73_400_320] {
            hands.set_often("limits.x /a", HIGH, value).unwrap();
        }
        world.knobs.borrow_mut().insert(HIGH.to_owned(), held.to_owned());
        let returned = self::hands(&world, "boot").unwrap().restore().changes;
        assert_eq!(returned.len(), 1, "one change, however often it was written");
        assert_eq!(returned[0].1 == Returned::Back, is_ours, "{held}: {returned:?}");
        assert_eq!(knobs(&world)[HIGH], if is_ours { "max" } else { held });
    }
    assert!(is_rounded("100000", "98304") && is_rounded("0x0007", "7") && !is_rounded("104857600", "104853504"));
}

/// Killed between the line and the write, the knob still holds the number before.
#[test]
fn the_number_before_is_ours_until_the_next_one_is_written() {
    let world = System::new();
    hands(&world, "boot").unwrap().set_often("limits.x /a", HIGH, 104_857_600).unwrap();
    // The calls: value, append, then the write.
    world.fails_at.set(Some(world.calls.get() + 2));
    world.is_kill.set(true);
    hands(&world, "boot").unwrap().set_often("limits.x /a", HIGH, 73_400_320).unwrap_err();
    world.fails_at.set(None);
    assert_eq!(knobs(&world)[HIGH], "104857600");
    let returned = hands(&world, "boot").unwrap().restore().changes;
    assert!(matches!(&returned[..], [(_, Returned::Back)]), "{returned:?}");
    assert_eq!(knobs(&world)[HIGH], "max");
}

/// Only knobs of ours are read or written, even if a journal names other files.
#[test]
fn a_journal_cannot_name_other_files_or_values() {
    let line = |path: &str, old: &str| {
        format!(
            "{{\"kind\":\"journal\",\"version\":1}}\n{{\"kind\":\"set\",\"number\":1,\"boot\":\"boot\",\"section\":\"x\",\
             \"path\":\"{path}\",\"old\":\"{old}\",\"new\":\"kept\"}}\n"
        )
    };
    for (path, old) in [("/etc/passwd", "1"), ("/sys/fs/cgroup/../../etc/memory.high", "max"), (HIGH, "evil::0:0")] {
        let world = System::new();
        *world.bytes.borrow_mut() = line(path, old).into_bytes();
        world.knobs.borrow_mut().insert(path.to_owned(), "kept".to_owned());
        let calls = world.calls.get();
        let returned = hands(&world, "boot").unwrap().restore().changes;
        assert!(matches!(&returned[..], [(_, Returned::Failed(KnobError::NotOurs(_)))]), "{path}: {returned:?}");
        assert_eq!(knobs(&world)[path], "kept");
        assert!(path == HIGH || world.calls.get() == calls, "{path} is not even read");
    }
    let mut hands = hands(&System::new(), "boot").unwrap();
    let refused = hands.set("x", "/etc/passwd", "1", |_| true).unwrap_err().to_string();
    assert!(refused.contains("no such knob"), "{refused}");
}

/// A newer change that cannot be undone keeps the older ones of its knob: they would be written over it.
#[test]
fn older_changes_wait_for_newer_ones() {
    let world = System::new();
    let mut hands = hands(&world, "boot").unwrap();
    hands.set("one", TTL, "5", |now| now == "5").unwrap();
    hands.set("two", TTL, "6", |now| now == "6").unwrap();
    world.slow.set(Some(TTL));
    let returned = hands.restore().changes;
    let [(_, Returned::Failed(_)), (_, Returned::Failed(KnobError::LaterChange))] = &returned[..] else {
        panic!("{returned:?}")
    };
    assert_eq!((knobs(&world)[TTL].as_str(), hands.journal().open().count()), ("6", 2));
}

/// A newer change whose old value a journal makes up keeps the older ones of its knob.
#[test]
fn older_changes_wait_for_a_newer_one_that_is_refused() {
    let line = |number: u32, old: &str, new: &str| {
        format!(
            "{{\"kind\":\"set\",\"number\":{number},\"boot\":\"boot\",\"section\":\"s{number}\",\"path\":\"{TTL}\",\
             \"old\":\"{old}\",\"new\":\"{new}\"}}\n"
        )
    };
    let world = System::new();
    let text = "{\"kind\":\"journal\",\"version\":1}\n".to_owned() + &line(1, "0", "5") + &line(2, "no number", "6");
    *world.bytes.borrow_mut() = text.into_bytes();
    world.knobs.borrow_mut().insert(TTL.to_owned(), "6".to_owned());
    let returned = hands(&world, "boot").unwrap().restore().changes;
    let [(_, Returned::Failed(KnobError::NotOurs(_))), (_, Returned::Failed(KnobError::LaterChange))] = &returned[..]
    else {
        panic!("{returned:?}")
    };
    assert_eq!(knobs(&world)[TTL], "6");
}

/// A knob that takes the old value for another one is not restored, and stays open.
#[test]
fn a_value_that_does_not_come_back_is_told() {
    let world = System::new();
    world.knobs.borrow_mut().insert(ROUND.to_owned(), "5000".to_owned());
    let mut hands = hands(&world, "boot").unwrap();
    hands.set("x", ROUND, "8192", |now| now == "8192").unwrap();
    let returned = hands.restore().changes;
    assert!(matches!(&returned[..], [(_, Returned::Failed(_))]), "{returned:?}");
    assert_eq!((knobs(&world)[ROUND].as_str(), hands.journal().open().count()), ("4096", 1));
}

/// What a section gives up is its own, of this boot; the changes of others stay to be taken back.
#[test]
fn a_section_is_forgotten_alone() {
    type Drop = fn(&mut JournaledKnobs<Disk, Knobs>, &str) -> Result<(), JournalError>;
    for drop in [JournaledKnobs::forget as Drop, JournaledKnobs::undone as Drop] {
        let world = System::new();
        hands(&world, "earlier").unwrap().set("damon", HIGH, "7", |now| now == "7").unwrap();
        let mut hands = hands(&world, "boot").unwrap();
        hands.set("damon", TTL, "5", |now| now == "5").unwrap();
        hands.set("other", ENABLED, "0", |now| now == "0").unwrap();
        drop(&mut hands, "damon").unwrap();
        let open: Vec<_> = hands.journal().open().map(|open| (open.section.as_str(), open.boot.as_str())).collect();
        assert_eq!(open, [("damon", "earlier"), ("other", "boot")]);
        hands.restore();
        assert_eq!((knobs(&world)[TTL].as_str(), knobs(&world)[ENABLED].as_str()), ("5", "0x0007"));
    }
}

/// A drop-in in `/etc` outlives a reboot, one in `/run` does not.
#[test]
fn a_limit_of_a_unit_is_taken_back_after_a_reboot_too() {
    let kept = "/etc/systemd/system.control/web.service.d/50-MemoryHigh.conf";
    let lost = "/run/systemd/system.control/web.service.d/50-MemoryMax.conf";
    let world = System::new();
    for path in [kept, lost] {
        world.knobs.borrow_mut().insert(path.to_owned(), "infinity".to_owned());
        let mut hands = hands(&world, "boot").unwrap();
        let wanted = UnitKnob::wanted("4096");
        hands.set("apply", path, &wanted, |now| shown(now) == "4096").unwrap();
    }
    let would = hands(&world, "later").unwrap().would_restore(|_| true);
    let returned = hands(&world, "later").unwrap().restore().changes;
    assert_eq!(would, returned);
    let of = |path: &str| returned.iter().find(|(open, _)| open.path == path).map(|(_, what)| what.clone()).unwrap();
    assert_eq!((of(kept), of(lost)), (Returned::Back, Returned::OtherBoot));
    assert_eq!((knobs(&world)[kept].as_str(), shown(&knobs(&world)[lost])), ("infinity", "4096"));
}
