//! The monitoring loop: sleeps until its source is due, lets it sample, keeps to the budget.

use isotherm_units::{Budget, Clock, Duration, Instant, Meter, Ratio, Woken};
use std::ops::ControlFlow;

use crate::{Finding, Source, SourceError};

/// Length and largest cost of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Length from the start; `None`: until it is stopped, or the target ends.
    pub length: Option<Duration>,
    /// Share of one processor that watching may take.
    pub max_cpu: Ratio,
}

/// Events while watching.
#[derive(Debug)]
pub enum Heard<'a> {
    /// A finding of the source.
    Found(&'a Finding),
    /// The budget changed the pace.
    Paced {
        /// Current factor of the intervals; 1 is as configured.
        stretch: u32,
        /// Why the source could not change its pace.
        refusal: Option<String>,
    },
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The time is over.
    TimeOver,
    /// The driver of the loop, or its listener, asked it to end.
    Stopped,
    /// The target has ended; the text has the way it ended.
    TargetGone(String),
    /// Another process took away a resource that the source needs; the text names it.
    Lost(String),
}

/// Result of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub end: End,
    /// How long it took.
    pub elapsed: Duration,
    /// CPU time of our threads, and of kernel threads that worked for it.
    pub spent: Duration,
    /// The part of the CPU time that kernel threads used.
    pub spent_by_kernel: Duration,
    /// The largest stretch of intervals.
    pub stretched: u32,
    /// Times that the source was woken.
    pub looks: u64,
}

