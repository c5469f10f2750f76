//! Experiments as data: machine, workloads, policy, events, variants; runs, statistics, advice.
