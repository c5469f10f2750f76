//! One run: a machine put together from a variant.

use crate::daemons::Site;
use crate::event::{GoalValueSpec, LimitValue, PromotionWrite, ScaleSpec, SetSpec};
use crate::monitoring::{Observer, WatchPlan, Watching};
use crate::run::Unit;
use crate::variant::Variant;
use crate::{Scenario, ScenarioError, daemons};
use isotherm_core::daemon::DAEMONS;
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_sim::machine::{Action, Ending, Machine, MachineBuilder, Outcome, Plan, SimError};
use isotherm_units::{Amount, Bytes, Duration, Instant};
use isotherm_workload::BuildContext;
use std::collections::BTreeMap;

/// Peak memory by group path, from a run without limits.
pub type Peaks = BTreeMap<String, Bytes>;

/// Whether any limit of the scenario is a share of peak memory.
pub(crate) fn needs_peaks(scenario: &Scenario) -> bool {
    let share = |value: &Option<LimitValue>| matches!(value, Some(LimitValue::Amount(Amount::Share(_))));
    matches!(scenario.limit, Some(Amount::Share(_)))
        || scenario.cgroups.iter().any(|group| {
            share(&group.max) || share(&group.high) || share(&group.low) || share(&group.min) || share(&group.swap_max)
        })
        || scenario.events.iter().any(|event| {
            event.reclaim.as_ref().is_some_and(|reclaim| matches!(reclaim.amount, Amount::Share(_)))
                || event.set.as_ref().is_some_and(|set| {
                    share(&set.max) || share(&set.high) || share(&set.low) || share(&set.min) || share(&set.swap_max)
                })
        })
}

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub enum Limits<'a> {
    /// None: to find the peaks.
    Off,
    /// Peaks of the scenario; shares are shares of these peaks.
    Of(&'a Peaks),
}

/// The group a workload runs in; by default the group named after it, with `-` for `/`.
pub fn group_path(scenario: &Scenario, index: usize) -> String {
    let entry = &scenario.workloads[index];
    entry.cgroup.clone().unwrap_or_else(|| format!("/{}", entry.name.replace('/', "-")))
}

/// The groups that its programs run in: its own, or one for each copy below it.
fn program_paths(scenario: &Scenario, index: usize) -> Vec<String> {
    let path = group_path(scenario, index);
    match scenario.workloads[index].copies {
        1 => vec![path],
        copies => (1..=copies).map(|copy| format!("{path}/{copy}")).collect(),
    }
}

/// Joins the programs of each workload into one, in the order of the unit's workloads.
pub(crate) fn join_copies(scenario: &Scenario, unit: &Unit, outcome: &mut Outcome) {
    let mut programs = std::mem::take(&mut outcome.programs).into_iter();
    for &index in &unit.workloads {
        let Some(mut joined) = programs.next() else { break };
        if scenario.workloads[index].copies > 1 {
            joined.name.clone_from(&scenario.workloads[index].name);
            joined.cgroup = group_path(scenario, index);
        }
        for _ in 1..scenario.workloads[index].copies {
            let Some(copy) = programs.next() else { break };
            // The first that did not finish gives the ending of the workload.
            if joined.ending == Ending::Finished {
                joined.ending = copy.ending;
            }
            joined.started_ns = joined.started_ns.min(copy.started_ns);
            joined.ended_ns = joined.ended_ns.max(copy.ended_ns);
            joined.operations += copy.operations;
            joined.first_operation_ns = joined.first_operation_ns.into_iter().chain(copy.first_operation_ns).min();
            joined.peak_resident_pages += copy.peak_resident_pages;
            joined.time.add(&copy.time);
        }
        outcome.programs.push(joined);
    }
}

/// A machine and who listens to its monitors.
pub(crate) struct Assembled {
    pub(crate) machine: Machine,
    pub(crate) observers: Vec<Observer>,
}

