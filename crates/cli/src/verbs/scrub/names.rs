//! Pseudonyms: each name gets one, the same everywhere.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_daemon::changes::is_protected_name;
use isotherm_units::wildcard::fits;

/// Kind of thing that has a name. Pseudonyms are `group-1`, `process-1`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Group,
    Process,
    Mapping,
    Command,
    Host,
    Path,
    Target,
    Section,
    Pid,
    Note,
    User,
}

impl Kind {
    pub(super) const ALL: [Self; 11] = [
        Self::Group,
        Self::Process,
        Self::Mapping,
        Self::Command,
        Self::Host,
        Self::Path,
        Self::Target,
        Self::Section,
        Self::Pid,
        Self::Note,
        Self::User,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Process => "process",
            Self::Mapping => "mapping",
            Self::Command => "command",
            Self::Host => "host",
            Self::Path => "path",
            Self::Target => "target",
            Self::Section => "section",
            Self::Pid => "pid",
            Self::Note => "note",
            Self::User => "user",
        }
    }
}

/// Files of the kernel in the folder of a control group begin so.
const CONTROLLERS: [&str; 11] =
    ["cgroup.", "cpu.", "cpuset.", "devices.", "hugetlb.", "io.", "irq.", "memory.", "misc.", "pids.", "rdma."];
/// Below these a path names a knob or one of isotherm's own files, and contains no user's data.
const OPEN: [&str; 7] =
    ["/sys/", "/proc/", "/dev/damon", "/run/isotherm/", "/var/lib/isotherm/", "/var/log/isotherm/", "/etc/isotherm/"];
const CGROUPS: &str = "/sys/fs/cgroup/";

/// Names that were found, and their replacements. It is made in two passes over a file: the first one notes names, and changes nothing.
#[derive(Debug, Default)]
pub(super) struct Names {
    is_planned: bool,
    met: BTreeMap<Kind, BTreeSet<String>>,
    pids: BTreeSet<u32>,
    /// Parts of paths of groups with `*` or `?`.
    patterns: BTreeSet<String>,
    /// Full paths of groups, for words that contain them.
    paths: BTreeSet<String>,
    pseudonyms: BTreeMap<(Kind, String), String>,
    /// Known names to replace in words, the longest first: old and new name.
    known: Vec<(Kind, String, String)>,
    counts: BTreeMap<Kind, u64>,
}

impl Names {
    /// After this call names are replaced. Numbers follow the order of names, so that a list sorted by name stays sorted.
    pub(super) fn plan(&mut self) {
        let patterns: Vec<String> = self.patterns.iter().cloned().collect();
        for (nth, pattern) in (1..).zip(&patterns) {
            self.pseudonyms.insert((Kind::Group, pattern.clone()), format!("*_set-{nth}_*"));
        }
        for (kind, names) in &self.met {
            let width = names.len().to_string().len();
            for (nth, name) in (1..).zip(names) {
                // Only numbers order pseudonyms; the patterns that match a name follow.
                let fitting = (1..).zip(&patterns).filter(|(_, pattern)| *kind == Kind::Group && fits(pattern, name));
                let sets: String = fitting.map(|(set, _)| format!("set-{set}_")).collect();
                let sets = if sets.is_empty() { sets } else { format!("_{sets}") };
                let pseudonym = format!("{}-{nth:0width$}{sets}", kind.word());
                self.pseudonyms.entry((*kind, name.clone())).or_insert(pseudonym);
            }
        }
        self.is_planned = true;
        let mut known: Vec<(Kind, String, String)> = Vec::new();
        for path in self.paths.clone() {
            let to = self.by_parts(&path);
            known.push((Kind::Group, path, to));
        }
        let of_kind = |kind| matches!(kind, Kind::Process | Kind::Mapping | Kind::Command | Kind::Host);
        let others = self.pseudonyms.iter().filter(|((kind, name), _)| of_kind(*kind) && name.len() > 1);
        known.extend(others.map(|((kind, name), to)| (*kind, name.clone(), to.clone())));
        // A name that contains another one comes first.
        known.sort_by(|one, other| other.1.len().cmp(&one.1.len()).then_with(|| one.cmp(other)));
        self.known = known;
        self.counts.clear();
    }

