//! Cases in groups that run at the same time: a group is one file of tests (or one module of unit tests) and runs in a process of its
//! own, one case after the other. So files share no state, cases of a file may share costly fixtures, and all processors are busy until
//! the end.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::programs::{Case, Program};
use super::verdicts::{self, Said};

/// A group that takes longer hangs. Two kernels of the rig that are slow to boot on a busy machine take a quarter of it.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Groups that take longest, in the order in which they begin: a long group that begins last is waited for on one processor.
const FIRST: &[&str] = &[
    "recorder tests record",
    "advise tests advise",
    "cli tests advise",
    "trace tests group_files",
    "sim unit machine",
    "daemon unit control_loop",
    "advise tests sampling",
    "cli tests daemon",
    "cli tests record",
    "cli tests page",
    "trace tests region_files",
    "cli tests trial",
    "scenario unit monitoring",
    "cli tests sweep",
];

/// Groups that wait for daemons, intervals and time-outs most of the time: one more worker than there are processors takes these alone.
const WAIT: &[&str] = &[
    "cli tests trial",
    "cli tests daemon",
    "cli tests scrub",
    "cli tests compact",
    "cli tests control",
    "cli tests min_ttl",
    "cli tests live",
    "cli tests prometheus",
];

const ALIVE: &str = "no worker panics while it holds a lock";

/// One group of cases.
pub(super) struct Group<'a> {
    program: &'a Program,
    /// `PACKAGE KIND MODULE`.
    pub(super) name: String,
    cases: Vec<String>,
    /// Its guests would share the processors with those of another group, and neither would end in time.
    boots_kernels: bool,
    /// It is one of [`WAIT`].
    waits: bool,
}

/// Result of a group.
pub(super) struct Ran {
    pub(super) name: String,
    pub(super) said: Said,
    pub(super) took: Duration,
    /// Cases without a verdict, and the program's standard error, if it did not end well.
    pub(super) broken: Option<String>,
}

/// Groups of all cases that `is_wanted` accepts, the longest first.
pub(super) fn groups<'a>(
    programs: &'a [(Program, Vec<Case>)],
    is_wanted: impl Fn(&Program, &Case) -> bool,
) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    for (program, cases) in programs {
        let mut by_module: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for case in cases.iter().filter(|case| is_wanted(program, case)) {
            let module = case.name.split_once("::").map_or("", |(module, _)| module);
            by_module.entry(module).or_default().push(case.name.clone());
        }
        groups.extend(by_module.into_iter().map(|(module, cases)| {
            let name = format!("{} {} {module}", program.package, program.kind).trim_end().to_owned();
            let boots_kernels =
                matches!(program.package.as_str(), "rig" | "fidelity" | "lab") && program.kind == "tests";
            Group { program, waits: WAIT.contains(&name.as_str()), name, cases, boots_kernels }
        }));
    }
    let place = |group: &Group<'_>| FIRST.iter().position(|first| *first == group.name).unwrap_or(FIRST.len());
    groups.sort_by_key(|group| (place(group), group.program.kind == "unit", std::cmp::Reverse(group.cases.len())));
    groups
}

/// Other work for a worker, done before it runs groups.
pub(super) struct Errand<'e> {
    pub(super) work: Box<dyn FnOnce() + Send + 'e>,
    /// Groups that boot kernels wait for it.
    pub(super) brings_kernels: bool,
}

