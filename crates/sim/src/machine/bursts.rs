//! Bursts: the life of a thread cut at its waits. Users of a service feel the stall of one burst, not the sum over a day.

use super::ProgramState;
use super::outcome::ThreadTime;
use super::task::UserTask;
use std::collections::BTreeMap;

/// Buckets of each power of two: a length is known to 1/64.
const BUCKETS: u64 = 64;

/// Numbers of nanoseconds, counted by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// By bucket. Most processes of a program have few bursts.
    counts: BTreeMap<u16, u64>,
    nr: u64,
    longest_ns: u64,
}

impl Lengths {
    pub(super) fn add(&mut self, ns: u64) {
        *self.counts.entry(bucket_of(ns)).or_default() += 1;
        self.nr += 1;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// How many were counted.
    #[must_use]
    pub const fn nr(&self) -> u64 {
        self.nr
    }

    /// The longest, exactly, in nanoseconds; 0 of none.
    #[must_use]
    pub const fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The length that `percent` (0 to 100) of all do not exceed, in nanoseconds: at most 1/64 too long. 0 of none.
    #[must_use]
    pub fn percentile_ns(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.nr) * u128::from(percent)).div_ceil(100).max(1);
        let mut below = 0_u128;
        for (&bucket, &count) in &self.counts {
            below += u128::from(count);
            if below >= rank {
                return longest_of(bucket).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// Lengths below 64 ns have a bucket each.
fn bucket_of(ns: u64) -> u16 {
    let octave = u64::from((ns | (BUCKETS - 1)).ilog2() + 1 - BUCKETS.ilog2());
    let bucket = if ns < BUCKETS { ns } else { octave * BUCKETS + (ns >> (octave - 1)) - BUCKETS };
    u16::try_from(bucket).expect("below 59 * 64")
}

/// The longest length of a bucket.
fn longest_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let (octave, step) = (bucket / BUCKETS, bucket % BUCKETS);
    if octave == 0 { step } else { ((BUCKETS + step) << (octave - 1)) | ((1 << (octave - 1)) - 1) }
}

/// The bursts of all threads of a process: from one wait of a thread to its next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// CPU time and stalls.
    pub lengths: Lengths,
    /// The part that memory takes: faults, reclaim, devices.
    pub stalls: Lengths,
}

impl Bursts {
    /// Books the burst between two states of a thread's time. Without any time in between there was none.
    pub(super) fn book(&mut self, began: &ThreadTime, ended: &ThreadTime) {
        let length = ended.work_ns() - began.work_ns();
        if length > 0 {
            self.lengths.add(length);
            self.stalls.add(ended.stall_ns() - began.stall_ns());
        }
    }
}

/// Time of one process of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTime {
    /// Sums over its threads.
    pub time: ThreadTime,
    pub bursts: Bursts,
}

impl ProgramState {
    /// Books the burst of a thread that ends or has just slept.
    pub(super) fn book_burst(&mut self, user: &UserTask) {
        self.processes[user.process].bursts.book(&user.burst_began, &user.time);
    }

    /// Books all time of a thread that ends.
    pub(super) fn book(&mut self, user: &UserTask) {
        self.book_burst(user);
        self.time.add(&user.time);
        self.processes[user.process].time.add(&user.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut last = 0;
        for bucket in 0..59 * 64 {
            let longest = longest_of(bucket);
            assert_eq!(bucket_of(longest), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(last + 1), bucket, "the next after {last}");
            }
            last = longest;
        }
        assert_eq!(last, u64::MAX);
    }

    #[test]
    fn percentiles_by_hand() {
        let mut lengths = Lengths::default();
        assert_eq!((lengths.percentile_ns(50), lengths.longest_ns()), (0, 0));
        (1..=200).for_each(|us| lengths.add(us * 1000));
        assert_eq!((lengths.nr(), lengths.longest_ns(), lengths.percentile_ns(100)), (200, 200_000, 200_000));
        for (percent, us) in [(50, 100), (99, 198), (1, 2), (0, 1)] {
            let found = lengths.percentile_ns(percent);
            assert!((us * 1000..=us * 1000 + us * 1000 / 64).contains(&found), "{percent}: {found}");
        }
        let mut huge = Lengths::default();
        huge.add(u64::MAX);
        huge.add(0);
        assert_eq!((huge.percentile_ns(50), huge.percentile_ns(99)), (0, u64::MAX));
    }

    #[test]
    fn a_burst_is_what_lies_between_two_waits() {
        let began = ThreadTime { compute_ns: 10, sleep_ns: 7, ..ThreadTime::default() };
        let ended = ThreadTime { compute_ns: 30, fault_cpu_ns: 3, io_wait_ns: 2, queue_wait_ns: 5, ..began };
        let mut bursts = Bursts::default();
        bursts.book(&began, &ended);
        bursts.book(&ended, &ended);
        assert_eq!((bursts.lengths.nr(), bursts.lengths.longest_ns(), bursts.stalls.longest_ns()), (1, 25, 5));
    }
}
