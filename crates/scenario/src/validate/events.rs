//! Checks of events.

use super::{Checked, Refused, did_you_mean};
use crate::Scenario;
use crate::assemble::{group_path, knobs_of};
use crate::event::{EventSpec, GoalValueSpec, LimitValue, PromotionWrite, ScaleSpec};
use isotherm_core::promotion::{MODES, SCALE_MAX};
use isotherm_core::vocabulary::Metric;
use isotherm_document::KeyPath;
use isotherm_kernel::cgroup::Knob;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_units::Duration;
use std::collections::BTreeMap;

/// The first limit written by group, knob and time.
type Written = BTreeMap<(String, Knob, Duration), LimitValue>;

pub(super) fn events(scenario: &Scenario) -> Checked {
    let mut written = Written::new();
    for (index, event) in scenario.events.iter().enumerate() {
        let checked = start_and_stop(scenario, event)
            .and_then(|()| mglru(scenario, event))
            .and_then(|()| promotion(scenario, event))
            .and_then(|()| goal_value(scenario, event))
            .and_then(|()| set(event, &mut written))
            .and_then(|()| groups(scenario, event));
        checked.map_err(|(key, message)| {
            let place = KeyPath::from("events").at(index).join(key);
            Refused::new(place, format!("event at {}: {message}", event.at))
        })?;
    }
    Ok(())
}

/// The key of the event, and its error.
type Misplaced = (&'static str, String);

fn start_and_stop(scenario: &Scenario, event: &EventSpec) -> Result<(), Misplaced> {
    if event.nr_actions() != 1 {
        return Err((
            "at",
            "exactly one of `set`, `start`, `stop`, `reclaim`, `mglru`, `promotion`, `goal-value` must be given"
                .to_owned(),
        ));
    }
    if let Some(every) = event.every.filter(|every| every.ns() < 1_000) {
        return Err(("every", format!("`every` is {every}; allowed: 1us and more")));
    }
    for (verb, name) in [("start", &event.start), ("stop", &event.stop)] {
        let Some(name) = name else { continue };
        let Some(workload) = scenario.workloads.iter().find(|workload| workload.name == *name) else {
            let known: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
            let hint = did_you_mean(name, &known);
            let known = known.join(", ");
            return Err((verb, format!("`{verb}` names `{name}`, which is no workload; workloads: {known}{hint}")));
        };
        if verb == "start" && workload.autostart {
            let way_out = "give it `autostart = false` or drop the event";
            return Err((verb, format!("`{name}` starts by itself; {way_out}")));
        }
        let starts = scenario.events.iter().filter(|event| event.start.as_ref() == Some(name));
        let first = if workload.autostart { Some(workload.start) } else { starts.map(|event| event.at).min() };
        if verb == "stop" && first.is_none_or(|first| first >= event.at) {
            return Err((verb, format!("`{name}` is stopped before it starts; start it earlier or stop it later")));
        }
    }
    Ok(())
}

fn mglru(scenario: &Scenario, event: &EventSpec) -> Result<(), Misplaced> {
    let Some(write) = &event.mglru else { return Ok(()) };
    let policy = &scenario.policy;
    if !policy_by_name(policy).is_ok_and(|entry| entry.build().as_mglru().is_some()) {
        let message = format!("`mglru` is written where the policy is `{policy}`; allowed: policy `mglru`");
        return Err(("mglru", message));
    }
    let (file, text) = write.written();
    file.check(&text).map_err(|refusal| ("mglru", format!("`{}` refuses `{text}`: {refusal}", file.name())))
}

fn promotion(scenario: &Scenario, event: &EventSpec) -> Result<(), Misplaced> {
    let Some(write) = &event.promotion else { return Ok(()) };
    let policy = scenario.tiering.as_ref().map_or("none", |tiering| &tiering.policy);
    let mode = MODES.iter().find(|entry| entry.name == policy);
    let Some(mode) = mode else {
        let modes: Vec<&str> = MODES.iter().map(|entry| entry.name).collect();
        let message = format!(
            "`promotion` is written where the policy of [tiering] is `{policy}`; allowed: with a scan daemon, {}",
            modes.join(", ")
        );
        return Err(("promotion", message));
    };
    if let PromotionWrite::Scale(ScaleSpec { workload, scale }) = write {
        let known: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
        if !known.contains(&workload.as_str()) {
            let hint = did_you_mean(workload, &known);
            let message =
                format!("`scale` names `{workload}`, which is no workload; workloads: {}{hint}", known.join(", "));
            return Err(("promotion", message));
        }
        if !mode.mode.limits().has_scale {
            let message = format!("`{policy}` knows no scales of processes; allowed: v1 and later, rch");
            return Err(("promotion", message));
        }
        if *scale > SCALE_MAX {
            return Err(("promotion", format!("`scale` is {scale}; allowed: 0 to {SCALE_MAX}")));
        }
    }
    Ok(())
}

fn goal_value(scenario: &Scenario, event: &EventSpec) -> Result<(), Misplaced> {
    let Some(GoalValueSpec { monitor: name, scheme, goal, .. }) = &event.goal_value else { return Ok(()) };
    let Some(monitor) = scenario.monitors.iter().find(|monitor| monitor.name == *name) else {
        let known: Vec<&str> = scenario.monitors.iter().map(|monitor| monitor.name.as_str()).collect();
        let hint = did_you_mean(name, &known);
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        return Err(("goal-value", format!("`{name}` is no monitor; monitors: {known}{hint}")));
    };
    let found = monitor.config.schemes.get(*scheme).and_then(|scheme| scheme.quotas.goals.get(*goal));
    if found.is_none_or(|goal| goal.metric != Metric::UserInput) {
        let message = format!("scheme {scheme} of `{name}` has no goal {goal} of `user-input`");
        return Err(("goal-value", message));
    }
    Ok(())
}

fn set(event: &EventSpec, written: &mut Written) -> Result<(), Misplaced> {
    let Some(set) = &event.set else { return Ok(()) };
    if knobs_of(set).is_empty() {
        return Err(("set", "`set` writes nothing; give `max`, `high`, `low`, `min` or `swap-max`".to_owned()));
    }
    for (knob, value) in knobs_of(set) {
        let before = written.insert((set.cgroup.clone(), knob, event.at), value);
        if before.is_some_and(|before| before != value) {
            let message = format!("contradicts another event at the same time on cgroup `{}`", set.cgroup);
            return Err(("set", message));
        }
    }
    Ok(())
}

fn groups(scenario: &Scenario, event: &EventSpec) -> Result<(), Misplaced> {
    let own = (0..scenario.workloads.len()).map(|index| group_path(scenario, index));
    let known: Vec<String> = scenario.cgroups.iter().map(|group| group.path.clone()).chain(own).collect();
    let of_set = event.set.as_ref().map(|set| ("set.cgroup", &set.cgroup));
    let of_reclaim = event.reclaim.as_ref().map(|reclaim| ("reclaim.cgroup", &reclaim.cgroup));
    if let Some((key, cgroup)) = of_set.or(of_reclaim).filter(|(_, cgroup)| !known.contains(cgroup)) {
        return Err((key, format!("unknown cgroup `{cgroup}`; known: {}", known.join(", "))));
    }
    match event.reclaim.as_ref().and_then(|reclaim| reclaim.swappiness) {
        Some(swappiness @ 202..) => {
            Err(("reclaim.swappiness", format!("`swappiness` is {swappiness}; allowed: 0 to 201")))
        }
        _ => Ok(()),
    }
}
