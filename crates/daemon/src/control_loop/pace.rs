//! How often sections run: together they take at most a share of one processor, and a costly one slows down no cheap one.
//!
//! Each section is measured by itself. What it would take at its configured intervals is its demand. The share is divided so that every
//! section gets its demand or the same part as all others that do not (max-min fairness); those above their part run less often.

use isotherm_units::{Duration, Instant, Ratio, STRETCH_MAX};

/// Time between two divisions. A shorter window says little: the kernel may count CPU time in ticks of up to 10 ms.
const WINDOW: Duration = Duration::from_secs(2);
/// The first division comes earlier, because costs are unknown until then. Also the shortest time over which a cost is judged.
const FIRST_WINDOW: Duration = Duration::from_ms(500);
const SECOND_NS: u128 = 1_000_000_000;

/// Cost of one section, and the factor by which its intervals are stretched for that.
#[derive(Debug)]
pub(super) struct Pace {
    stretch: u32,
    /// Start of the time that is being measured, and CPU time since. A cost counts against all the time until the next run, so the start
    /// may lie in the future.
    since: Option<Instant>,
    spent: Duration,
    /// Demand: nanoseconds of CPU time a second, at configured intervals. The last one measured.
    wanted: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { stretch: 1, since: None, spent: Duration::ZERO, wanted: 0 }
    }
}

impl Pace {
    /// Intervals are stretched by this factor; 1 leaves them as configured.
    pub(super) const fn stretch(&self) -> u32 {
        self.stretch
    }

    /// A run that began at `now` took `cost`.
    pub(super) fn ran(&mut self, now: Instant, cost: Duration) {
        self.since.get_or_insert(now);
        self.spent += cost;
    }

    /// Measures the demand, if the time until the next run is long enough. `next` is not before the time of the call.
    fn measure(&mut self, next: Instant) {
        let since = *self.since.get_or_insert(next);
        let elapsed = next.since(since);
        if elapsed < FIRST_WINDOW {
            return;
        }
        let wanted = u128::from(self.spent.ns()) * u128::from(self.stretch) * SECOND_NS / u128::from(elapsed.ns());
        self.wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        (self.since, self.spent) = (Some(next), Duration::ZERO);
    }

    /// Adapts to a part of `level` nanoseconds a second: raised at once to what fits, halved where half of it would fit as well. Returns
    /// whether the factor changed.
    fn fit(&mut self, level: u64) -> bool {
        let fitting = if self.wanted > level { self.wanted.div_ceil(level.max(1)) } else { 1 };
        let fitting = u32::try_from(fitting).unwrap_or(STRETCH_MAX).min(STRETCH_MAX);
        let stretch = match self.stretch {
            now if fitting > now => fitting,
            now if fitting <= now / 2 => now / 2,
            now => now,
        };
        std::mem::replace(&mut self.stretch, stretch) != stretch
    }

    /// Intervals have changed: what was measured before says nothing of those to come. `next` is the time of the next run.
    fn restart(&mut self, next: Instant) {
        (self.since, self.spent) = (Some(next), Duration::ZERO);
    }
}

/// A section that is paced, as far as the division needs it.
pub(super) trait Paced {
    fn pace(&mut self) -> &mut Pace;

    /// Time of its next run, `now` or later. `None` if it runs in each turn, whatever that costs.
    fn next(&self, now: Instant) -> Option<Instant>;
}

/// Divides a share of one processor among sections.
#[derive(Debug)]
pub(super) struct Division {
    max: Ratio,
    divided: Instant,
    window: Duration,
    /// CPU time since the last division that is no section's.
    common: Duration,
}

impl Division {
    pub(super) const fn new(max: Ratio, now: Instant) -> Self {
        Self { max, divided: now, window: FIRST_WINDOW, common: Duration::ZERO }
    }

    /// The loop itself took `cost`.
    pub(super) fn add_common(&mut self, cost: Duration) {
        self.common += cost;
    }

    /// Divides, if it is time. `errands`: nanoseconds a second of work that has its own intervals. Calls `changed` for each section
    /// with another factor than before.
    pub(super) fn divide<S: Paced>(
        &mut self,
        now: Instant,
        errands: u64,
        sections: &mut [S],
        mut changed: impl FnMut(&S, u32),
    ) {
        let elapsed = now.since(self.divided);
        if elapsed < self.window {
            return;
        }
        let common = u128::from(self.common.ns()) * SECOND_NS / u128::from(elapsed.ns());
        let common = u64::try_from(common).unwrap_or(u64::MAX).saturating_add(errands);
        (self.divided, self.window, self.common) = (now, WINDOW, Duration::ZERO);
        let max = share(self.max);
        // Sections get half of it, whatever all else costs: slowing them down does not make that cheaper.
        let allowed = max.saturating_sub(common).max(max / 2);
        let mut wanted = Vec::new();
        for section in &mut *sections {
            let next = section.next(now);
            let pace = section.pace();
            pace.measure(next.unwrap_or(now));
            wanted.push(pace.wanted);
        }
        let level = level(wanted, allowed);
        for section in sections {
            // One that runs in each turn cannot be slowed down.
            if section.next(now).is_none() || !section.pace().fit(level) {
                continue;
            }
            let next = section.next(now).unwrap_or(now);
            section.pace().restart(next);
            let stretch = section.pace().stretch();
            changed(section, stretch);
        }
    }
}

