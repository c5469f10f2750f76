//! Controllers over groups whose working set is known.

use super::*;
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};

const MIB: u64 = 1 << 20;

/// A group that uses `hot` bytes all the time and has `cold` bytes that it never uses. Below its hot part pages come back.
struct Group {
    now: Instant,
    hot: u64,
    cold: u64,
    /// Evicted: of the cold bytes.
    gone: u64,
    reading: Reading,
}

impl Group {
    fn new(hot: u64, cold: u64) -> Self {
        let reading = Reading { memory: Bytes::new(hot + cold), ..Reading::default() };
        Self { now: Instant::START, hot, cold, gone: 0, reading }
    }

    /// An interval under a limit: what is cold goes first, and of the hot part each missing page comes back every 2 s, for 100 µs.
    fn live(&mut self, high: Option<Bytes>, interval: Duration) {
        self.now = self.now + interval;
        let high = high.map_or(u64::MAX, Bytes::get);
        let held = self.hot + self.cold - self.gone;
        self.gone += held.saturating_sub(high).min(self.cold - self.gone);
        let missing = self.hot.saturating_sub(high) / PAGE_BYTES;
        let back = missing * interval.ns() / 2_000_000_000;
        self.reading.refaults += back;
        self.reading.stalled += Duration::from_us(100 * back);
        self.reading.memory = Bytes::new((self.hot + self.cold - self.gone).min(high));
    }
}

fn run(controller: &mut Controller, group: &mut Group, intervals: u32) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for _ in 0..intervals {
        let decision = controller.decide(group.now, group.reading);
        decisions.push(decision);
        group.live(decision.high, controller.config().interval);
    }
    decisions
}

fn config() -> LimitConfig {
    LimitConfig { interval: Duration::from_secs(2), ..LimitConfig::default() }
}

#[test]
fn what_is_cold_goes_and_what_is_hot_stays() {
    let mut group = Group::new(100 * MIB, 150 * MIB);
    let mut controller = Controller::new(config()).unwrap();
    let decisions = run(&mut controller, &mut group, 400);
    let gone = group.gone / MIB;
    assert!(gone >= 120, "{gone} MiB of 150 went");
    // In the long run it swings about the edge of the hot part, within its goals on average.
    let last = &decisions[200..];
    let mean = last.iter().map(|decision| decision.refaults_per_kilosecond).sum::<u64>() / last.len() as u64;
    assert!(mean <= 50_000, "{mean} in a thousand seconds");
    let harms = [LimitReason::RelaxedRefaults, LimitReason::RelaxedPressure];
    let harmed = last.iter().filter(|decision| harms.contains(&decision.reason)).count();
    assert!(harmed > 0 && harmed * 10 <= last.len(), "it feels for the edge, seldom: {harmed}");
}

#[test]
fn a_working_set_that_grows_gets_its_memory_in_time() {
    let mut group = Group::new(64 * MIB, 64 * MIB);
    let mut controller = Controller::new(config()).unwrap();
    run(&mut controller, &mut group, 200);
    group.hot = 512 * MIB;
    let decisions = run(&mut controller, &mut group, 10);
    let released = decisions.iter().position(|decision| decision.high.is_none_or(|high| high.get() >= 512 * MIB));
    assert!(released.is_some_and(|interval| interval <= 5), "{decisions:?}");
    // It begins again from what the group has then.
    let decisions = run(&mut controller, &mut group, 300);
    let last = decisions.last().unwrap().high.unwrap();
    assert!((500 * MIB..560 * MIB).contains(&last.get()), "{last}");
}

#[test]
fn worked_decisions() {
    let mut controller = Controller::new(config()).unwrap();
    let at = |seconds| Instant::START + Duration::from_secs(seconds);
    let reading = |mib: u64, stalled_us, refaults| Reading {
        memory: Bytes::from_mib(mib),
        stalled: Duration::from_us(stalled_us),
        refaults,
    };
    assert_eq!(controller.due(), None);
    let first = controller.decide(at(0), reading(100, 0, 0));
    assert_eq!((first.high, first.reason), (Some(Bytes::from_mib(100)), LimitReason::First));
    assert_eq!(controller.due(), Some(at(2)));
    // 2 % less.
    let calm = controller.decide(at(2), reading(100, 0, 0));
    assert_eq!((calm.high, calm.reason), (Some(Bytes::from_mib(98)), LimitReason::Squeezed));
    // 3 ms of 2 s are 0.15 %: too much. A sixteenth back.
    let harmed = controller.decide(at(4), reading(98, 3000, 0));
    assert_eq!((harmed.pressure, harmed.reason), (Ratio::from_ppm(1500), LimitReason::RelaxedPressure));
    assert_eq!(harmed.high, Some(Bytes::new(98 * MIB + 98 * MIB / 16)));
    // Two intervals of waiting, and then less again: of what the group has, not of its limit.
    for seconds in [6, 8] {
        assert_eq!(controller.decide(at(seconds), reading(100, 3000, 0)).reason, LimitReason::Waiting);
    }
    let again = controller.decide(at(10), reading(100, 3000, 0));
    assert_eq!((again.high, again.reason), (Some(Bytes::from_mib(98)), LimitReason::Squeezed));
    // 30 pages a second are more than half of the goal.
    let near = controller.decide(at(12), reading(98, 3000, 60));
    assert_eq!((near.high, near.reason), (Some(Bytes::from_mib(98)), LimitReason::Near));
    // 100 a second: harmed again, and the wait is four intervals now.
    let harmed = controller.decide(at(14), reading(98, 3000, 260));
    assert_eq!(harmed.reason, LimitReason::RelaxedRefaults);
    for seconds in [16, 18, 20, 22] {
        assert_eq!(controller.decide(at(seconds), reading(98, 3000, 260)).reason, LimitReason::Waiting);
    }
    assert_eq!(controller.decide(at(24), reading(98, 3000, 260)).reason, LimitReason::Squeezed);
}

