//! The five most frequent mistakes in a configuration are reported with their true cause.

use super::*;

fn reported(rig: &Rig, scheme: &Scheme) -> String {
    explain(scheme, &rig.report(0)).join(" ")
}

#[test]
fn the_true_cause_is_named() {
    let idle: &[(u64, u64, u32, u32)] = &[(0, 6000, 0, 5), (6000, 10_000, 3, 5)];
    let run = |scheme: &Scheme, prepare: fn(&mut Rig)| {
        let mut rig = Rig::new(std::slice::from_ref(scheme), &[idle]);
        prepare(&mut rig);
        rig.run();
        reported(&rig, scheme)
    };

    let mut never = Scheme { action: Action::LruPrio, ..Scheme::default() };
    never.access_pattern.nr_accesses = Bounds::from(Frequency::Samples(10));
    let said = run(&never, |_| {});
    assert_eq!(
        said,
        "Scheme 0 (lru-prio) was tried on nothing. 100% of what it was shown: used less often than its pattern asks for \
         (10 samples)."
    );

    let mut nothing = sized(Action::LruPrio, 30);
    nothing.quotas.goals = vec![Goal { target_value: 10_000, current_value: 20_000, ..Goal::default() }];
    let said = run(&nothing, |rig| rig.page = 4);
    assert!(said.contains("In 1 of 1 passes its quota was below the smallest region (4B)"), "{said}");
    assert!(said.contains("goals (now at [20000])"), "{said}");

    let outside = Filter {
        address_range: Some(FilterRange { start: 20_000, end: 30_000 }),
        ..Filter::new(FilterType::Addr, true, true)
    };
    let filtered = Scheme { action: Action::LruPrio, core_filters: vec![outside], ..Scheme::default() };
    let said = run(&filtered, |_| {});
    assert!(
        said.contains("100% of what it was shown: qualified, but filtered out by core-filters (none allows it)"),
        "{said}"
    );

    let lacking = Scheme { action: Action::LruPrio, ..Scheme::default() };
    let said = run(&lacking, |rig| rig.machine.refusal = Some(HostError::NotHere("lists of pages")));
    assert!(said.contains("tried, but this host cannot do it (not available here: lists of pages)"), "{said}");

    let anon = Filter::new(FilterType::Anon, false, false);
    let sparing = Scheme { action: Action::LruPrio, ops_filters: vec![anon], ..Scheme::default() };
    let said = run(&sparing, |_| {});
    assert!(said.contains("changed nothing"), "{said}");
    assert!(said.contains("100% of what was tried was left alone by ops-filters[0] (anon)."), "{said}");
}

#[test]
fn watermarks_are_named_also_where_there_was_no_pass() {
    let marks = Watermarks::free_mem_rate(Duration::from_secs(5), 200, 150, 50);
    let scheme = Scheme { watermarks: marks, ..Scheme::default() };
    let mut rig = Rig::new(&[scheme.clone(), Scheme::default()], &[&[(0, 10, 0, 5)]]);
    (rig.machine.free, rig.machine.total) = (90, 100);
    assert_eq!(rig.engine.wait(Instant::START, &mut rig.machine), Ok(None), "the other one is at work");
    let rule = "it works from below 15% free memory on, up to 20% and down to 5%; now 90% is free.";
    assert!(reported(&rig, &scheme).ends_with(rule));
    rig.run();
    let later = Instant::from_ns(90 * SECOND);
    assert_eq!(rig.engine.wait(later, &mut rig.machine), Ok(None));
    let said = reported(&rig, &scheme);
    assert!(said.contains("Its watermarks had it switched off for 1.50 m, in 1 of 1 passes: it works"), "{said}");
    rig.engine = Engine::new(std::slice::from_ref(&scheme));
    assert_eq!(rig.engine.wait(Instant::START, &mut rig.machine), Ok(Some(Duration::from_secs(5))));
    assert!(!rig.engine.is_due(1000), "no scheme is at work");
}