/// A share of one processor as nanoseconds a second.
pub(super) fn share(ratio: Ratio) -> u64 {
    ratio.ppm().max(1).saturating_mul(1000)
}

/// The part that each of those gets whose demand is above it, if all others get their demand; the largest number if all fit.
fn level(mut wanted: Vec<u64>, mut allowed: u64) -> u64 {
    wanted.sort_unstable();
    let mut others = wanted.len() as u64;
    for demand in wanted {
        let fair = allowed / others;
        if demand > fair {
            return fair.max(1);
        }
        allowed -= demand;
        others -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }

    /// A section that costs `cost` each `interval`.
    struct Fake {
        pace: Pace,
        interval: Duration,
        cost: Duration,
        ran: Instant,
        runs: u64,
    }

    impl Fake {
        fn new(interval_ms: u64, cost_us: u64) -> Self {
            Self {
                pace: Pace::default(),
                interval: Duration::from_ms(interval_ms),
                cost: Duration::from_us(cost_us),
                ran: Instant::START,
                runs: 0,
            }
        }

        fn due(&self) -> Instant {
            self.ran + self.interval.saturating_mul(u64::from(self.pace.stretch()))
        }
    }

    impl Paced for Fake {
        fn pace(&mut self) -> &mut Pace {
            &mut self.pace
        }

        fn next(&self, now: Instant) -> Option<Instant> {
            Some(self.due().max(now))
        }
    }

    /// Plays seconds in steps of 10 ms. Returns the CPU time of all sections in the second half.
    fn played(division: &mut Division, sections: &mut [Fake], errands: u64, seconds: u64) -> Duration {
        let mut spent = Duration::ZERO;
        for step in 0..seconds * 100 {
            let now = at(step * 10);
            for section in &mut *sections {
                if section.due() <= now {
                    section.ran = now;
                    section.runs += 1;
                    section.pace.ran(now, section.cost);
                    if step >= seconds * 50 {
                        spent += section.cost;
                    }
                }
            }
            division.divide(now, errands, sections, |_, _| ());
        }
        spent
    }

    #[test]
    fn the_share_is_divided_by_need() {
        for (wanted, allowed, expected) in [
            (vec![], 10, u64::MAX),
            (vec![4, 6], 10, u64::MAX),
            (vec![2, 100, 100], 10, 4),
            (vec![100], 10, 10),
            (vec![1, 2, 3, 100], 10, 4),
            (vec![7; 3], 1, 1),
        ] {
            assert_eq!(level(wanted.clone(), allowed), expected, "{wanted:?}");
        }
    }

    /// The costly one takes 20 % of a processor, a hundred times as much as all may take.
    #[test]
    fn a_costly_section_slows_down_no_cheap_one() {
        let mut division = Division::new(Ratio::from_percent(1), at(0));
        let mut sections = [Fake::new(1000, 500), Fake::new(1000, 200_000), Fake::new(5000, 2000)];
        let spent = played(&mut division, &mut sections, 0, 600);
        assert_eq!(sections.each_ref().map(|section| section.runs >= 595), [true, false, false]);
        assert_eq!((sections[0].pace.stretch(), sections[2].pace.stretch()), (1, 1));
        assert!(sections[2].runs >= 118, "{}", sections[2].runs);
        assert!(spent <= Duration::from_ms(3100), "1 % of 300 s: {spent:?}");
        assert!(sections[1].runs >= 20, "it goes on: {}", sections[1].runs);
    }

    /// One run in ten seconds that takes a window's share many times over fits nevertheless.
    #[test]
    fn a_rare_run_counts_against_its_whole_interval() {
        let mut division = Division::new(Ratio::from_percent(1), at(0));
        let mut sections = [Fake::new(10_000, 90_000)];
        played(&mut division, &mut sections, 0, 100);
        assert_eq!((sections[0].runs, sections[0].pace.stretch()), (9, 1));
    }

    #[test]
    fn sections_get_half_of_the_share_whatever_else_costs() {
        for (errands, stretch) in [(0, 1), (4_000_000, 2), (5_000_000, 2), (u64::MAX, 2)] {
            let mut division = Division::new(Ratio::from_percent(1), at(0));
            let mut sections = [Fake::new(1000, 9000)];
            played(&mut division, &mut sections, errands, 60);
            assert_eq!(sections[0].pace.stretch(), stretch, "{errands} ns a second");
        }
    }

    #[test]
    fn it_becomes_faster_again_and_ends_at_what_was_asked_for() {
        let mut division = Division::new(Ratio::from_percent(1), at(0));
        let mut sections = [Fake::new(100, 20_000)];
        played(&mut division, &mut sections, 0, 20);
        assert!((20..=24).contains(&sections[0].pace.stretch()), "{}", sections[0].pace.stretch());
        sections[0].cost = Duration::from_us(100);
        sections[0].ran = at(0);
        let mut division = Division::new(Ratio::from_percent(1), at(0));
        sections[0].pace.restart(at(0));
        played(&mut division, &mut sections, 0, 20);
        assert_eq!(sections[0].pace.stretch(), 1);
    }

    #[test]
    fn it_has_a_floor_and_a_ceiling() {
        let mut pace = Pace::default();
        assert!(!pace.fit(u64::MAX));
        pace.wanted = u64::MAX;
        assert!(pace.fit(1) && !pace.fit(1));
        assert_eq!(pace.stretch(), STRETCH_MAX);
    }
}