#[test]
fn bounds_hold_whatever_it_is_told() {
    let mut state = 7u64;
    let mut chance = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let floor = Bytes::from_mib(1 + chance(64));
        let ceiling = (chance(2) == 0).then(|| Bytes::new(floor.get() + chance(64) * MIB));
        let step = Ratio::from_percent(1 + chance(25));
        let config = LimitConfig { floor, ceiling, step, ..config() };
        let mut controller = Controller::new(config).unwrap();
        let (mut now, mut reading, mut high) = (Instant::START, Reading::default(), None::<Bytes>);
        for _ in 0..300 {
            now = now + Duration::from_ms(chance(5000));
            reading.memory = Bytes::new(chance(1 << 34));
            reading.stalled += Duration::from_us(chance(4) * chance(100_000));
            reading.refaults += chance(4) * chance(1000);
            let decision = controller.decide(now, reading);
            if let Some(limit) = decision.high {
                assert!(limit >= floor && ceiling.is_none_or(|ceiling| limit <= ceiling), "{decision:?}");
                assert!(limit.get() % PAGE_BYTES == 0 || Some(limit) == ceiling || limit == floor);
            } else {
                assert_eq!(ceiling, None, "{decision:?}");
            }
            if decision.reason == LimitReason::Squeezed {
                // Never more than a step of what the group has or may have.
                let from = high.map_or(reading.memory, |high| high.min(reading.memory));
                let taken = from.get() - decision.high.unwrap().get();
                assert!(taken <= step.of(from.get()).max(PAGE_BYTES), "{taken} of {from}");
            }
            let harms = [LimitReason::RelaxedPressure, LimitReason::RelaxedRefaults];
            if let (true, Some(before), Some(limit)) = (harms.contains(&decision.reason), high, decision.high) {
                assert!(limit >= before, "harm never makes it tighter");
            }
            high = decision.high;
        }
    }
}

#[test]
fn rates_are_read_and_written() {
    for (text, per_kilosecond) in [("50/s", 50_000), ("0.5/s", 500), ("0.005/s", 5), ("1.25/s", 1250)] {
        let rate: Rate = text.parse().unwrap();
        assert_eq!((rate.per_kilosecond(), rate.to_string().as_str()), (per_kilosecond, text));
    }
    for wrong in ["", "50", "/s", "-1/s", "1./s", "1.2345/s", "1e3/s", "NaN/s", "99999999999999999999/s", "1/min"] {
        assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
    }
    assert_eq!(Rate::of(100, Duration::from_secs(2)), Rate::per_second(50));
    assert_eq!(Rate::of(u64::MAX, Duration::ZERO).per_kilosecond(), u64::MAX);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let refused = |config: LimitConfig| config.validate().unwrap_err().key;
    let good = LimitConfig::default();
    assert_eq!(good.validate(), Ok(()));
    assert_eq!(refused(LimitConfig { floor: Bytes::new(0), ..good }), "floor");
    assert_eq!(refused(LimitConfig { ceiling: Some(Bytes::from_mib(8)), ..good }), "ceiling");
    assert_eq!(refused(LimitConfig { interval: Duration::ZERO, ..good }), "interval");
    assert_eq!(refused(LimitConfig { step: Ratio::from_percent(26), ..good }), "step");
    let goal = Goal { pressure_some: Ratio::ZERO, ..good.goal };
    assert_eq!(refused(LimitConfig { goal, ..good }), "goal.pressure-some");
    let goal = Goal { refaults: Rate::per_second(0), ..good.goal };
    assert_eq!(refused(LimitConfig { goal, ..good }), "goal.refaults");
}