    /// How often names of each kind were replaced, and how many there are.
    pub(super) fn counts(&self) -> Vec<(Kind, usize, u64)> {
        let nr = |kind: Kind| match kind {
            Kind::Pid => self.pids.len(),
            _ => self.pseudonyms.keys().filter(|(of, _)| *of == kind).count(),
        };
        let counts = Kind::ALL.into_iter().filter_map(|kind| Some((kind, nr(kind), *self.counts.get(&kind)?)));
        counts.filter(|(.., times)| *times > 0).collect()
    }

    fn count(&mut self, kind: Kind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Replacement of a name; empty for an empty name.
    pub(super) fn name(&mut self, kind: Kind, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        if !self.is_planned {
            self.met.entry(kind).or_default().insert(name.to_owned());
            return name.to_owned();
        }
        self.count(kind);
        self.pseudonym(kind, name)
    }

    fn pseudonym(&self, kind: Kind, name: &str) -> String {
        // A name that the first pass did not see is unknown, and is removed.
        let found = self.pseudonyms.get(&(kind, name.to_owned()));
        found.cloned().unwrap_or_else(|| format!("{}-0", kind.word()))
    }

    pub(super) fn pid(&mut self, pid: u32) -> u32 {
        if pid == 0 {
            return 0;
        }
        if !self.is_planned {
            self.pids.insert(pid);
            return pid;
        }
        self.count(Kind::Pid);
        // Process 1 cannot be a target.
        u32::try_from(self.pids.iter().take_while(|known| **known < pid).count() + 2).unwrap_or(u32::MAX)
    }

    /// The path of a control group, or a pattern of paths, part by part. Names that isotherm knows, and uses for decisions, stay.
    pub(super) fn group(&mut self, path: &str) -> String {
        if path.split('/').all(str::is_empty) {
            return path.to_owned();
        }
        if !self.is_planned {
            self.paths.insert(path.to_owned());
            for part in path.split('/').filter(|part| !part.is_empty() && !is_public(part)) {
                if part.contains(['*', '?']) {
                    self.patterns.insert(part.to_owned());
                } else {
                    self.met.entry(Kind::Group).or_default().insert(part.to_owned());
                }
            }
            return path.to_owned();
        }
        let to = self.by_parts(path);
        if to != path {
            self.count(Kind::Group);
        }
        to
    }

    fn by_parts(&self, path: &str) -> String {
        let parts = path.split('/').map(|part| {
            if part.is_empty() || is_public(part) { part.to_owned() } else { self.pseudonym(Kind::Group, part) }
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// A path of a file: knobs of the kernel stay, except for the groups and processes in them.
    pub(super) fn path(&mut self, path: &str) -> String {
        if let Some(rest) = path.strip_prefix(CGROUPS) {
            let (group, file) = match rest.rsplit_once('/') {
                Some((group, file)) if is_control(file) => (group, Some(file)),
                None if is_control(rest) => return path.to_owned(),
                _ => (rest, None),
            };
            let group = self.group(group);
            let file = file.map_or_else(String::new, |file| format!("/{file}"));
            return format!("{CGROUPS}{group}{file}");
        }
        if let Some(rest) = path.strip_prefix("/proc/") {
            let (first, file) = rest.split_once('/').unwrap_or((rest, ""));
            if let Ok(pid) = first.parse() {
                let slash = if rest.contains('/') { "/" } else { "" };
                return format!("/proc/{}{slash}{file}", self.pid(pid));
            }
        }
        if OPEN.iter().any(|open| path.starts_with(open)) {
            return path.to_owned();
        }
        let is_group = |known: &String| {
            path == known || path.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if self.paths.iter().any(is_group) {
            return self.group(path);
        }
        format!("/{}", self.name(Kind::Path, path.trim_start_matches('/')))
    }

    /// Words for people or for the kernel, which may contain names.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = ' ';
        while let Some(next) = rest.chars().next() {
            let is_start = !(before.is_alphanumeric() || "/_-.".contains(before));
            if is_start && let Some((length, to)) = self.at(rest, &out) {
                out.push_str(&to);
                before = 'x';
                rest = &rest[length..];
                continue;
            }
            out.push(next);
            before = next;
            rest = &rest[next.len_utf8()..];
        }
        out
    }

    /// A name at the beginning of `rest`: its length, and its replacement.
    fn at(&mut self, rest: &str, out: &str) -> Option<(usize, String)> {
        let ends = |length: usize| {
            let after = rest[length..].chars().next();
            after.is_none_or(|after| !(after.is_alphanumeric() || "_-".contains(after)))
        };
        let known = self.known.iter().find(|(_, name, _)| rest.starts_with(name.as_str()) && ends(name.len()));
        // A known name before a `/` is only the start of a longer path.
        let known = known.filter(|(_, name, _)| !rest[name.len()..].starts_with('/'));
        if let Some((kind, name, to)) = known.cloned() {
            self.count(kind);
            return Some((name.len(), to));
        }
        if rest.starts_with('/') {
            let end = rest.find(|c: char| c.is_whitespace() || "\"'`,;)]}".contains(c)).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches([':', '.']);
            return (path.len() > 1).then(|| (path.len(), self.path(path)));
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let word = out.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if digits > 0 && ["pid", "PID", "process"].contains(&word) {
            return Some((digits, self.pid(rest[..digits].parse().ok()?).to_string()));
        }
        None
    }
}

/// Names of groups that every machine has, and by which isotherm leaves groups alone.
fn is_public(part: &str) -> bool {
    part == "*" || is_protected_name(part)
}

fn is_control(file: &str) -> bool {
    CONTROLLERS.iter().any(|controller| file.starts_with(controller))
        && !file.ends_with(".service")
        && !file.ends_with(".slice")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(note: impl Fn(&mut Names)) -> Names {
        let mut names = Names::default();
        note(&mut names);
        names.plan();
        names
    }

    #[test]
    fn a_name_has_one_pseudonym_wherever_it_stands() {
        let mut names = planned(|names| {
            names.group("/app.slice/db.service");
            names.group("/app.slice/web-*.service");
            names.group("/app.slice/web-1.service");
            names.group("/system.slice/ssh.service");
            names.name(Kind::Process, "redis-server");
            names.pid(4711);
            names.pid(12);
        });
        assert_eq!(names.group("/app.slice/db.service"), "/group-1/group-2");
        assert_eq!(names.group("/app.slice/web-1.service"), "/group-1/group-3_set-1_");
        assert_eq!(names.group("/app.slice/web-*.service"), "/group-1/*_set-1_*");
        assert_eq!(names.group("/system.slice/ssh.service"), "/system.slice/ssh.service");
        assert_eq!((names.pid(12), names.pid(4711), names.pid(0)), (2, 3, 0));
        assert_eq!(names.path("/sys/fs/cgroup/app.slice/memory.high"), "/sys/fs/cgroup/group-1/memory.high");
        assert_eq!(names.path("/proc/4711/smaps"), "/proc/3/smaps");
        assert_eq!(names.path("/sys/kernel/mm/lru_gen/enabled"), "/sys/kernel/mm/lru_gen/enabled");
        assert_eq!(
            names.text("cannot read /sys/fs/cgroup/app.slice/db.service/memory.high: process 4711 (redis-server) left /app.slice/db.service"),
            "cannot read /sys/fs/cgroup/group-1/group-2/memory.high: process 3 (process-1) left /group-1/group-2"
        );
        assert_eq!(names.text("50 pages/s, n/a, 1/2"), "50 pages/s, n/a, 1/2");
    }
}
