//! Kernel threads: kswapd and kcompactd of each node, daemons, and the writer of group files.

use super::oom::VICTIM_WAIT;
use super::schedule::Verdict;
use super::task::{Blocked, KernelTask, TaskId, Work, WriterJob};
use super::{Action, Machine, SimError};
use isotherm_kernel::cgroup::proactive::ProactiveStep;
use isotherm_kernel::cgroup::{CgroupId, Limit};
use isotherm_kernel::memory::NodeId;
use isotherm_kernel::reclaim::driver::{Attempt, ReclaimStep};
use isotherm_kernel::reclaim::mglru::Refusal;
use isotherm_units::{Duration, Instant};

impl Machine {
    pub(super) fn run_kernel(
        &mut self,
        id: TaskId,
        task: &mut KernelTask,
        start: Instant,
        horizon: Instant,
    ) -> (Instant, Verdict) {
        let mut now = start;
        // What a daemon does besides probes, its host reports.
        if !matches!(task, KernelTask::Daemon { .. } | KernelTask::Others) {
            self.memory.stir();
        }
        while now < horizon {
            self.memory.now = now;
            let verdict = match task {
                KernelTask::Others => self.others_step(now),
                KernelTask::Kswapd { node, attempt } => self.kswapd_step(id, *node, attempt, &mut now),
                KernelTask::Kcompactd { daemon } => self.kcompactd_step(id, daemon, &mut now),
                KernelTask::Daemon { daemon, worker } => self.daemon_step(*daemon, *worker, &mut now),
                KernelTask::Writer { jobs, attempt } => {
                    let Some(job) = jobs.front_mut() else { return (now, Verdict::Park) };
                    let verdict = self.writer_step(job, attempt, &mut now);
                    if verdict.is_some_and(|done| done == WriterStep::JobOver) {
                        jobs.pop_front();
                    }
                    match verdict {
                        Some(WriterStep::Wait(until)) => Some(Verdict::Block(until, Blocked::Reclaim)),
                        _ => None,
                    }
                }
            };
            if let Some(verdict) = verdict {
                return (now, verdict);
            }
        }
        (now, Verdict::Preempted)
    }

    fn kswapd_step(
        &mut self,
        id: TaskId,
        node: NodeId,
        attempt: &mut Option<Attempt>,
        now: &mut Instant,
    ) -> Option<Verdict> {
        let run = attempt.get_or_insert_with(|| Attempt::kswapd(node));
        self.memory.note_kswapd(node, true);
        self.set_stall(id, true, *now);
        let step = run.step(&mut self.memory, self.policy.as_mut());
        let ns = self.memory.ledger.take();
        self.kernel.kswapd_ns += ns;
        *now += Duration::from_ns(ns);
        if self.memory.reclaim.take_kill_wanted() && !self.has_dying(CgroupId::ROOT) {
            self.kill_for_memory(CgroupId::ROOT, None, *now);
        }
        match step {
            ReclaimStep::Again => None,
            ReclaimStep::Wait(span) => Some(Verdict::Block(self.throttled_until(*now, span), Blocked::Reclaim)),
            ReclaimStep::Done { .. } | ReclaimStep::Failed => {
                *attempt = None;
                self.set_stall(id, false, *now);
                let balanced = self.memory.nodes.get(node).is_balanced();
                let hopeless = self.memory.is_hopeless(node);
                // Balanced or hopeless: sleep until an allocation falls below the low watermark (again).
                if !balanced && !hopeless {
                    return None;
                }
                self.kswapd_sleeps(node, *now);
                Some(Verdict::Park)
            }
        }
    }

    /// Wakes the daemons of nodes whose free memory fell below the low watermark, or whose watermarks were boosted.
    pub(super) fn wake_kswapds(&mut self, now: Instant) {
        for index in 0..self.kswapds.len() {
            let is_boosted = self.memory.nodes.take_boosted_anew(index);
            if std::mem::take(&mut self.memory.kswapd_wanted[index]) || is_boosted {
                let node = self.memory.nodes.ids().nth(index).expect("one daemon a node");
                let on = self.memory.nodes.get(node);
                if (!on.is_balanced() || on.boost() > 0) && !self.memory.is_hopeless(node) {
                    self.wake(self.kswapds[index], now);
                } else {
                    // Enough is free, if in pieces.
                    self.serve_kcompactd(node, now);
                }
            }
        }
    }

    /// Gives the writer a job.
    pub(super) fn write(&mut self, job: WriterJob, now: Instant) {
        let writer = self.writer;
        if let Some(Work::Kernel(task)) = &mut self.tasks[writer.0].work
            && let KernelTask::Writer { jobs, .. } = task.as_mut()
        {
            jobs.push_back(job);
        }
        self.wake(writer, now);
    }

