//! How much memory has not been touched for how long, exactly.

use isotherm_trace::TraceMeta;
use isotherm_trace::analysis::IdleMoment;

use super::{bytes, subject};
use crate::records::{IDLE_BOUNDS_NS, IdleTimes};
use crate::{Axis, Chart, Series, Unit};

/// The mean of moments whose bins are [`IDLE_BOUNDS_NS`], as the chart and tables of idle times
/// take it.
pub fn idle(moments: &[IdleMoment], page_bytes: u64) -> IdleTimes {
    let count = moments.len().max(1) as u128;
    let mean = |pages: &dyn Fn(&IdleMoment) -> u64| {
        let sum: u128 = moments.iter().map(|moment| u128::from(bytes(pages(moment), page_bytes))).sum();
        u64::try_from(sum / count).unwrap_or(u64::MAX)
    };
    let bins = moments.first().map_or(0, |moment| moment.idle_pages.len());
    IdleTimes {
        time_ns: moments.last().map_or(0, |moment| moment.time_ns),
        snapshots: moments.len() as u64,
        in_use_bytes: mean(&|moment| moment.in_use_pages),
        idle_bytes: (0..bins).map(|bin| mean(&|moment| moment.idle_pages[bin])).collect(),
    }
}

/// At each moment, with bins of [`IDLE_BOUNDS_NS`]: memory that was touched and is still mapped, and the part that was not touched for at
/// least each bound. Curves that are nowhere above zero are left out.
pub fn idle_course_chart(moments: &[IdleMoment], meta: &TraceMeta) -> Chart {
    let curve = |pages: &dyn Fn(&IdleMoment) -> u64| -> Vec<(f64, f64)> {
        let point = |moment: &IdleMoment| (moment.time_ns as f64, bytes(pages(moment), meta.page_bytes) as f64);
        moments.iter().map(point).collect()
    };
    let idle_from = |bin: usize| move |moment: &IdleMoment| moment.idle_pages.iter().skip(bin).sum::<u64>();
    let all = curve(&|moment| moment.in_use_pages.saturating_add(idle_from(0)(moment)));
    let mut series = vec![Series::line("all that was touched", all)];
    for (bin, bound_ns) in IDLE_BOUNDS_NS.iter().enumerate().skip(1) {
        let points = curve(&idle_from(bin));
        if points.iter().any(|(_, bytes)| *bytes > 0.0) {
            series.push(Series::line(format!("idle for {} and more", Unit::Ns.approx(*bound_ns as f64)), points));
        }
    }
    Chart {
        title: "Idle memory over time".into(),
        subtitle: subject(meta),
        x: Axis::new("time", Unit::Ns),
        y: Axis::new("memory", Unit::Bytes),
        series,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_memory_is_told_from_each_bound_on() {
        let moment =
            |time_ns, idle_pages: &[u64]| IdleMoment { time_ns, in_use_pages: 2, idle_pages: idle_pages.to_vec() };
        let chart = idle_course_chart(&[moment(5, &[1, 0, 0]), moment(9, &[1, 3, 4])], &TraceMeta::single("t"));
        let points: Vec<_> =
            chart.series.iter().map(|series| (series.name.as_str(), series.points[1].1 / 4096.0)).collect();
        assert_eq!(
            points,
            [("all that was touched", 10.0), ("idle for 100 ms and more", 7.0), ("idle for 200 ms and more", 4.0)]
        );
        assert!(idle_course_chart(&[], &TraceMeta::default()).series[0].points.is_empty());
    }

    #[test]
    fn moments_become_their_mean_in_bytes() {
        let moment = |time_ns, in_use_pages, idle_pages: &[u64]| IdleMoment {
            time_ns,
            in_use_pages,
            idle_pages: idle_pages.to_vec(),
        };
        let mean = idle(&[moment(5, 1, &[0, 4]), moment(9, 3, &[2, 0])], 4096);
        assert_eq!((mean.time_ns, mean.snapshots, mean.in_use_bytes), (9, 2, 8192));
        assert_eq!(mean.idle_bytes, [4096, 8192]);
        assert!(idle(&[], 4096).idle_bytes.is_empty());
        assert_eq!(idle(&[moment(0, u64::MAX, &[])], 4096).in_use_bytes, u64::MAX, "no overflow");
    }
}
