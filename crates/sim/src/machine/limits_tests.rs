//! Right-sizing in whole machines.

use super::kdamond_tests::hot_set;
use super::tests::config;
use super::*;
use isotherm_core::limits::{LimitAction, LimitsConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::{Bytes, PAGE_BYTES, PageRange, Ratio};

const ALL: PageRange = PageRange { start: 70_001, end: 73_001 };
/// A tenth is used, a page each 10 us.
const HOT: PageRange = PageRange { start: 71_001, end: 71_301 };

fn limits(target: &str) -> LimitsConfig {
    LimitsConfig {
        floor: Bytes::from_mib(1),
        interval: Duration::from_ms(100),
        squeeze: Ratio::from_percent(10),
        relax: Ratio::from_percent(20),
        backoff: Duration::from_secs(2),
        ..LimitsConfig::new(target)
    }
}

/// 12 MiB in the group `/app`, for four seconds.
fn play(policy: &str, limits: Option<LimitsConfig>) -> Outcome {
    let config = MachineConfig { cpus: 2, ..config(Bytes::from_mib(64), DeviceKind::Zram) };
    let policy = isotherm_kernel::reclaim::policy_by_name(policy).unwrap().build();
    let mut builder = MachineBuilder::new(&config, policy).unwrap();
    let group = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
    let id = builder.add_program(hot_set(ALL, HOT, 10_000), group).unwrap();
    builder.start_at(id, Instant::START);
    if let Some(limits) = limits {
        builder.limits(limits).unwrap();
    }
    builder.build().run(Instant::START + Duration::from_secs(4)).unwrap()
}

/// Nearly all of the nine tenths that are cold go, and nothing else before them.
#[test]
fn cold_memory_goes_by_a_limit_that_follows_usage_down() {
    for policy in ["classic", "mglru"] {
        let outcome = play(policy, Some(limits("/app")));
        let sized = &outcome.limits[0];
        let last = sized.steps.last().expect("it ran");
        let cold = (ALL.end - ALL.start) - (HOT.end - HOT.start);
        let gone = (ALL.end - ALL.start) - last.usage_bytes / PAGE_BYTES;
        assert!(gone * 10 >= cold * 8, "{policy}: {gone} of {cold} cold pages\n{:?}", sized.words);
        // While cold memory is left, the hot pages stay.
        for step in sized.steps.iter().filter(|step| step.usage_bytes > Bytes::from_mib(2).get()) {
            assert_eq!(step.refaulted_pages, 0, "{policy}: {step:?}");
        }
        assert!(sized.why.squeezes >= 15 && sized.cpu_ns > 0, "{policy}: {:?}", sized.why);
        for step in &sized.steps {
            let limit = step.limit_bytes.unwrap_or(u64::MAX);
            assert!(step.action != LimitAction::Squeeze || limit < step.usage_bytes, "{step:?}");
            assert!(limit >= Bytes::from_mib(1).get(), "{step:?}");
        }
    }
}

#[test]
fn without_it_nothing_goes_and_another_group_is_left_alone() {
    let plain = play("classic", None);
    assert_eq!((plain.limits.len(), plain.cgroup("/app").expect("it is there").counters.pgsteal()), (0, 0));
    let elsewhere = play("classic", Some(limits("/other")));
    assert_eq!(elsewhere.cgroup("/app").expect("it is there").counters.pgsteal(), 0);
    let words = &elsewhere.limits[0].words;
    assert!(words.iter().any(|words| words.ends_with("times the group was not there.")), "{words:?}");
}

#[test]
fn equal_runs_decide_alike() {
    assert_eq!(play("mglru", Some(limits("/app"))), play("mglru", Some(limits("/app"))));
}
