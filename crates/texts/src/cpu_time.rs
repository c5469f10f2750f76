//! `/proc/stat`: time of processors.

use crate::Strange;

/// Time of all processors since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Running something, interrupts included.
    pub busy: u64,
    /// Running nothing, with or without tasks that wait for I/O.
    pub idle: u64,
    /// Number of processors.
    pub cpus: u64,
}

impl CpuTime {
    /// Reads the lines that begin with `cpu` (proc_stat(5)). Time of guests is part of `user` and `nice`; time that a hypervisor gave to
    /// other machines (`steal`) counts as busy.
    ///
    /// # Errors
    /// The line that is not of this form, or the whole text if it has no such line.
    pub fn parse(text: &str) -> Result<Self, Strange> {
        let of_all = text.lines().find(|line| line.starts_with("cpu ")).ok_or_else(|| Strange::new(text))?;
        let ticks: Option<Vec<u64>> = of_all.split_ascii_whitespace().skip(1).map(|word| word.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() >= 4).ok_or_else(|| Strange::new(of_all))?;
        // user nice system idle iowait irq softirq steal guest guest_nice
        let sum = |fields: &[usize]| {
            fields.iter().filter_map(|&field| ticks.get(field)).fold(0, |sum: u64, ticks| sum.saturating_add(*ticks))
        };
        let is_of_one =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let cpus = text.lines().filter(is_of_one).count() as u64;
        Ok(Self { busy: sum(&[0, 1, 2, 5, 6, 7]), idle: sum(&[3, 4]), cpus: cpus.max(1) })
    }

    /// Processors that were busy on average since `before`, in thousandths of one.
    pub fn busy_permil_since(&self, before: &Self) -> u64 {
        let (busy, idle) = (self.busy.saturating_sub(before.busy), self.idle.saturating_sub(before.idle));
        let permil = u128::from(busy) * 1000 * u128::from(self.cpus) / (u128::from(busy) + u128::from(idle)).max(1);
        u64::try_from(permil).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_added_up_and_compared() {
        let text = "cpu  100 5 20 900 50 1 2 3 40 0\ncpu0 50 5 10 450 25 1 1 1 20 0\ncpu1 50 0 10 450 25 0 1 2 20 0\nintr 1 2\n";
        let first = CpuTime::parse(text).unwrap();
        assert_eq!(first, CpuTime { busy: 131, idle: 950, cpus: 2 });
        let later = CpuTime { busy: 181, idle: 1100, cpus: 2 };
        assert_eq!(later.busy_permil_since(&first), 500);
        assert_eq!(first.busy_permil_since(&later), 0, "a clock that went back");
        assert_eq!(CpuTime::parse("cpu 1 2 3 4\n").unwrap(), CpuTime { busy: 6, idle: 4, cpus: 1 }, "an old kernel");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "cpu\n", "cpu 1 2 3\n", "cpu 1 2 x 4\n", "cpu0 1 2 3 4\n", "cpu 1 2 3 -4\n", "\u{0}cpu 1 2 3 4"]
        {
            assert!(CpuTime::parse(text).is_err(), "{text:?}");
        }
        let huge = format!("cpu {0} {0} {0} {0} {0} {0} {0} {0}\n", u64::MAX);
        assert_eq!(CpuTime::parse(&huge).unwrap().busy, u64::MAX);
    }
}
