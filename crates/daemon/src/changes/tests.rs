//! Tests of the journal and the knob writer, with a fault or a kill at every call.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

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
    /// Quarters, of 4, of the faulty write that reach the disk.
    quarters: Cell<usize>,
}

impl System {
    fn new() -> Rc<Self> {
        let world = Self::default();
        let knobs =
            [("/high", "max"), ("/enabled", "0x0007"), ("/ttl", "0"), ("/stubborn", "1"), ("/round", "1048576")];
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
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.0.bytes.borrow().clone())
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
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
                "/stubborn" => "1".to_owned(),
                "/round" => (value.parse::<u64>().unwrap() / 4096 * 4096).to_string(),
                _ => value.to_owned(),
            };
            self.0.knobs.borrow_mut().insert(path.to_owned(), value);
        }
        if fails { Err(KnobError::machine("EIO")) } else { Ok(()) }
    }

    fn is_being_written(&mut self, path: &str) -> bool {
        self.0.slow.get() == Some(path) && self.0.late.borrow().is_some()
    }
}

fn hands(world: &Rc<System>, boot: &str) -> Result<JournaledKnobs<Disk, Knobs>, JournalError> {
    Ok(JournaledKnobs::new(Journal::read(Disk(Rc::clone(world)))?, Knobs(Rc::clone(world)), boot))
}

/// Some writes: one is refused by every kernel, one is rounded. After a failure the next one follows.
fn work(world: &Rc<System>) {
    let mut hands = hands(world, "boot").unwrap();
    for (path, value) in
        [("/high", "104857600"), ("/enabled", "0x0000"), ("/stubborn", "2"), ("/high", "73400320"), ("/ttl", "1000")]
    {
        let _ = hands.set("limits", path, value, |now| now == value);
    }
    let _ = hands.set("limits", "/round", "100000", |now| now == "98304");
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
        world.slow.set(Some("/high"));
        let mut first = hands(&world, "boot").unwrap();
        first.set("limits", "/high", "104857600", |now| now == "104857600").unwrap_err();
        assert_eq!(knobs(&world), before);
        let returned = first.restore().unwrap();
        assert!(matches!(&returned[..], [(_, Returned::Failed(KnobError::Pending))]), "{returned:?}");
        let late = world.late.take().unwrap();
        world.knobs.borrow_mut().insert("/high".to_owned(), late);
        world.slow.set(None);
        if is_killed {
            first = hands(&world, "boot").unwrap();
        }
        let returned = first.restore().unwrap();
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
    assert_eq!((now["/high"].as_str(), now["/ttl"].as_str(), now["/round"].as_str()), ("73400320", "1000", "98304"));
    assert_eq!(now["/stubborn"], "1");
    let mut hands = hands(&world, "boot").unwrap();
    let open: Vec<&str> = hands.journal().open().map(|open| open.path.as_str()).collect();
    assert_eq!(open, ["/high", "/enabled", "/high", "/ttl", "/round"], "what no kernel takes is closed at once");
    let would = hands.would_restore();
    assert_eq!(knobs(&world), now, "a dry run writes nothing");
    let returned = hands.restore().unwrap();
    assert_eq!(returned, would, "what a dry run says is what is done");
    assert!(returned.iter().all(|(_, what)| *what == Returned::Back), "{returned:?}");
    assert_eq!(knobs(&world), before);
    assert_eq!(hands.journal().open().count(), 0);
    assert!(hands.restore().unwrap().is_empty());
    // Again, in the same journal.
    work(&world);
    self::hands(&world, "boot").unwrap().restore().unwrap();
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
            let returned = hands.restore().unwrap();
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
    world.knobs.borrow_mut().insert("/ttl".to_owned(), "7".to_owned());
    world.knobs.borrow_mut().insert("/enabled".to_owned(), "0x0007".to_owned());
    world.knobs.borrow_mut().remove("/round");
    let mut hands = hands(&world, "boot").unwrap();
    let returned = hands.restore().unwrap();
    let of = |path: &str| returned.iter().find(|(open, _)| open.path == path).map(|(_, what)| what.clone()).unwrap();
    assert_eq!(of("/ttl"), Returned::Foreign("7".to_owned()));
    assert_eq!(of("/enabled"), Returned::WasSo);
    assert_eq!(of("/round"), Returned::Gone);
    assert_eq!((knobs(&world)["/ttl"].as_str(), knobs(&world)["/high"].as_str()), ("7", "max"));
    assert_eq!(hands.journal().open().count(), 0);
}

#[test]
fn what_cannot_be_read_stays_open() {
    let world = System::new();
    work(&world);
    let mut hands = hands(&world, "boot").unwrap();
    // The newest change is `/round`'s, and its reading the first call.
    world.fails_at.set(Some(world.calls.get()));
    let returned = hands.restore().unwrap();
    assert!(matches!(returned[0].1, Returned::Failed(_)), "{returned:?}");
    let open: Vec<&str> = hands.journal().open().map(|open| open.path.as_str()).collect();
    assert_eq!(open, ["/round"]);
    world.fails_at.set(None);
    assert_eq!(hands.restore().unwrap()[0].1, Returned::Back);
}

#[test]
fn another_boot_has_nothing_to_take_back() {
    let world = System::new();
    work(&world);
    let now = knobs(&world);
    let returned = hands(&world, "later").unwrap().restore().unwrap();
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
    let refused = hands.set("x", "/ttl", "5", |now| now == "5").unwrap_err();
    assert!(matches!(refused, Refusal::Journal(JournalError::Io { what: "written", .. })), "{refused}");
    assert_eq!(knobs(&world)["/ttl"], "0");
    let missing = hands.set("x", "/nowhere", "5", |now| now == "5").unwrap_err().to_string();
    assert_eq!(missing, "/nowhere: there is no such knob");
    let so = hands.set("x", "/ttl", "0", |now| now == "0").unwrap();
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
        (b"{\"kind\":\"journal\",\"version\":9}\n", "the journal is of version 9; allowed: 1"),
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