/// Builds the machine of `variant` that plays `unit`'s workloads with `context`'s seed.
pub(crate) fn machine(
    variant: &Variant,
    unit: &Unit,
    context: &BuildContext,
    limits: Limits<'_>,
    watching: Watching,
    policies: &AddedPolicies,
) -> Result<Assembled, ScenarioError> {
    let (builder, observers) = builder(variant, unit, context, limits, watching, policies)?;
    Ok(Assembled { machine: builder.build(), observers })
}

/// The machine before it is finished: for callers that add to it.
pub(crate) fn builder(
    variant: &Variant,
    unit: &Unit,
    context: &BuildContext,
    limits: Limits<'_>,
    watching: Watching,
    policies: &AddedPolicies,
) -> Result<(MachineBuilder, Vec<Observer>), ScenarioError> {
    let scenario = &variant.scenario;
    let sim_error = |source| unit.failed(variant, source);
    let described = match scenario.tiering.as_ref().map(|tiering| tiering.check(&scenario.machine)) {
        None => scenario.machine.clone(),
        Some(policy) => {
            policy.map_err(|source| sim_error(SimError::Tiering(source)))?.applied_to(scenario.machine.clone())
        }
    };
    let policy = policies.build(&scenario.policy, &scenario.machine.policy_settings());
    let mut builder = policy
        .map_err(SimError::Policy)
        .and_then(|policy| MachineBuilder::new(&described, policy))
        .map_err(sim_error)?;
    let mut groups = BTreeMap::from([("/".to_owned(), CgroupId::ROOT)]);
    let mut paths: Vec<String> = scenario.cgroups.iter().map(|group| group.path.clone()).collect();
    for &index in &unit.workloads {
        paths.push(group_path(scenario, index));
        paths.extend(program_paths(scenario, index));
    }
    for path in paths {
        if groups.contains_key(&path) {
            continue;
        }
        let (parent, name) = path.rsplit_once('/').expect("paths are absolute: checked");
        let parent = groups[if parent.is_empty() { "/" } else { parent }];
        let id = builder.add_cgroup(parent, name).map_err(sim_error)?;
        groups.insert(path, id);
    }
    if let Limits::Of(peaks) = limits {
        for spec in &scenario.cgroups {
            let knobs = [
                (Knob::Max, spec.max),
                (Knob::High, spec.high),
                (Knob::Low, spec.low),
                (Knob::Min, spec.min),
                (Knob::SwapMax, spec.swap_max),
            ];
            for (knob, value) in knobs {
                if let Some(value) = value {
                    builder.set(groups[&spec.path], knob, limit_of(value, &spec.path, peaks));
                }
            }
        }
        for &index in &unit.workloads {
            if let (None, Some(limit)) = (&scenario.workloads[index].cgroup, scenario.limit) {
                let path = group_path(scenario, index);
                builder.set(groups[&path], Knob::Max, limit_of(LimitValue::Amount(limit), &path, peaks));
            }
        }
    }
    let needs_future = builder.needs_future();
    let mut plan = WatchPlan::new(scenario, unit, context.seed, watching);
    let (mut programs, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for &index in &unit.workloads {
        let entry = &scenario.workloads[index];
        let mut ids = Vec::new();
        for (nth, path) in program_paths(scenario, index).into_iter().enumerate() {
            let mut context = context.clone().named(&entry.name).with_future(needs_future);
            if nth > 0 {
                context = context
                    .clone()
                    .named(format!("{}/{}", entry.name, nth + 1))
                    .with_seed(seed_of_copy(context.seed, nth));
            }
            let mut program = entry
                .load
                .build(&context)
                .map_err(|source| ScenarioError::Workload { workload: entry.name.clone(), source })?;
            if nth == 0 {
                plan.prepare(scenario, index, &mut program, &context)?;
            }
            let id = builder.add_program(program, groups[&path]).map_err(sim_error)?;
            if entry.autostart {
                builder.start_at(id, Instant::START + entry.start);
            }
            if entry.premapped {
                builder.premap(id);
            }
            if let Some(node) = entry.node {
                builder.take_memory_of(id, node).map_err(sim_error)?;
            }
            ids.push(id);
        }
        numbers.insert(index, ids[0]);
        programs.insert(entry.name.clone(), ids);
    }
    let paths: Vec<&str> = groups.keys().map(String::as_str).collect();
    let mut site = Site {
        builder: &mut builder,
        scenario,
        seed: context.seed,
        groups: &paths,
        programs: &numbers,
        has_limits: matches!(limits, Limits::Of(_)),
        watched: Some(plan),
        observers: Vec::new(),
        error: &sim_error,
    };
    DAEMONS.iter().try_for_each(|&kind| (daemons::entry(kind).attach)(&mut site))?;
    let observers = site.observers;
    add_other_tasks(&mut builder, scenario, unit);
    for event in &scenario.events {
        let mut plan = |action| builder.plan(Plan { at: Instant::START + event.at, every: event.every, action });
        for (action, name) in [(Action::Start as fn(usize) -> Action, &event.start), (Action::Stop, &event.stop)] {
            // A workload of another unit is not on this machine.
            for id in name.as_ref().and_then(|name| programs.get(name)).into_iter().flatten() {
                plan(action(id.0));
            }
        }
        match &event.promotion {
            Some(PromotionWrite::Scale(ScaleSpec { workload, scale })) => {
                for id in programs.get(workload).into_iter().flatten() {
                    plan(Action::Scale { program: id.0, scale: *scale });
                }
            }
            Some(write) => {
                let (name, text) = write.written().expect("it is a file");
                plan(Action::WritePromotion(name, text));
            }
            None => {}
        }
        if let Some(GoalValueSpec { monitor, scheme, goal, value }) = &event.goal_value {
            plan(Action::ReportGoal { monitor: monitor.clone(), scheme: *scheme, goal: *goal, value: *value });
        }
        let Limits::Of(peaks) = limits else { continue };
        if let Some(write) = &event.mglru {
            let (file, text) = write.written();
            plan(Action::WriteMglru(file, text));
        }
        if let Some(reclaim) = &event.reclaim
            && let Some(&cgroup) = groups.get(&reclaim.cgroup)
        {
            let pages = reclaim.amount.of(peak_of(&reclaim.cgroup, peaks)).pages_ceil();
            plan(Action::Reclaim { cgroup, pages, swappiness: reclaim.swappiness });
        }
        if let Some(set) = &event.set
            && let Some(&cgroup) = groups.get(&set.cgroup)
        {
            for (knob, value) in knobs_of(set) {
                plan(Action::Set(cgroup, knob, limit_of(value, &set.cgroup, peaks)));
            }
        }
    }
    Ok((builder, observers))
}

/// Other tasks of the machine, for policies that do not know the future: policies that know it can do so only for finite workloads.
fn add_other_tasks(builder: &mut MachineBuilder, scenario: &Scenario, unit: &Unit) {
    if scenario.other_tasks == Duration::ZERO || builder.needs_future() {
        return;
    }
    let tick = Duration::from_ns(1_000_000_000 / u64::from(scenario.machine.hz));
    let starts = unit.workloads.iter().map(|&index| scenario.workloads[index].start);
    let from = Instant::START + starts.min().unwrap_or_default();
    builder.other_tasks(tick, from, from + scenario.other_tasks);
}

/// A seed for copy `nth` of a workload, far from the seeds of other repeats.
fn seed_of_copy(seed: u64, nth: usize) -> u64 {
    seed.wrapping_add((nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The limits that a `set` writes.
pub(crate) fn knobs_of(set: &SetSpec) -> Vec<(Knob, LimitValue)> {
    let all = [
        (Knob::Max, set.max),
        (Knob::High, set.high),
        (Knob::Low, set.low),
        (Knob::Min, set.min),
        (Knob::SwapMax, set.swap_max),
    ];
    all.into_iter().filter_map(|(knob, value)| Some((knob, value?))).collect()
}

fn limit_of(value: LimitValue, path: &str, peaks: &Peaks) -> Limit {
    match value {
        LimitValue::Max => Limit::Unlimited,
        LimitValue::Amount(amount) => Limit::At(amount.of(peak_of(path, peaks)).pages_floor()),
    }
}

fn peak_of(path: &str, peaks: &Peaks) -> Bytes {
    peaks.get(path).copied().unwrap_or_default()
}