/// Runs all errands and groups on as many processors as there are, and those that wait next to them. Calls `report` when a group has
/// ended.
pub(super) fn run(mut errands: Vec<Errand<'_>>, groups: Vec<Group<'_>>, report: impl Fn(&Ran) + Sync) -> Vec<Ran> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    // On one processor kernels must be there before groups wait for them.
    errands.sort_by_key(|errand| !errand.brings_kernels);
    let queue = Mutex::new((groups, errands.iter().any(|errand| errand.brings_kernels)));
    let errands = Mutex::new(errands.into_iter().collect::<VecDeque<_>>());
    let ended = Mutex::new(Vec::new());
    // Takes groups until none is left that it may run; `only_waiting`: those that wait.
    let work = |only_waiting: bool| {
        loop {
            let taken = {
                let mut queue = queue.lock().expect(ALIVE);
                let (groups, kernels_run) = &mut *queue;
                let may_run = |group: &Group<'_>| !(group.boots_kernels && *kernels_run);
                let next = groups.iter().position(|group| may_run(group) && group.waits == only_waiting);
                let next = next.or_else(|| groups.iter().position(|group| may_run(group) && !only_waiting));
                // Only groups with kernels are left, and one runs: they are its worker's.
                let Some(next) = next else { break };
                let group = groups.remove(next);
                *kernels_run |= group.boots_kernels;
                group
            };
            let ran = taken.run();
            if taken.boots_kernels {
                queue.lock().expect(ALIVE).1 = false;
            }
            report(&ran);
            ended.lock().expect(ALIVE).push(ran);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(errand) = { errands.lock().expect(ALIVE).pop_front() } {
                    (errand.work)();
                    if errand.brings_kernels {
                        queue.lock().expect(ALIVE).1 = false;
                    }
                }
                work(false);
            });
        }
        scope.spawn(|| work(true));
    });
    ended.into_inner().expect("all workers have ended")
}

