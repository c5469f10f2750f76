//! Machines whose files have folios of several pages.

use super::tests::config;
use super::*;
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::{FileSystem, KernelRelease};
use isotherm_kernel::reclaim::{POLICIES, policy_by_name};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{
    After, Backing, Batch, Channel, FileKind, FileSpec, Forks, Mapping, Process, Run, Sharing, Stream, StreamError,
    Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Duration, PageRange, Pages};

/// Pages of the file, three times what the group may hold.
const PAGES: u64 = 1500;

/// Reads the file three times from begin to end, now through a descriptor and now through the mapping, and uses some memory of its own.
#[derive(Clone)]
struct Passes(u64);

impl Stream for Passes {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.0 == 3 {
            return Ok(After::Finish);
        }
        for page in (0..PAGES).step_by(4) {
            let read = Run::read(page, 4);
            batch.runs.push(if page / 128 % 2 == self.0 % 2 { read.through(Channel::FileDescriptor) } else { read });
            batch.runs.push(Run::write(2000 + page % 64, 1));
        }
        self.0 += 1;
        Ok(After::Continue)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

fn program() -> Program {
    let backing = Backing::File { file: 0, first_page: 0, sharing: Sharing::Shared };
    let file = Mapping { backing, ..Mapping::anonymous(PageRange::new(0, PAGES)) };
    Program {
        name: "reader".to_owned(),
        files: vec![FileSpec { name: "data".to_owned(), pages: PAGES, kind: FileKind::Regular }],
        processes: vec![Process {
            layout: vec![file, Mapping::anonymous(PageRange::new(2000, 2064))],
            ..Process::default()
        }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(Passes(0)) }],
        timing: Timing::Recorded,
        future: None,
    }
}

fn machine(policy: &str, kernel: KernelRelease, file_system: Option<FileSystem>) -> Result<MachineBuilder, SimError> {
    let config = MachineConfig { kernel, file_system, ..config(Bytes::from_mib(64), DeviceKind::Zram) };
    let policy = policy_by_name(policy).expect("in the table").build_with(&config.policy_settings());
    MachineBuilder::new(&config, policy)
}

fn played(policy: &str, kernel: KernelRelease, file_system: Option<FileSystem>) -> Outcome {
    let mut builder = machine(policy, kernel, file_system).expect("it takes folios");
    let app = builder.add_cgroup(CgroupId::ROOT, "app").expect("few groups");
    builder.set(app, Knob::Max, Limit::At(Pages::new(500)));
    let id = builder.add_program(program(), app).expect("it fits");
    builder.start_at(id, Instant::START);
    builder.strict();
    builder.build().run(Instant::START + Duration::from_secs(100)).expect("all invariants hold")
}

#[test]
fn passes_over_a_file_end_and_give_the_same_each_time() {
    for (policy, kernel) in [("classic", KernelRelease::V6_12), ("classic", KernelRelease::V7_2)]
        .into_iter()
        .chain([("mglru", KernelRelease::V6_12), ("mglru", KernelRelease::V7_2)])
    {
        let of = |file_system| {
            let outcome = played(policy, kernel, file_system);
            assert_eq!(outcome.programs[0].ending, Ending::Finished, "{policy} {kernel} {file_system:?}");
            let count = |counter| outcome.system().counters.get(counter);
            let counts = [Counter::PgFault, Counter::PgMajFault, Counter::WorkingsetRefaultFile, Counter::PgStealFile];
            (outcome.programs[0].runtime(), counts.map(count))
        };
        let (single, ext4, xfs) = (of(None), of(Some(FileSystem::Ext4)), of(Some(FileSystem::Xfs)));
        assert_eq!(xfs, of(Some(FileSystem::Xfs)), "{policy} {kernel}");
        // Ext4 of 6.12 has single pages.
        assert_eq!(ext4, if kernel == KernelRelease::V6_12 { single } else { xfs }, "{policy} {kernel}");
        assert_ne!(xfs, single, "{policy} {kernel}");
        assert!(xfs.1[2] > PAGES && xfs.1[3] > PAGES, "{policy} {kernel}: {:?}", xfs.1);
    }
}

#[test]
fn policies_that_take_no_folios_are_refused() {
    for entry in POLICIES {
        let made = machine(entry.name, KernelRelease::V7_2, Some(FileSystem::Xfs));
        match made {
            Ok(_) => assert!(entry.runs_on_linux, "{}", entry.name),
            Err(error) => {
                assert!(!entry.runs_on_linux, "{}: {error}", entry.name);
                let message = error.to_string();
                assert!(message.contains("`file-system` is xfs; allowed: absent under this policy"), "{message}");
            }
        }
    }
    let mut builder = machine("classic", KernelRelease::V7_2, Some(FileSystem::Xfs)).expect("it takes folios");
    let watched = builder.add_monitor("kdamond", vec![MonitorTarget::Physical], {
        let config = isotherm_core::monitor::MonitorConfig::default();
        Box::new(isotherm_core::monitor::Monitor::new(config, 1).expect("the default"))
    });
    assert!(watched.unwrap_err().to_string().contains("monitors know single pages only"));
}