/// Watches until the time is over, the target ends, or a caller stops it. Events are passed to `hear` in order.
///
/// # Errors
/// Errors of the source, when it cannot go on.
pub fn watch(
    source: &mut dyn Source,
    clock: &mut dyn Clock,
    meter: &mut dyn Meter,
    options: WatchOptions,
    hear: &mut dyn FnMut(Instant, Heard<'_>) -> ControlFlow<()>,
) -> Result<Watched, SourceError> {
    let start = clock.now();
    let end = options.length.map(|length| start + length);
    let own_before = meter.spent();
    let kernel_before = source.spent_by_kernel();
    let mut budget = Budget::new(options.max_cpu, start, own_before + kernel_before);
    let mut watched = Watched {
        end: End::Stopped,
        elapsed: Duration::ZERO,
        spent: Duration::ZERO,
        spent_by_kernel: Duration::ZERO,
        stretched: 1,
        looks: 0,
    };
    let mut found = Vec::new();
    watched.end = loop {
        let Some(due) = source.poll_timeout() else {
            break End::TargetGone("all that was watched has ended".to_owned());
        };
        if end.is_some_and(|end| due >= end) {
            let woken = clock.sleep_until(end.unwrap_or(due));
            break if woken == Woken::Stopped { End::Stopped } else { End::TimeOver };
        }
        if clock.sleep_until(due) == Woken::Stopped {
            break End::Stopped;
        }
        let now = clock.now();
        watched.looks += 1;
        found.clear();
        let looked = source.look(now, &mut found);
        if found.iter().any(|finding| hear(now, Heard::Found(finding)).is_break()) {
            break End::Stopped;
        }
        match looked {
            Ok(()) => {}
            Err(SourceError::Gone(words)) => break End::TargetGone(words),
            Err(SourceError::Lost(words)) => break End::Lost(words),
            Err(error) => return Err(error),
        }
        let spent = meter.spent() + source.spent_by_kernel();
        if let Some(stretch) = budget.look(now, spent) {
            let refusal = source.stretch(stretch, now).err().map(|error| error.to_string());
            watched.stretched = watched.stretched.max(stretch);
            if hear(now, Heard::Paced { stretch, refusal }).is_break() {
                break End::Stopped;
            }
        }
    };
    watched.spent_by_kernel = source.spent_by_kernel().saturating_sub(kernel_before);
    watched.spent = meter.spent().saturating_sub(own_before) + watched.spent_by_kernel;
    watched.elapsed = clock.now().since(start);
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Monitored;
    use crate::testkit::{Cost, FakeClock, System};
    use isotherm_core::host::TargetId;
    use isotherm_core::monitor::MonitorConfig;

    const OPTIONS: WatchOptions =
        WatchOptions { length: Some(Duration::from_secs(60)), max_cpu: Ratio::from_percent(1) };

    fn monitored(world: System) -> Monitored<System> {
        let targets = [(TargetId(0), Vec::new())];
        Monitored::start(MonitorConfig::default(), 1, world, &targets, Instant::START)
            .expect("the world has all it needs")
    }

    #[test]
    fn it_watches_for_as_long_as_was_asked() {
        let clock = FakeClock::default();
        let mut source = monitored(System::new(&clock));
        let mut meter = Cost::per_probe(&source.host_mut().probes, Duration::from_ns(10));
        let mut looks = 0;
        let watched = watch(&mut source, &mut clock.clone(), &mut meter, OPTIONS, &mut |_, heard| {
            if let Heard::Found(Finding::Regions(look)) = heard {
                looks += 1;
                assert!(look.used_and_all().0 <= look.used_and_all().1);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!((watched.end, watched.elapsed, watched.stretched), (End::TimeOver, Duration::from_secs(60), 1));
        assert!((550..=600).contains(&looks), "one each 100 ms: {looks}");
    }

    #[test]
    fn what_costs_too_much_slows_down_and_says_so() {
        let clock = FakeClock::default();
        let mut source = monitored(System::new(&clock));
        let mut meter = Cost::per_probe(&source.host_mut().probes, Duration::from_us(20));
        let mut paces = Vec::new();
        let watched = watch(&mut source, &mut clock.clone(), &mut meter, OPTIONS, &mut |_, heard| {
            if let Heard::Paced { stretch, refusal } = heard {
                assert_eq!(refusal, None);
                paces.push(stretch);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(paces.first().is_some_and(|&first| first > 1), "{paces:?}");
        // The first window was spent before anything was known; from then on it fits.
        let rest = watched.spent.saturating_sub(Duration::from_ms(2000));
        assert!(rest < Duration::from_ms(600), "{rest} of 60s");
    }

    #[test]
    fn it_ends_with_its_target_or_when_told_to() {
        let clock = FakeClock::default();
        let mut source =
            monitored(System { gone_at: Some(Instant::START + Duration::from_secs(3)), ..System::new(&clock) });
        let mut meter = Cost::per_probe(&source.host_mut().probes, Duration::ZERO);
        let mut hear = |_: Instant, _: Heard<'_>| ControlFlow::Continue(());
        let watched = watch(&mut source, &mut clock.clone(), &mut meter, OPTIONS, &mut hear).unwrap();
        assert!(matches!(watched.end, End::TargetGone(_)) && watched.elapsed < Duration::from_secs(5), "{watched:?}");

        let clock = FakeClock { stop_at: Some(Instant::START + Duration::from_secs(2)), ..FakeClock::default() };
        let mut source = monitored(System::new(&clock));
        let watched = watch(&mut source, &mut clock.clone(), &mut meter, OPTIONS, &mut hear).unwrap();
        assert_eq!(watched.end, End::Stopped);
        let clock = FakeClock::default();
        let mut source = monitored(System::new(&clock));
        let mut stop = |_: Instant, _: Heard<'_>| ControlFlow::Break(());
        assert_eq!(watch(&mut source, &mut clock.clone(), &mut meter, OPTIONS, &mut stop).unwrap().end, End::Stopped);
    }

    #[test]
    fn targets_come_and_go() {
        let clock = FakeClock::default();
        let mut source = monitored(System::new(&clock));
        assert_eq!(source.add_target(TargetId(7), &[]).unwrap(), 1);
        let mut meter = Cost::per_probe(&source.host_mut().probes, Duration::ZERO);
        let mut seen = [0, 0];
        let options = WatchOptions { length: Some(Duration::from_secs(3)), ..OPTIONS };
        let mut hear = |_: Instant, heard: Heard<'_>| {
            if let Heard::Found(Finding::Regions(look)) = heard {
                seen[look.target as usize] += 1;
            }
            ControlFlow::Continue(())
        };
        watch(&mut source, &mut clock.clone(), &mut meter, options, &mut hear).unwrap();
        assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}");
        source.remove_target(TargetId(0)).unwrap();
        let mut seen = [0, 0];
        let mut hear = |_: Instant, heard: Heard<'_>| {
            if let Heard::Found(Finding::Regions(look)) = heard {
                seen[look.target as usize] += 1;
            }
            ControlFlow::Continue(())
        };
        watch(&mut source, &mut clock.clone(), &mut meter, options, &mut hear).unwrap();
        assert!(seen[0] <= 1 && seen[1] > 20, "an index stays its target's: {seen:?}");
    }
}
