//! Memory properties of systemd's units as knobs.
//!
//! The path of such a knob is the drop-in that `systemctl set-property` makes: `/etc/systemd/system.control/web.service.d/50-MemoryHigh.conf`.
//! Its value is the value of the property and, after a line break, the bytes of that drop-in, if there is one.

use super::line::{Open, is_rounded, same_value};

/// Folder of the drop-ins that systemd writes by itself, the first winning (systemd.unit(5), "Unit File Load Path").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropIns {
    /// `set-property`: outlives a reboot.
    Persistent,
    /// `set-property --runtime`: outlives a restart of the unit, and no reboot.
    Runtime,
    /// Either, for a transient unit, which takes it along when it ends.
    Transient,
}

const FOLDERS: [(DropIns, &str); 3] = [
    (DropIns::Persistent, "/etc/systemd/system.control"),
    (DropIns::Runtime, "/run/systemd/system.control"),
    (DropIns::Transient, "/run/systemd/transient"),
];

/// Properties, and the file of a group that each sets (systemd.resource-control(5)).
const PROPERTIES: [(&str, &str); 6] = [
    ("MemoryHigh", "memory.high"),
    ("MemoryLow", "memory.low"),
    ("MemoryMax", "memory.max"),
    ("MemoryMin", "memory.min"),
    ("MemorySwapMax", "memory.swap.max"),
    ("MemoryZSwapMax", "memory.zswap.max"),
];

/// Kinds of units that have a group, as suffixes, and their sections.
const KINDS: [(&str, &str); 6] = [
    (".service", "[Service]"),
    (".slice", "[Slice]"),
    (".scope", "[Scope]"),
    (".socket", "[Socket]"),
    (".mount", "[Mount]"),
    (".swap", "[Swap]"),
];

/// Longest name of a unit, in bytes (`UNIT_NAME_MAX`).
const NAME_MAX: usize = 255;
/// Longest drop-in that is kept, in bytes: systemd's own have about 200.
const DROP_IN_MAX: usize = 4096;

/// Whether a text is the name of a unit that has a group, and no template.
pub fn is_unit(name: &str) -> bool {
    let stem = KINDS.iter().find_map(|(kind, _)| name.strip_suffix(kind));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@-".contains(&byte);
    name.len() <= NAME_MAX
        && !name.starts_with(['-', '@', '.'])
        && name.bytes().all(is_plain)
        && stem.is_some_and(|stem| !stem.is_empty() && !stem.ends_with('@'))
}

/// A property of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitKnob {
    /// Full name: `web.service`.
    pub unit: String,
    /// `MemoryHigh`, for example.
    pub property: &'static str,
    pub place: DropIns,
}

impl UnitKnob {
    /// The property that sets a file of the unit's group; `None` for other files, and for what is no name of a unit.
    pub fn new(unit: &str, file: &str, place: DropIns) -> Option<Self> {
        let (property, _) = PROPERTIES.iter().find(|(_, its)| *its == file)?;
        is_unit(unit).then(|| Self { unit: unit.to_owned(), property, place })
    }

    /// The knob at a path.
    pub fn of(path: &str) -> Option<Self> {
        let (place, rest) =
            FOLDERS.iter().find_map(|(place, folder)| Some((*place, path.strip_prefix(folder)?.strip_prefix('/')?)))?;
        let (unit, name) = rest.split_once(".d/")?;
        let property = name.strip_prefix("50-")?.strip_suffix(".conf")?;
        let (_, file) = PROPERTIES.iter().find(|(its, _)| *its == property)?;
        Self::new(unit, file, place)
    }

    /// Path of the drop-in.
    pub fn path(&self) -> String {
        let folder = FOLDERS.iter().find(|(place, _)| *place == self.place).map_or("", |(_, folder)| folder);
        format!("{folder}/{}.d/{}", self.unit, self.name())
    }

    /// Name of the drop-in.
    pub fn name(&self) -> String {
        format!("50-{}.conf", self.property)
    }