    fn writer_step(
        &mut self,
        job: &mut WriterJob,
        attempt: &mut Option<Attempt>,
        now: &mut Instant,
    ) -> Option<WriterStep> {
        if let WriterJob::Mglru { plan } = *job {
            self.write_mglru(plan, now);
            return Some(WriterStep::JobOver);
        }
        let Some(run) = attempt else {
            match self.next_attempt(*job) {
                Some(next) => *attempt = Some(next),
                None => return Some(WriterStep::JobOver),
            }
            return None;
        };
        let step = run.step(&mut self.memory, self.policy.as_mut());
        let ns = self.memory.ledger.take();
        self.kernel.proactive_ns += ns;
        *now += Duration::from_ns(ns);
        let reclaimed = match step {
            ReclaimStep::Again => return None,
            ReclaimStep::Wait(span) => return Some(WriterStep::Wait(self.throttled_until(*now, span))),
            ReclaimStep::Done { reclaimed } => reclaimed,
            ReclaimStep::Failed => 0,
        };
        *attempt = None;
        self.job_progress(job, reclaimed, *now)
    }

    /// Remaining work of a job: `None` when it is done.
    fn next_attempt(&self, job: WriterJob) -> Option<Attempt> {
        let excess = |cgroup: CgroupId, limit: Limit| {
            let over = limit.excess(self.memory.cgroups.get(cgroup).usage);
            (over > 0).then(|| Attempt::once(cgroup, over))
        };
        match job {
            WriterJob::Max { cgroup, .. } => excess(cgroup, self.memory.cgroups.get(cgroup).max),
            WriterJob::High { cgroup, .. } => excess(cgroup, self.memory.cgroups.get(cgroup).high),
            WriterJob::Reclaim { cgroup, step: ProactiveStep::Batch(pages), swappiness, .. } => {
                let swappiness = swappiness.unwrap_or(self.memory.config.swappiness);
                Some(Attempt::proactive(cgroup, pages, swappiness))
            }
            WriterJob::Reclaim { .. } | WriterJob::Mglru { .. } => None,
        }
    }

    /// Writes a plan's text to a file of the Multi-Gen LRU.
    fn write_mglru(&mut self, plan: usize, now: &mut Instant) {
        let Action::WriteMglru(file, text) = &self.plans[plan].action else { unreachable!("made from such a plan") };
        let written = match self.policy.as_mglru() {
            Some(mglru) => mglru.write(&mut self.memory, *file, text),
            None => Err(Refusal::Absent),
        };
        if let Err(source) = written {
            let (file, text) = (file.name(), text.clone());
            self.failure = Some(SimError::Refused { at: *now, file, text, source });
        }
        let ns = self.memory.ledger.take();
        self.kernel.proactive_ns += ns;
        *now += Duration::from_ns(ns);
    }

    /// Counts the pages that an attempt freed; returns whether the job is over although pages are left.
    fn job_progress(&mut self, job: &mut WriterJob, reclaimed: u64, now: Instant) -> Option<WriterStep> {
        match job {
            WriterJob::Reclaim { reclaim, step, .. } => {
                *step = reclaim.record(reclaimed);
                None
            }
            WriterJob::Mglru { .. } => Some(WriterStep::JobOver),
            WriterJob::Max { .. } | WriterJob::High { .. } if reclaimed > 0 => None,
            WriterJob::Max { retries_left, .. } | WriterJob::High { retries_left, .. } if *retries_left > 0 => {
                *retries_left -= 1;
                None
            }
            WriterJob::High { .. } => Some(WriterStep::JobOver),
            WriterJob::Max { cgroup, .. } => {
                let cgroup = *cgroup;
                if self.has_dying(cgroup) {
                    return Some(WriterStep::Wait(now + VICTIM_WAIT));
                }
                let before = self.memory.cgroups.get(cgroup).usage;
                self.kill_for_memory(cgroup, None, now);
                // With nothing left to kill the limit stays exceeded.
                let in_vain = self.memory.cgroups.get(cgroup).usage == before && !self.has_dying(cgroup);
                in_vain.then_some(WriterStep::JobOver)
            }
        }
    }

    /// A throttled reclaimer sleeps for `span`, or until the next write completes.
    pub(super) fn throttled_until(&self, now: Instant, span: Duration) -> Instant {
        let progress = self.memory.io.next_completion().unwrap_or(Instant::NEVER);
        (now + span).min(progress.max(now))
    }
}

/// How a step of the writer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterStep {
    Wait(Instant),
    JobOver,
}