impl Group<'_> {
    fn run(&self) -> Ran {
        let start = Instant::now();
        let (said, ended) = self.start().unwrap_or_else(|error| (Said::default(), Err(error)));
        let missing = self.cases.len().saturating_sub(said.verdicts.len());
        let mut broken = ended.err();
        if let (None, 1..) = (&broken, missing) {
            broken = Some("it ended without a word".to_owned());
        }
        let broken = broken.filter(|_| missing > 0).map(|why| {
            let begun = said.unfinished.as_deref().map(|name| format!(" in {name}")).unwrap_or_default();
            format!("broke down{begun}, {missing} cases have no verdict: {why}")
        });
        Ran { name: self.name.clone(), said, took: start.elapsed(), broken }
    }

    /// Runs the program; returns its output, and how it ended.
    fn start(&self) -> Result<(Said, Result<(), String>), String> {
        static NR_STARTED: AtomicU32 = AtomicU32::new(0);
        let nr = NR_STARTED.fetch_add(1, Relaxed);
        let errors = std::env::temp_dir().join(format!("isotherm-test-{}-{nr}-{}", std::process::id(), self.slug()));
        let show = |error: std::io::Error| format!("{}: {error}", errors.display());
        let file = File::create(&errors).map_err(show)?;
        // A program and all that it started is stopped when it takes too long.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &LIMIT.as_secs().to_string()]);
        let own = self.program.command();
        command.arg(own.get_program()).args(["--exact", "--test-threads=1", "--show-output", "--include-ignored"]);
        command.args(&self.cases).current_dir(&self.program.folder);
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn();
        let mut child = child.map_err(|error| format!("cannot run timeout (of coreutils): {error}"))?;
        let said = verdicts::read(child.stdout.take().expect("it is piped"), Instant::now);
        let status = child.wait().map_err(|error| error.to_string())?;
        let talk = std::fs::read(&errors).unwrap_or_default();
        let _ = std::fs::remove_file(&errors);
        let talk = String::from_utf8_lossy(&talk);
        let lines: Vec<&str> = talk.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        let ended = match status.code() {
            Some(0) => Ok(()),
            Some(124 | 137) if said.unfinished.is_some() => {
                Err(format!("it did not end within {} s\n{tail}", LIMIT.as_secs()))
            }
            _ => Err(format!("{status}\n{tail}")),
        };
        Ok((said, ended))
    }

    fn slug(&self) -> String {
        self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;

    fn program(script: &str) -> Program {
        static NR_MADE: AtomicU32 = AtomicU32::new(0);
        let nr = NR_MADE.fetch_add(1, SeqCst);
        let path = std::env::temp_dir().join(format!("isotherm-group-{}-{nr}", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        Program { package: "made".into(), kind: "unit", path, folder: std::env::temp_dir(), is_of_lab: false }
    }

    fn ran(script: &str) -> Ran {
        let program = program(script);
        let cases = ["a::one", "a::two"].map(|name| Case { name: name.into(), is_nightly: false });
        let programs = [(program, cases.into_iter().collect())];
        let ran = run(Vec::new(), groups(&programs, |_, _| true), |_| ()).pop().unwrap();
        std::fs::remove_file(&programs[0].0.path).unwrap();
        ran
    }

    #[test]
    fn a_group_is_a_module_of_a_program() {
        let program = Program {
            package: "p".into(),
            kind: "tests",
            path: PathBuf::new(),
            folder: PathBuf::new(),
            is_of_lab: false,
        };
        let case = |name: &str, is_nightly| Case { name: name.into(), is_nightly };
        let programs =
            [(program, vec![case("a::x", false), case("a::y", true), case("b", false), case("a::b::c", false)])];
        let names = |nightly: bool| {
            let groups = groups(&programs, |_, case| nightly || !case.is_nightly);
            groups.iter().map(|group| (group.name.clone(), group.cases.len())).collect::<Vec<_>>()
        };
        assert_eq!(names(false), [("p tests a".to_owned(), 2), ("p tests".to_owned(), 1)]);
        assert_eq!(names(true)[0].1, 3);
    }

    #[test]
    fn groups_that_boot_kernels_wait_for_the_errand_that_brings_them() {
        let kernel_program = Program { package: "rig".into(), kind: "tests", ..program("echo 'test k::boot ... ok'") };
        let plain = program("echo 'test a::one ... ok'");
        let case = |name: &str| Case { name: name.into(), is_nightly: false };
        let programs = [(kernel_program, vec![case("k::boot")]), (plain, vec![case("a::one")])];
        let (are_there, has_run) = (AtomicBool::new(false), AtomicBool::new(false));
        let kernels = || {
            std::thread::sleep(Duration::from_millis(300));
            are_there.store(true, SeqCst);
        };
        let errands = vec![
            Errand { work: Box::new(|| has_run.store(true, SeqCst)), brings_kernels: false },
            Errand { work: Box::new(kernels), brings_kernels: true },
        ];
        let ran = run(errands, groups(&programs, |_, _| true), |ran| {
            assert!(ran.name != "rig tests k" || are_there.load(SeqCst), "it would have had no kernel");
        });
        programs.iter().for_each(|(program, _)| std::fs::remove_file(&program.path).unwrap());
        assert!(has_run.load(SeqCst));
        assert_eq!(ran.iter().map(|ran| ran.said.verdicts.len()).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn what_waits_runs_next_to_what_computes() {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let both = AtomicU32::new(0);
        let meet = || {
            both.fetch_add(1, SeqCst);
            let start = Instant::now();
            // Each worker is in an errand that ends when the group that waits has ended.
            while both.load(SeqCst) <= u32::try_from(workers).unwrap() {
                assert!(start.elapsed() < Duration::from_secs(60), "nothing runs next to the errands");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let waiting = Program { package: "cli".into(), kind: "tests", ..program("echo 'test live::one ... ok'") };
        let programs = [(waiting, vec![Case { name: "live::one".into(), is_nightly: false }])];
        let errands = (0..workers).map(|_| Errand { work: Box::new(meet), brings_kernels: false }).collect();
        let ran = run(errands, groups(&programs, |_, _| true), |_| {
            both.fetch_add(1, SeqCst);
        });
        std::fs::remove_file(&programs[0].0.path).unwrap();
        assert_eq!((ran.len(), ran[0].said.verdicts.len()), (1, 1));
    }

    #[test]
    fn a_program_that_dies_or_is_silent_is_not_taken_for_passed() {
        let died = ran("echo 'test a::one ... ok'; printf 'test a::two ... '; echo no disk >&2; kill -9 $$");
        let why = died.broken.unwrap();
        assert!(why.starts_with("broke down in a::two, 1 cases have no verdict: "), "{why}");
        assert!(why.ends_with("no disk"), "{why}");
        let silent = ran("true");
        assert_eq!(silent.broken.unwrap(), "broke down, 2 cases have no verdict: it ended without a word");
        let good = ran("echo 'test a::one ... ok'; echo 'test a::two ... FAILED'; exit 101");
        assert!(good.broken.is_none() && good.said.verdicts.len() == 2);
    }
}