    /// File of the unit's group that the property sets.
    pub fn file(&self) -> &'static str {
        PROPERTIES.iter().find(|(its, _)| *its == self.property).map_or("", |(_, file)| file)
    }

    /// The value of this knob for a property and a drop-in. An empty drop-in says nothing, and counts as none.
    pub fn value(property: &str, drop_in: Option<&str>) -> String {
        match drop_in {
            Some(bytes) if !bytes.is_empty() => format!("{property}\n{bytes}"),
            _ => property.to_owned(),
        }
    }

    /// A value that asks for a property, with the drop-in that systemd makes of it.
    pub fn wanted(property: &str) -> String {
        format!("{property}\n")
    }

    /// The value that a drop-in sets last.
    pub fn set_by<'a>(&self, drop_in: &'a str) -> Option<&'a str> {
        let assigned =
            |line: &'a str| Some(line.trim().strip_prefix(self.property)?.trim_start().strip_prefix('=')?.trim());
        drop_in.lines().filter_map(assigned).next_back()
    }

    /// Whether a value of the knob is due to `open`, a change of it: with the drop-in that systemd made, or with the one that a restore
    /// makes first, which was killed since.
    pub(super) fn is_of(&self, open: &Open, value: &str) -> bool {
        let (now, drop_in) = parts(value);
        let (old, old_drop_in) = parts(&open.old);
        let sets = |wanted: &str| drop_in.and_then(|text| self.set_by(text)).is_some_and(|set| same_value(set, wanted));
        let is_ours = match &open.holds {
            Some(holds) => value == holds,
            None => is_rounded(parts(&open.new).0, now) && sets(now),
        };
        is_ours || (now == old && drop_in != old_drop_in && sets(old))
    }

    /// Refuses a value that the journal must not hold: whatever is restored is read by systemd, as root. The text names what is allowed.
    pub fn refusal(&self, value: &str) -> Option<String> {
        let (property, drop_in) = parts(value);
        if property != "infinity" && property.parse::<u64>().is_err() {
            return Some(format!("`{}` is no value of it; allowed: a number or infinity", property.escape_debug()));
        }
        let drop_in = drop_in.unwrap_or_default();
        let strange = drop_in.lines().find(|line| !self.is_own(line));
        let why = match strange {
            Some(line) => format!("has the line `{}`", line.escape_debug()),
            None if drop_in.len() > DROP_IN_MAX => format!("has more than {DROP_IN_MAX} bytes"),
            None => return None,
        };
        Some(format!("its drop-in {why}; allowed: comments, its section, and {} alone; change it there", self.property))
    }

    /// Whether a line of a drop-in says nothing but this property. A backslash at its end would join it with the next.
    fn is_own(&self, line: &str) -> bool {
        let text = line.trim();
        let is_size = |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".%".contains(&byte));
        !text.ends_with('\\')
            && !text.contains(|character: char| character.is_control() && character != '\t')
            && (text.is_empty()
                || text.starts_with(['#', ';'])
                || KINDS.iter().any(|(_, section)| text == *section)
                || self.set_by(text).is_some_and(is_size))
    }
}

/// The property, and the bytes of its drop-in.
pub fn parts(value: &str) -> (&str, Option<&str>) {
    match value.split_once('\n') {
        Some((property, drop_in)) => (property, Some(drop_in)),
        None => (value, None),
    }
}

