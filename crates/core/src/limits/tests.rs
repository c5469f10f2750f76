//! Worked examples of decisions, and properties of all of them.

use super::fake::FakeGroup;
use super::*;
use crate::daemon::{Account, Daemon, Report};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

fn at(seconds: u64) -> Instant {
    Instant::START + SECOND.saturating_mul(seconds)
}

/// An interval of one second that ends at `seconds`.
fn seen(seconds: u64, usage: u64, stalled_us: u64, refaulted_pages: u64) -> Observation {
    Observation {
        at: at(seconds),
        span: SECOND,
        usage: Bytes::new(usage),
        stalled: Duration::from_us(stalled_us),
        refaulted_pages,
        has_reached_limit: false,
    }
}

/// Steps of 2 % down and 10 % up each second, back-off 10 s to 40 s; goals 0.1 % (1000 us a second) and 50/s.
fn config() -> LimitsConfig {
    LimitsConfig {
        interval: SECOND,
        squeeze: Ratio::from_percent(2),
        relax: Ratio::from_percent(10),
        backoff: Duration::from_secs(10),
        backoff_max: Duration::from_secs(40),
        floor: Bytes::from_mib(100),
        ..LimitsConfig::new("/web")
    }
}

fn mib(limit: Option<Bytes>) -> Option<u64> {
    limit.map(|limit| limit.get() / MIB)
}

/// By hand: 2 % of 1000 MiB are 20 MiB; harm of three goals raises by 3 times 10 % of 980 MiB.
#[test]
fn squeezes_by_a_share_and_relaxes_by_harm() {
    let mut control = Controller::new(config());
    let mut decide = |seen: Observation| {
        let decision = control.decide(&seen);
        (decision.action, decision.reason, mib(decision.limit), decision.harm_ppm)
    };
    use LimitAction::{Hold, Relax, Squeeze};
    use LimitReason::{BackingOff, Calm, Near, Pressure, Refaults};
    assert_eq!(decide(seen(1, 1000 * MIB, 0, 0)), (Squeeze, Calm, Some(980), 0));
    assert_eq!(decide(seen(2, 980 * MIB, 501, 0)), (Hold, Near, Some(980), 501_000), "half of the goal is near");
    assert_eq!(decide(seen(3, 980 * MIB, 500, 25)), (Squeeze, Calm, Some(960), 500_000), "exactly half is not");
    assert_eq!(decide(seen(4, 960 * MIB, 1000, 50)), (Hold, Near, Some(960), 1_000_000), "the goal itself is kept");
    // Not a goal missed yet, so this one still counts as the fault of the squeeze two seconds ago.
    assert_eq!(decide(seen(5, 960 * MIB, 0, 150)), (Relax, Refaults, Some(1248), 3_000_000));
    for second in 6..15 {
        assert_eq!(decide(seen(second, 960 * MIB, 0, 0)), (Hold, BackingOff, Some(1248), 0), "{second}");
    }
    assert_eq!(decide(seen(15, 960 * MIB, 0, 0)), (Squeeze, Calm, Some(940), 0), "from what is in use");
    assert_eq!(decide(seen(16, 940 * MIB, 2000, 0)).1, Pressure);
}

#[test]
fn great_harm_takes_the_limit_away_or_raises_it_to_the_ceiling() {
    for (ceiling, action) in [(None, LimitAction::Lift), (Some(Bytes::from_mib(2000)), LimitAction::Relax)] {
        let mut control = Controller::new(LimitsConfig { ceiling, ..config() });
        assert_eq!(control.limit(), ceiling);
        control.decide(&seen(1, 1000 * MIB, 0, 0));
        let decision = control.decide(&seen(2, 980 * MIB, 16_000, 0));
        assert_eq!((decision.action, decision.limit), (action, ceiling));
        let again = control.decide(&seen(3, 980 * MIB, 16_000, 0));
        assert_eq!(again.limit, ceiling, "there is nothing more to give");
    }
}

