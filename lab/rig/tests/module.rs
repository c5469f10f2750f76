//! The accessed-bit module in real kernels. `cargo xtask module` builds it; if it was not built, these tests say so and pass; with
//! `ISOTHERM_REQUIRE_ALL=1` they fail. `ISOTHERM_STORM_SECONDS` makes the storms longer; with `ISOTHERM_STORM_ALONE=1` no process calls
//! the module in them, which separates memory kept by the module from that kept by the kernel.
#![expect(clippy::print_stdout, reason = "says what is skipped, and how memory was")]

use isotherm_rig::job::Setting;
use isotherm_rig::living::{Live, LiveWorkload, ModuleTest};
use isotherm_rig::patterns::{Motion, Part, Pattern};
use isotherm_rig::pricing::{Act, Price, PricedMemory, Pricing};
use isotherm_rig::{AtHand, Extra, Extras, Job, KernelEntry, Machine, Report, Run, RunResult, Task};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ONE_AT_A_TIME;

fn is_required() -> bool {
    std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1")
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder")
}

/// Output folder of `cargo xtask module`.
fn cache() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("ISOTHERM_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("isotherm")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/isotherm")))
}

fn run(rig: &AtHand, task: Task, extras: &Extras) -> RunResult {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Active pages are those of the classic lists.
    let setting = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned(), optional: true };
    // DAMON_STAT, on by default in 7.2, clears bits of pages that it samples.
    let damon_stat = setting("/sys/module/damon_stat/parameters/enabled", "N");
    let huge_pages = setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
    let settings = vec![setting("/sys/kernel/mm/lru_gen/enabled", "0"), damon_stat, huge_pages];
    let job = Job { settings, zram_bytes: None, files_device: None, task };
    let machine = Machine { cpus: 2, time_limit: Duration::from_secs(4 * 3600), ..Machine::default() };
    Run { kernel: &rig.kernel.1, machine: &machine, guest: &rig.guest, job: &job, script: None, extras }.go().unwrap()
}

/// The kernel called `name`, for which the module was built, and the module; `None`, after a message, if there is none.
fn built(name: &str) -> Option<(AtHand, PathBuf)> {
    let cache = cache().expect("a folder for kernels");
    let guest = target().join("guest/isotherm-guest");
    let entry = KernelEntry::named(name).unwrap();
    // The kernel that the module was built for, not that of the target folder.
    let kernel = entry.cached(&cache.join("kernels"));
    let module = kernel.as_ref().map(|kernel| cache.join("modules").join(&kernel.release).join("isotherm.ko"));
    let (Some(kernel), Some(module)) = (kernel, module.filter(|module| module.is_file() && guest.is_file())) else {
        assert!(
            !is_required(),
            "the module for Linux {name} or the guest is not built: `cargo xtask module` and `cargo xtask guest`"
        );
        println!("module: skipped: not built for Linux {name} (`cargo xtask module`, `cargo xtask guest`)");
        return None;
    };
    Some((AtHand { kernel: (entry.name, kernel), guest }, module))
}

fn module_holds(name: &str) {
    let Some((rig, module)) = built(name) else { return };
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (storm_calls, storm_seconds) = (number("ISOTHERM_STORM_CALLS", 1000), number("ISOTHERM_STORM_SECONDS", 0));
    let extras = Extras { modules: vec![module], ..Extras::default() };
    let storm_alone = number("ISOTHERM_STORM_ALONE", 0) != 0;
    let result = run(&rig, Task::Module(ModuleTest { storm_calls, storm_seconds, storm_alone, seed: 1 }), &extras);
    let tested = result.reports.iter().find_map(|report| match report {
        Report::ModuleTested(tested) => Some(tested),
        _ => None,
    });
    let tested = tested.expect("the guest says what it tested");
    assert_eq!(tested.checks.last().map(String::as_str), Some("nothing in the log"));
    println!("module: Linux {}: bytes before and after the storm {:?}", result.kernel, tested.memory);
}

#[test]
#[ignore = "nightly: a root with compiler and headers for another kernel"]
fn it_holds_in_6_1() {
    module_holds("6.1");
}