/// The part of a knob's value that people read: without the bytes of a drop-in.
pub fn shown(value: &str) -> &str {
    parts(value).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/etc/systemd/system.control/web.service.d/50-MemoryHigh.conf";
    const MADE: &str = "# This is a drop-in unit file extension, created via \"systemctl set-property\"\n\
        # or an equivalent operation. Do not edit.\n[Service]\nMemoryHigh=4096\n";

    #[test]
    fn names_of_units_are_strict() {
        for name in ["web.service", "a@b.service", "dev-sda\\x2d1.swap", "docker-0a.scope", "app.slice", "a:b_c.mount"]
        {
            assert!(is_unit(name), "{name}");
        }
        let long = format!("{}.service", "x".repeat(250));
        for name in [
            "web",
            ".service",
            "web.timer",
            "a@.service",
            "-.slice",
            "--help.service",
            "a b.service",
            "a/b.service",
            "../web.service",
            "web.service\n",
            "wéb.service",
            "web;x.service",
            long.as_str(),
            "",
        ] {
            assert!(!is_unit(name), "{name}");
        }
    }

    #[test]
    fn a_path_names_a_unit_and_a_property_of_the_table() {
        let knob = UnitKnob::of(PATH).unwrap();
        assert_eq!((knob.unit.as_str(), knob.property, knob.place), ("web.service", "MemoryHigh", DropIns::Persistent));
        assert_eq!((knob.path().as_str(), knob.file()), (PATH, "memory.high"));
        for (place, folder) in FOLDERS {
            for (property, file) in PROPERTIES {
                let knob = UnitKnob::new("a@b.service", file, place).unwrap();
                assert_eq!(knob.path(), format!("{folder}/a@b.service.d/50-{property}.conf"));
                assert_eq!(UnitKnob::of(&knob.path()), Some(knob));
            }
        }
        for path in [
            "/etc/systemd/system/web.service.d/50-MemoryHigh.conf",
            "/etc/systemd/system.control/web.service.d/50-ExecStart.conf",
            "/etc/systemd/system.control/web.service.d/60-MemoryHigh.conf",
            "/etc/systemd/system.control/../x.service.d/50-MemoryHigh.conf",
            "/etc/systemd/system.control/web.service.d/x/50-MemoryHigh.conf",
            "/etc/systemd/system.control/web.service.d/../50-MemoryHigh.conf",
            "/etc/systemd/system.controlx/web.service.d/50-MemoryHigh.conf",
        ] {
            assert_eq!(UnitKnob::of(path), None, "{path}");
        }
        assert_eq!(UnitKnob::new("web.service", "memory.peak", DropIns::Runtime), None);
    }

    /// The journal's text for a unit's knob: what the property is, and the drop-in that makes it so.
    #[test]
    fn a_value_is_the_property_and_its_drop_in() {
        assert_eq!(UnitKnob::value("4096", Some(MADE)), format!("4096\n{MADE}"));
        for none in [None, Some("")] {
            assert_eq!(UnitKnob::value("infinity", none), "infinity");
        }
    }

    /// A journal that could restore any drop-in would start programs as root.
    #[test]
    fn a_drop_in_says_nothing_but_the_property() {
        let knob = UnitKnob::of(PATH).unwrap();
        for value in ["infinity", "0", "4096\n", &format!("4096\n{MADE}"), "1\n; x\n\n[Slice]\n MemoryHigh = 10%\n"] {
            assert_eq!(knob.refusal(value), None, "{value}");
        }
        for (value, words) in [
            ("", "a number or infinity"),
            ("max", "a number or infinity"),
            ("-1", "a number or infinity"),
            ("1\n[Service]\nExecStartPre=/tmp/x\n", "the line `ExecStartPre=/tmp/x`"),
            ("1\n[Service]\nMemoryMax=1\n", "the line `MemoryMax=1`"),
            ("1\n[Service]\nMemoryHigh=\\\nExecStart=x\n", "the line `MemoryHigh=\\\\`"),
            ("1\n# x \\\nExecStart=x\n", "the line `# x \\\\`"),
            ("1\n[Install]\n", "the line `[Install]`"),
            ("1\n[Service]\nMemoryHigh=1 2\n", "the line"),
            ("1\n# \u{1b}[2J\n", "the line"),
        ] {
            assert!(knob.refusal(value).is_some_and(|why| why.contains(words)), "{value}: {:?}", knob.refusal(value));
        }
        let long = format!("1\n#{}\n", "x".repeat(DROP_IN_MAX));
        assert!(knob.refusal(&long).is_some_and(|why| why.contains("more than 4096 bytes")));
    }

    #[test]
    fn what_is_due_to_a_change_is_known_by_value_and_drop_in() {
        let knob = UnitKnob::of(PATH).unwrap();
        let made = format!("4096\n{MADE}");
        let text = |property: &str, set: &str| format!("{property}\n[Service]\nMemoryHigh={set}\n");
        let open = |holds: Option<&str>| Open {
            number: 1,
            boot: "b".to_owned(),
            section: "apply".to_owned(),
            path: PATH.to_owned(),
            old: "infinity".to_owned(),
            new: UnitKnob::wanted("4096"),
            holds: holds.map(str::to_owned),
            before: None,
            group: None,
        };
        for (holds, value, is_ours) in [
            (Some(made.as_str()), made.as_str(), true),
            // Killed before the journal could say what came of it.
            (None, &made, true),
            (None, &text("8192", "8192"), false),
            (None, "4096", false),
            // Killed in a restore, which has set the old value.
            (Some(&made), &text("infinity", "infinity"), true),
            // Another program's: value, drop-in, or both.
            (Some(&made), &text("8192", "8192"), false),
            (Some(&made), &text("8192", "4096"), false),
            (Some(&made), &text("4096", "4096"), false),
            (Some(&made), "4096", false),
        ] {
            assert_eq!(knob.is_of(&open(holds), value), is_ours, "{holds:?}: {value}");
        }
    }
}