/// 10 s, 20 s, 40 s, and no more; eight squeezes without harm halve it once.
#[test]
fn back_off_doubles_with_harm_by_squeezes_and_is_forgotten_slowly() {
    let mut control = Controller::new(config());
    let mut second = 0;
    let hold = |calm: u32, second: &mut u64, control: &mut Controller| {
        *second = (control.holds_until().ns() / SECOND.ns()).max(*second + 1);
        for _ in 0..calm {
            assert_eq!(control.decide(&seen(*second, 1000 * MIB, 0, 0)).action, LimitAction::Squeeze);
            // Usage as before: the limit is never more than a step below it.
            control.correct(None);
            *second += 1;
        }
        control.decide(&seen(*second, 1000 * MIB, 2000, 0));
        control.holds_until().since(at(*second)).ns() / SECOND.ns()
    };
    let holds = [1, 1, 1, 1, 8, 8, 8, 16].map(|calm| hold(calm, &mut second, &mut control));
    assert_eq!(holds, [10, 20, 40, 40, 40, 40, 40, 40]);
    let mut fresh = Controller::new(config());
    second = 0;
    let holds = [1, 1, 17, 1].map(|calm| hold(calm, &mut second, &mut fresh));
    assert_eq!(holds, [10, 20, 10, 20], "two halvings, one doubling");
}

#[test]
fn what_holds_a_squeeze_back() {
    let one = |usage, limit| {
        let mut control = Controller::new(config());
        control.correct(limit);
        let decision = control.decide(&seen(1, usage, 0, 0));
        (decision.reason, mib(decision.limit))
    };
    assert_eq!(one(100 * MIB, None), (LimitReason::AtFloor, None));
    assert_eq!(one(101 * MIB, None), (LimitReason::Calm, Some(100)), "the last step ends at the floor");
    assert_eq!(one(300 * MIB, Some(Bytes::from_mib(100))), (LimitReason::AtFloor, Some(100)));
    assert_eq!(one(300 * MIB, Some(Bytes::from_mib(200))), (LimitReason::AboveLimit, Some(200)));
}

/// Refaults of a group far below its limit have another cause.
#[test]
fn harm_that_is_not_the_limits_changes_nothing_but_waits() {
    let mut control = Controller::new(config());
    control.correct(Some(Bytes::from_mib(2000)));
    let decision = control.decide(&seen(1, 1000 * MIB, 50_000, 0));
    assert_eq!((decision.reason, mib(decision.limit)), (LimitReason::Elsewhere, Some(2000)));
    assert_eq!(control.decide(&seen(2, 1000 * MIB, 0, 0)).reason, LimitReason::BackingOff);
    let reached = Observation { has_reached_limit: true, ..seen(3, 1000 * MIB, 2000, 0) };
    assert_eq!(control.decide(&reached).action, LimitAction::Relax);
}