#[test]
#[ignore = "nightly: a root with compiler and headers"]
fn it_holds_in_6_12() {
    module_holds("6.12");
}

#[test]
#[ignore = "nightly: a root with compiler and headers for another kernel"]
fn it_holds_in_7_2() {
    module_holds("7.2");
}

/// The guest itself refuses acts that did not find the expected entries; this checks its report.
#[test]
#[ignore = "nightly: a root with compiler and headers for another kernel"]
fn each_act_has_its_price() {
    let Some((rig, module)) = built("7.2") else { return };
    let extras = Extras { modules: vec![module], ..Extras::default() };
    let result = run(&rig, Task::Price(Pricing { pages: 8192, repeats: 2 }), &extras);
    let priced = result.reports.iter().find_map(|report| match report {
        Report::Priced(priced) => Some(priced),
        _ => None,
    });
    let prices = &priced.expect("the guest says what it measured").prices;
    let of = |memory, act, level| {
        let is_it = |price: &&Price| (price.memory, price.act, price.level) == (memory, act, level);
        let price = prices.iter().find(is_it).unwrap_or_else(|| panic!("{memory:?} {act:?} {level}: {prices:?}"));
        assert!(price.took_ns.len() == 2 && price.took_ns.iter().all(|&ns| ns > 0), "{price:?}");
        (price.nr_entries, price.nr_young)
    };
    assert_eq!(of(PricedMemory::Small, Act::Read, 0), (8192, 0));
    assert_eq!(of(PricedMemory::Small, Act::Clear, 0), (8192, 8192));
    assert_eq!(of(PricedMemory::Small, Act::Clear, 1), (16, 16));
    assert_eq!(of(PricedMemory::Small, Act::TestClearAlone, 0), (4096, 4096));
    assert_eq!(of(PricedMemory::Small, Act::PagemapScan, 0), (8192, 0));
    assert_eq!(of(PricedMemory::Huge, Act::Clear, 0), (16, 16));
    assert_eq!(of(PricedMemory::Sparse, Act::Clear, 2), (512, 512));
    assert_eq!(of(PricedMemory::Sparse, Act::TestClear, 3), (64, 64));
}

#[test]
fn a_program_runs_beside_a_workload() {
    let Some(rig) = AtHand::find(target(), "6.12", is_required(), &|what| println!("{what}")).unwrap() else { return };
    // The guest's own program says that it is not the first process, and ends with 2.
    let extra = Extra { from: rig.guest.clone(), to: "/bin/program".to_owned(), is_program: true };
    let extras = Extras { files: vec![extra], ..Extras::default() };
    let part = Part { first: 0, pages: 256, motion: Motion::Every { passes: 1 } };
    let workload = LiveWorkload {
        group: "app/web".to_owned(),
        pattern: Pattern { pages: 1024, parts: vec![part] },
        pass_us: 1000,
        high_bytes: None,
    };
    let live = Live {
        workloads: vec![workload],
        programs: Vec::new(),
        programs_begin_with: String::new(),
        program: "/bin/program".to_owned(),
        arguments: Vec::new(),
        environment: [("PATH".to_owned(), "/bin".to_owned())].into(),
        seconds_max: 60,
        outputs: vec!["/tmp/stderr".to_owned(), "/nowhere".to_owned()],
    };
    let result = run(&rig, Task::Live(live), &extras);
    let lived = result.reports.iter().find_map(|report| match report {
        Report::Lived(lived) => Some(lived),
        _ => None,
    });
    let lived = lived.expect("the guest says what the program did");
    assert_eq!((lived.exit_code, lived.timed_out), (Some(2), false));
    let stderr = lived.output("/tmp/stderr").expect("it was asked for");
    assert_eq!(String::from_utf8_lossy(&stderr), lived.stderr);
    assert!(lived.stderr.contains("is the first process of a virtual machine"), "{lived:?}");
    assert_eq!(lived.outputs.keys().collect::<Vec<_>>(), ["/tmp/stderr"]);
    assert_eq!(lived.players.len(), 1);
    assert!(lived.ran_ns.0 < lived.ran_ns.1);
}