/// Runs a daemon over a group for this number of seconds.
fn run(config: LimitsConfig, group: &mut FakeGroup, seconds: u64) -> (Vec<LimitsStep>, LimitsWhy, Vec<String>) {
    let mut daemon = LimitsDaemon::start(config, Instant::START).expect("allowed");
    let mut steps = Vec::new();
    for second in 0..seconds {
        group.live();
        match daemon.handle_timeout(0, at(second), group) {
            Ok(Report::Limits(Some(step))) => steps.push(step),
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    let Account::Limits(why) = Daemon::<FakeGroup>::account(&daemon) else { panic!("of another kind") };
    (steps, why, Daemon::<FakeGroup>::words(&daemon))
}

/// 600 of 1000 MiB are cold: nearly all of this memory goes, and harm stays rare.
#[test]
fn cold_memory_goes_and_hot_memory_stays() {
    let mut group = FakeGroup::default();
    let (steps, why, words) = run(config(), &mut group, 300);
    let least = steps.iter().map(|step| step.usage_bytes).min().expect("it ran");
    assert!((400 * MIB..408 * MIB).contains(&least), "{least}");
    assert!(steps.last().expect("it ran").usage_bytes < 410 * MIB);
    assert!(group.refaulted_bytes < 100 * MIB, "{}", group.refaulted_bytes);
    assert!(why.squeezes >= 45 && why.lifts + why.relaxes >= 1, "{why:?}");
    assert!(words[0].starts_with("The limit of /web was lowered "), "{words:?}");
    assert!(words.iter().any(|words| words.contains("not long before")), "{words:?}");
}

#[test]
fn lists_are_sorted_an_interval_before_each_squeeze() {
    let config = LimitsConfig { sort_first: true, ..config() };
    let mut group = FakeGroup { has_generations: true, ..FakeGroup::default() };
    let (steps, why, _) = run(config.clone(), &mut group, 7);
    use LimitAction::{Hold, Sort, Squeeze};
    let actions: Vec<LimitAction> = steps.iter().map(|step| step.action).collect();
    assert_eq!(actions, [Hold, Sort, Squeeze, Sort, Squeeze, Sort, Squeeze]);
    assert_eq!((group.ageings, why.sorts, why.sorts_refused), (3, 3, 0));
    let mut group = FakeGroup::default();
    let (steps, why, words) = run(config, &mut group, 7);
    assert_eq!((steps[2].action, why.sorts_refused), (Squeeze, 3), "it goes on without");
    assert!(
        words
            .contains(&"3 times lists could not be sorted by generations: not available here: needs mglru.".to_owned()),
        "{words:?}"
    );
}

#[test]
fn refusals_are_told_and_the_limit_is_what_it_was() {
    let mut group = FakeGroup { refusal: Some("EROFS"), ..FakeGroup::default() };
    let (steps, why, words) = run(config(), &mut group, 4);
    assert_eq!((steps.len(), why.squeezes, why.of(LimitReason::Refused)), (1, 0, 3));
    assert!(words.contains(&"3 times the host refused: EROFS.".to_owned()), "{words:?}");
}

/// 1 % of a second are 10 goals: a quarter of the interval after the squeeze the limit is raised, and the interval begins
/// again.
#[test]
fn harm_is_answered_before_the_interval_is_over() {
    let mut group = FakeGroup::default();
    let mut daemon = LimitsDaemon::start(config(), Instant::START).expect("allowed");
    let mut look = |quarter: u64, group: &mut FakeGroup| {
        let now = Instant::START + Duration::from_ms(250 * quarter);
        match daemon.handle_timeout(0, now, group) {
            Ok(Report::Limits(step)) => step.map(|step| (step.action, step.harm_ppm)),
            other => panic!("{other:?}"),
        }
    };
    use LimitAction::{Hold, Relax, Squeeze};
    let calm = [0, 1, 2, 3, 4, 5].map(|quarter| look(quarter, &mut group));
    assert_eq!(calm, [Some((Hold, 0)), None, None, None, Some((Squeeze, 0)), None]);
    group.stalled_us += 1000;
    assert_eq!(look(6, &mut group), None, "just the goal");
    group.stalled_us += 9000;
    assert_eq!(look(7, &mut group), Some((Relax, 10_000_000)));
    let after = [8, 9, 10, 11].map(|quarter| look(quarter, &mut group));
    assert_eq!(after, [None, None, None, Some((Hold, 0))]);
}

/// A group that was removed and made again has no limit: it starts over.
#[test]
fn a_group_that_comes_again_is_a_new_one() {
    let mut group = FakeGroup::default();
    let mut daemon = LimitsDaemon::start(config(), Instant::START).expect("allowed");
    let mut look = |second, group: &mut FakeGroup| match daemon.handle_timeout(0, at(second), group) {
        Ok(Report::Limits(Some(step))) => (step.reason, mib(step.limit_bytes.map(Bytes::new))),
        other => panic!("{other:?}"),
    };
    assert_eq!(look(0, &mut group), (LimitReason::FirstLook, None));
    assert_eq!(look(1, &mut group), (LimitReason::Calm, Some(980)));
    group.is_there = false;
    assert_eq!(look(2, &mut group), (LimitReason::NoGroup, None));
    group = FakeGroup::default();
    assert_eq!(look(3, &mut group), (LimitReason::FirstLook, None));
    assert_eq!(look(4, &mut group), (LimitReason::Calm, Some(980)));
    assert!(matches!(daemon.handle_timeout(0, at(4), &mut group), Ok(Report::Limits(None))), "too early");
}

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let one = (1u64..20_000, 1u64..1 << 22, 0u64..200_000, 0u64..2000, any::<bool>());
    proptest::collection::vec(one, 1..60).prop_map(|raw| {
        let mut now = Instant::START;
        let observe = |(span_ms, pages, stalled_us, refaulted_pages, has_reached_limit)| {
            let span = Duration::from_ms(span_ms);
            now += span;
            // A third of them calm, so that limits come down at all.
            let is_calm = pages % 3 != 0;
            Observation {
                at: now,
                span,
                usage: Bytes::new(pages * PAGE_BYTES),
                stalled: Duration::from_us(if is_calm { 0 } else { stalled_us }),
                refaulted_pages: if is_calm { 0 } else { refaulted_pages },
                has_reached_limit,
            }
        };
        raw.into_iter().map(observe).collect()
    })
}

proptest! {
    #[test]
    fn bounds_steps_and_back_off_are_kept(all in observations(), ceiling_mib in prop::option::of(100u64..4000)) {
        let config = LimitsConfig { ceiling: ceiling_mib.map(Bytes::from_mib), ..config() };
        let mut control = Controller::new(config.clone());
        let mut harm_at: Option<Instant> = None;
        for seen in all {
            let before = control.limit();
            let Decision { action, limit, harm_ppm, .. } = control.decide(&seen);
            prop_assert_eq!(limit, control.limit());
            let none = Bytes::new(u64::MAX);
            let (old, new) = (before.unwrap_or(none), limit.unwrap_or(none));
            prop_assert!(new >= config.floor, "never below the floor");
            prop_assert!(config.ceiling.is_none_or(|ceiling| new <= ceiling), "never above the ceiling");
            if harm_ppm > 1_000_000 {
                prop_assert!(new >= old, "harm never lowers the limit");
                harm_at = Some(seen.at);
            } else {
                prop_assert!(new <= old, "without harm it is never raised");
            }
            if new < old {
                prop_assert_eq!(action, LimitAction::Squeeze);
                let base = old.min(seen.usage).get();
                let step = config.squeeze.of(base).max(PAGE_BYTES);
                prop_assert!(new.get() + step >= base, "at most a step below what is in use");
                let held = harm_at.is_none_or(|harm| seen.at.since(harm) >= config.backoff);
                prop_assert!(held, "no squeeze within the back-off");
            }
            if action == LimitAction::Relax && config.ceiling.is_none() {
                let base = old.max(seen.usage).get();
                prop_assert!(new.get() <= base + config.relax.of(base) * 16 + 16 * PAGE_BYTES, "a bounded step up");
            }
        }
    }

    /// With more harm, the same group gets at least as much.
    #[test]
    fn more_harm_never_gets_less(usage_mib in 101u64..4000, less in 0u64..50_000, more in 0u64..50_000) {
        let limit = |stalled_us| {
            let mut control = Controller::new(config());
            control.decide(&seen(1, usage_mib * MIB, 0, 0));
            control.decide(&seen(2, usage_mib * MIB, stalled_us, 0)).limit.unwrap_or(Bytes::new(u64::MAX))
        };
        prop_assert!(limit(less) <= limit(less + more));
    }
}
