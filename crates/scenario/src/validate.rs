//! What a well-formed scenario must also satisfy.

use crate::assemble::knobs_of;
use crate::defrag::{self, DefragSpec};
use crate::event::LimitValue;
use crate::expectations::ExpectationSpec;
use crate::generations::GenerationsSpec;
use crate::metrics::{METRICS, metric_named};
use crate::parse::{nearest, place};
use crate::variant::{self, Variant};
use crate::{Reference, RunMode, Scenario, ScenarioError};
use isotherm_core::generations::covers;
use isotherm_sim::reclaim::policy_by_name;
use isotherm_units::{Amount, Bytes, PAGE_BYTES};
use std::collections::BTreeMap;
use std::path::Path;

/// Least `memory.max` that a program can live with: a fault may need a handful of pages at once.
const LIMIT_MIN: Bytes = Bytes::new(32 * PAGE_BYTES);

/// Checks a scenario and all its variants.
pub(crate) fn validate(scenario: &Scenario, text: &str, name: &str, folder: &Path) -> Result<(), ScenarioError> {
    let checker = Checker { text, name };
    checker.metrics(scenario)?;
    checker.averages(scenario)?;
    let mut variants = variant::expand(scenario, name)?;
    checker.references(scenario, &variants)?;
    checker.expectations(scenario, &variants)?;
    let has_several = variants.len() > 1;
    for variant in &mut variants {
        checker.files(variant, has_several, folder)?;
        checker.variant(variant, has_several)?;
    }
    let named = std::iter::once(&scenario.against).chain(variants.iter().map(|variant| &variant.scenario.against));
    for against in named.flatten() {
        if !variants.iter().any(|variant| variant.name == *against) {
            let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
            let message = format!("`against` names `{against}`, which is no variant; variants: {}", names.join(", "));
            return Err(checker.error(against, message));
        }
    }
    Ok(())
}

struct Checker<'a> {
    text: &'a str,
    name: &'a str,
}

impl Checker<'_> {
    /// An error at the first place where the text says `needle`.
    fn error(&self, needle: &str, message: String) -> ScenarioError {
        let quoted = format!("\"{needle}\"");
        let found = self.text.find(&quoted).or_else(|| self.text.find(needle));
        let place = found.map_or_else(|| self.name.to_owned(), |offset| place(self.text, self.name, offset));
        ScenarioError::Meaning { place, message }
    }

    /// Where the key `key` stands; the first behind the string `name`, or else the first of all.
    fn key_after(&self, name: &str, key: &str) -> Option<usize> {
        if key.is_empty() {
            return None;
        }
        let is_key = |&(offset, _): &(usize, &str)| {
            let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
            let (before, after) = (&self.text[..offset], &self.text[offset + key.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word)
        };
        let from = self.text.find(&format!("\"{name}\"")).unwrap_or_default();
        let mut keys = self.text.match_indices(key).filter(is_key).map(|(offset, _)| offset);
        let first = keys.next()?;
        Some(std::iter::once(first).chain(keys).find(|&offset| offset > from).unwrap_or(first))
    }

    fn metrics(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        for name in &scenario.metrics {
            if metric_named(name).is_none() {
                let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
                let hint = nearest(name, names.iter().copied());
                let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let message = format!("unknown metric `{name}`; allowed: {}{hint}", names.join(", "));
                return Err(self.error(name, message));
            }
        }
        Ok(())
    }

    fn averages(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let known: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
        for (index, average) in scenario.averages.iter().enumerate() {
            let name = &average.name;
            let taken = name == "system" || known.contains(&name.as_str());
            if name.is_empty() || taken || scenario.averages[..index].iter().any(|earlier| earlier.name == *name) {
                let message = format!(
                    "`{name}` cannot name an average; allowed: what names no workload, no other average, and is not `system`"
                );
                return Err(self.error(name, message));
            }
            for (at, workload) in average.workloads.iter().enumerate() {
                if !known.contains(&workload.as_str()) {
                    let hint = nearest(workload, known.iter().copied());
                    let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    let known = known.join(", ");
                    let message =
                        format!("average `{name}` names `{workload}`, which is no workload; workloads: {known}{hint}");
                    return Err(self.error(workload, message));
                }
                if average.workloads[..at].contains(workload) {
                    return Err(self.error(name, format!("average `{name}` names `{workload}` twice")));
                }
            }
        }
        Ok(())
    }

    /// A reference that no row can meet would never be seen.
    fn references(&self, scenario: &Scenario, variants: &[Variant]) -> Result<(), ScenarioError> {
        let averages = scenario.averages.iter().map(|average| average.name.as_str());
        let workloads: Vec<&str> = scenario
            .workloads
            .iter()
            .map(|workload| workload.name.as_str())
            .chain(["system"])
            .chain(averages)
            .collect();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let metrics: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        for reference in &scenario.references {
            let Reference { workload, variant, metric, value, low, high, against, .. } = reference;
            let fail = |needle: &str, message: String| {
                let message = format!("reference of `{metric}` of `{workload}` under `{variant}`: {message}");
                Err(self.error(needle, message))
            };
            let named =
                [("workload", workload, &workloads), ("variant", variant, &names), ("metric", metric, &metrics)];
            let against = against.iter().map(|name| ("variant", name, &names));
            for (what, name, known) in named.into_iter().chain(against) {
                if !known.contains(&name.as_str()) {
                    let hint = nearest(name, known.iter().copied());
                    let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    return fail(name, format!("`{name}` is no {what}{hint}"));
                }
            }
            match (value, low, high) {
                (None, None, None) => return fail(workload, "give `value`, or `low` and `high`".to_owned()),
                (_, Some(_), None) | (_, None, Some(_)) => {
                    return fail(workload, "`low` and `high` come together".to_owned());
                }
                (_, Some(low), Some(high)) if low > high => {
                    return fail(workload, format!("`low` ({low}) is above `high` ({high})"));
                }
                (Some(value), Some(low), Some(high)) if !(low..=high).contains(&value) => {
                    return fail(workload, format!("`value` ({value}) lies outside of {low} to {high}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the files that monitors name.
    fn files(&self, variant: &mut Variant, named: bool, folder: &Path) -> Result<(), ScenarioError> {
        for monitor in &mut variant.scenario.monitors {
            if let Err(message) = monitor.resolve(folder) {
                let message = format!("monitor `{}`: {message}", monitor.name);
                let message = if named { format!("variant `{}`: {message}", variant.name) } else { message };
                let found = self.key_after(&monitor.name, "damo");
                let place = found.map_or_else(|| self.name.to_owned(), |offset| place(self.text, self.name, offset));
                return Err(ScenarioError::Meaning { place, message });
            }
        }
        Ok(())
    }

    fn variant(&self, variant: &Variant, named: bool) -> Result<(), ScenarioError> {
        let scenario = &variant.scenario;
        let within = |message: String| {
            if named { format!("variant `{}`: {message}", variant.name) } else { message }
        };
        if scenario.repeats == 0 {
            return Err(self.error("repeats", within("`repeats` is 0; allowed: 1 or more".to_owned())));
        }
        if scenario.workloads.is_empty() {
            return Err(self.error("workloads", within("there is no workload; add a `[[workloads]]` table".to_owned())));
        }
        scenario.machine.validate().map_err(|error| {
            let key = error.field.rsplit('.').next().unwrap_or(&error.field).to_owned();
            self.error(&key, within(format!("[machine] {error}")))
        })?;
        self.tiering(variant, &within)?;
        self.names(scenario, &within)?;
        self.limits(scenario, &within)?;
        self.monitors(scenario, &within)?;
        self.generations(scenario, &within)?;
        self.defrag(scenario, &within)?;
        self.events(scenario, &within)
    }

    fn defrag(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        for (index, DefragSpec { name, node, .. }) in scenario.defrag.iter().enumerate() {
            let fail =
                |needle: &str, message: &str| Err(self.error(needle, within(format!("defrag `{name}`: {message}"))));
            if name.is_empty() {
                return fail("defrag", "its name is empty; give it one");
            }
            if scenario.defrag[..index].iter().any(|earlier| earlier.name == *name) {
                return fail(name, "two daemons have this name; give each its own");
            }
            if let Some(other) = scenario.defrag[..index].iter().find(|other| other.node == *node) {
                let other = &other.name;
                return fail(name, &format!("node {node} has `{other}` already; two would undo each other's work"));
            }
        }
        if let Some((spec, message)) = defrag::refusal(scenario) {
            let key = message.split('`').nth(3).unwrap_or_default().rsplit('.').next().unwrap_or_default();
            return Err(match self.key_after(&spec.name, key) {
                Some(offset) => {
                    ScenarioError::Meaning { place: place(self.text, self.name, offset), message: within(message) }
                }
                None => self.error(&spec.name, within(message)),
            });
        }
        Ok(())
    }

    /// An expectation of a row that there can never be, or of nothing, would always be missed or met.
    fn expectations(&self, scenario: &Scenario, variants: &[Variant]) -> Result<(), ScenarioError> {
        let is_variant = |name: &String| variants.iter().any(|variant| variant.name == *name);
        let is_workload = |name: &String| {
            let entries = scenario.workloads.iter().map(|entry| &entry.name);
            name == "system"
                || entries.chain(scenario.averages.iter().map(|average| &average.name)).any(|one| one == name)
        };
        for expected in &scenario.expectations {
            let ExpectationSpec { workload, variant, metric, against, at_least, at_most, .. } = expected;
            let fail = |needle: &str, message: String| {
                let message = format!("expectation of `{metric}` of `{workload}` under `{variant}`: {message}");
                Err(self.error(needle, message))
            };
            if !is_workload(workload) {
                return fail(workload, format!("`{workload}` is no workload"));
            }
            if let Some(name) = std::iter::once(variant).chain(against).find(|name| !is_variant(name)) {
                return fail(name, format!("`{name}` is no variant"));
            }
            if metric_named(metric).is_none() {
                let hint = nearest(metric, METRICS.iter().map(|known| known.name));
                let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return fail(metric, format!("`{metric}` is no metric{hint}"));
            }
            match (at_least, at_most) {
                (None, None) => return fail(metric, "give `at_least`, `at_most` or both".to_owned()),
                (Some(least), Some(most)) if least > most => {
                    return fail(metric, format!("`at_least` ({least}) is above `at_most` ({most})"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The policy over tiers, nodes of workloads, and which workloads a variant plays.
    fn tiering(&self, variant: &Variant, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let scenario = &variant.scenario;
        if let Some(Err(error)) = scenario.tiering.as_ref().map(|tiering| tiering.check(&scenario.machine)) {
            let key = error.field.rsplit('.').next().unwrap_or(&error.field).to_owned();
            return Err(self.error(&key, within(format!("[tiering] {error}"))));
        }
        let nodes = scenario.machine.nodes.len();
        for workload in &scenario.workloads {
            if let Some(node) = workload.node.filter(|node| *node >= nodes) {
                let name = &workload.name;
                let message = format!(
                    "workload `{name}`: `node` is {node}; allowed: 0 to {}, the nodes of the machine",
                    nodes - 1
                );
                return Err(self.error("node", within(message)));
            }
        }
        if !variant.only.is_empty() && scenario.run == RunMode::Together {
            let message = "`only` needs `run = \"each\"`: together, workloads are one machine".to_owned();
            return Err(self.error("only", within(message)));
        }
        for name in &variant.only {
            if !scenario.workloads.iter().any(|workload| workload.name == *name) {
                let known: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
                let hint = nearest(name, known.iter().copied());
                let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return Err(self.error(name, within(format!("`only` names `{name}`, which is no workload{hint}"))));
            }
        }
        Ok(())
    }

    fn monitors(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let names: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
        for (index, monitor) in scenario.monitors.iter().enumerate() {
            let name = &monitor.name;
            let fail =
                |needle: &str, message: String| Err(self.error(needle, within(format!("monitor `{name}`: {message}"))));
            if name.is_empty() {
                return fail("monitors", "its name is empty; give it one".to_owned());
            }
            if scenario.monitors[..index].iter().any(|earlier| earlier.name == *name) {
                return fail(name, "two monitors have this name; give each its own".to_owned());
            }
            if let Err(error) = monitor.config.validate() {
                let message = error.to_string();
                let key = message.split('`').nth(1).and_then(|key| key.rsplit('.').next()).unwrap_or_default();
                // The key may stand in either spelling, or nowhere: then the monitor is the place.
                let key = key.split('[').next().unwrap_or(key);
                let message = within(format!("monitor `{name}`: {message}"));
                let found = [key.to_owned(), key.replace('-', "_")].iter().find_map(|key| self.key_after(name, key));
                return Err(match found {
                    Some(offset) => ScenarioError::Meaning { place: place(self.text, self.name, offset), message },
                    None => self.error(name, message),
                });
            }
            let named = match monitor.named_targets() {
                Ok(named) => named.unwrap_or_default(),
                Err(target) => {
                    let message =
                        format!("`{target}` is no target; allowed: WORKLOAD, or WORKLOAD/NUMBER of a process");
                    return fail(target, message);
                }
            };
            if monitor.is_physical() && !named.is_empty() {
                return fail(name, "`paddr` watches physical memory; leave `targets` out".to_owned());
            }
            for ((workload, _), target) in named.iter().zip(&monitor.targets) {
                if !names.contains(workload) {
                    let hint = nearest(workload, names.iter().copied());
                    let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    let message =
                        format!("it watches `{target}`, which is no workload; workloads: {}{hint}", names.join(", "));
                    return fail(target, message);
                }
                if named.iter().zip(&monitor.targets).filter(|(_, other)| *other == target).count() > 1 {
                    return fail(target, format!("it watches `{target}` twice"));
                }
            }
            if !monitor.ranges.is_empty() && !monitor.is_physical() && named.len() != 1 {
                return fail(name, "`ranges` are those of one target; name it in `targets`".to_owned());
            }
            let spans: Vec<(u64, u64)> = monitor.ranges.iter().map(|range| (range.start, range.end)).collect();
            if let Some((start, end)) = spans.iter().find(|(start, end)| start >= end) {
                return fail(
                    "ranges",
                    format!("the range {start:#x}-{end:#x} is empty; allowed: an end above the start"),
                );
            }
            if let Some(pair) = spans.windows(2).find(|pair| pair[0].1 > pair[1].0) {
                let message =
                    format!("ranges overlap at {:#x}; allowed: ascending ones that do not overlap", pair[1].0);
                return fail("ranges", message);
            }
        }
        Ok(())
    }

    fn generations(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let mut groups: Vec<String> = vec!["/".to_owned()];
        groups.extend(scenario.cgroups.iter().map(|group| group.path.clone()));
        groups.extend((0..scenario.workloads.len()).map(|index| crate::assemble::group_path(scenario, index)));
        for (index, spec) in scenario.generations.iter().enumerate() {
            let name = &spec.name;
            let fail = |needle: &str, message: String| {
                Err(self.error(needle, within(format!("generations `{name}`: {message}"))))
            };
            if name.is_empty() {
                return fail("generations", "its name is empty; give it one".to_owned());
            }
            if scenario.generations[..index].iter().any(|earlier| earlier.name == *name) {
                return fail(name, "two tools have this name; give each its own".to_owned());
            }
            if let Err(error) = spec.validate() {
                let message = within(format!("generations `{name}`: {error}"));
                return Err(match self.key_after(name, error.key) {
                    Some(offset) => ScenarioError::Meaning { place: place(self.text, self.name, offset), message },
                    None => self.error(name, message),
                });
            }
            for target in spec.targets() {
                let shares = |other: &&GenerationsSpec| {
                    other.targets().iter().any(|one| covers(one, target) || covers(target, one))
                };
                if let Some(other) = scenario.generations[..index].iter().find(shares) {
                    let message = format!(
                        "`{target}` has `{}` already: two tools on a group age it twice, and four generations reach back half \
                         as far; give each its own groups (`reclaim` tells the working set, too)",
                        other.name
                    );
                    return fail(name, message);
                }
                if !groups.iter().any(|group| covers(target, group)) {
                    let hint = nearest(target, groups.iter().map(String::as_str));
                    let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    return fail(target, format!("there is no group `{target}`; groups: {}{hint}", groups.join(", ")));
                }
            }
        }
        Ok(())
    }

    fn names(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let mut known = vec!["/"];
        for group in &scenario.cgroups {
            let parent = group.path.rsplit_once('/').map(|(parent, _)| if parent.is_empty() { "/" } else { parent });
            let well_formed = group.path.len() > 1 && !group.path.ends_with('/') && !group.path.contains("//");
            if !well_formed || !parent.is_some_and(|parent| known.contains(&parent)) {
                let message =
                    format!("cgroup path `{}` must be absolute, with its parent listed before it", group.path);
                return Err(self.error(&group.path, within(message)));
            }
            if known.contains(&group.path.as_str()) {
                return Err(self.error(&group.path, within(format!("cgroup `{}` is listed twice", group.path))));
            }
            known.push(&group.path);
        }
        for (index, workload) in scenario.workloads.iter().enumerate() {
            let name = &workload.name;
            // A number behind the last `/` would name a process of another workload.
            let part_ok = |part: &str| !part.is_empty() && part.parse::<usize>().is_err();
            let parts_ok =
                name.split('/').enumerate().all(|(nth, part)| if nth == 0 { !part.is_empty() } else { part_ok(part) });
            if !parts_ok || name == "system" {
                let message = format!(
                    "`{name}` cannot name a workload: not empty, not `system`, and words (no numbers) behind each `/`"
                );
                return Err(self.error(name, within(message)));
            }
            if scenario.workloads[..index].iter().any(|earlier| earlier.name == *name) {
                return Err(self.error(name, within(format!("two workloads are called `{name}`"))));
            }
            if !(1..=1024).contains(&workload.copies) {
                let message = format!("workload `{name}`: `copies` is {}; allowed: 1 to 1024", workload.copies);
                return Err(self.error("copies", within(message)));
            }
            let path = crate::assemble::group_path(scenario, index);
            let is_own = |other: usize| scenario.workloads[other].cgroup.is_none();
            let shares = |earlier: usize| is_own(earlier) && crate::assemble::group_path(scenario, earlier) == path;
            if let Some(earlier) = (0..index).find(|&earlier| is_own(index) && shares(earlier)) {
                let message = format!(
                    "workloads `{}` and `{name}` would both get the cgroup `{path}`; rename one, or give it a `cgroup`",
                    scenario.workloads[earlier].name
                );
                return Err(self.error(name, within(message)));
            }
            if let Some(cgroup) = &workload.cgroup
                && !known.contains(&cgroup.as_str())
            {
                let message = format!("workload `{name}` names the cgroup `{cgroup}`; known: {}", known.join(", "));
                return Err(self.error(cgroup, within(message)));
            }
        }
        Ok(())
    }

    fn limits(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let memory = scenario.machine.memory();
        let check = |key: &str, value: LimitValue, is_max: bool| {
            let message = match value {
                LimitValue::Amount(Amount::Absolute(size)) if size > memory => {
                    format!("{key} is {size}, above the machine's memory of {memory}")
                }
                LimitValue::Amount(Amount::Absolute(size)) if is_max && size < LIMIT_MIN => {
                    format!("{key} is {size}; allowed: {LIMIT_MIN} to {memory}")
                }
                LimitValue::Amount(Amount::Share(share)) if is_max && share.ppm() == 0 => {
                    format!("{key} is 0%; allowed: more than 0%")
                }
                _ => return Ok(()),
            };
            Err(self.error(&value.to_string(), within(message)))
        };
        if let Some(limit) = scenario.limit {
            check("limit", LimitValue::Amount(limit), true)?;
        }
        for group in &scenario.cgroups {
            let knobs = [("max", group.max), ("high", group.high), ("low", group.low), ("min", group.min)];
            for (key, value) in knobs.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                check(&format!("`{key}` of cgroup `{}`", group.path), value, key == "max")?;
            }
        }
        for set in scenario.events.iter().filter_map(|event| event.set.as_ref()) {
            for (knob, value) in knobs_of(set) {
                let is_max = knob == isotherm_sim::cgroup::Knob::Max;
                check(&format!("an event's limit of cgroup `{}`", set.cgroup), value, is_max)?;
            }
        }
        Ok(())
    }

    fn events(&self, scenario: &Scenario, within: &dyn Fn(String) -> String) -> Result<(), ScenarioError> {
        let mut groups: Vec<String> = scenario.cgroups.iter().map(|group| group.path.clone()).collect();
        groups.extend((0..scenario.workloads.len()).map(|index| crate::assemble::group_path(scenario, index)));
        let mut written: BTreeMap<_, LimitValue> = BTreeMap::new();
        let has_generations = policy_by_name(&scenario.policy).is_ok_and(|entry| entry.build().as_mglru().is_some());
        for event in &scenario.events {
            let at = event.at;
            let fail = |message: String| Err(self.error(&at.to_string(), within(format!("event at {at}: {message}"))));
            if event.nr_actions() != 1 {
                return fail("exactly one of `set`, `start`, `stop`, `reclaim`, `mglru` must be given".to_owned());
            }
            if event.every.is_some_and(|every| every.ns() < 1_000) {
                return fail("`every` must be at least 1us".to_owned());
            }
            for (verb, name) in [("start", &event.start), ("stop", &event.stop)] {
                let Some(name) = name else { continue };
                let Some(workload) = scenario.workloads.iter().find(|workload| workload.name == *name) else {
                    return fail(format!("`{verb}` names `{name}`, which is no workload"));
                };
                if verb == "start" && workload.autostart {
                    return fail(format!("`{name}` starts by itself; give it `autostart = false` or drop the event"));
                }
                let starts: Vec<_> = scenario.events.iter().filter(|e| e.start.as_ref() == Some(name)).collect();
                let first = if workload.autostart { Some(workload.start) } else { starts.iter().map(|e| e.at).min() };
                if verb == "stop" && first.is_none_or(|first| first >= at) {
                    return fail(format!("`{name}` is stopped before it starts"));
                }
            }
            if let Some(write) = &event.mglru {
                if !has_generations {
                    let policy = &scenario.policy;
                    return fail(format!("`mglru` is written where the policy is `{policy}`; allowed: policy `mglru`"));
                }
                let (file, text) = write.written();
                if let Err(refusal) = file.check(&text) {
                    return fail(format!("`{}` refuses `{text}`: {refusal}", file.name()));
                }
            }
            if let Some(set) = &event.set {
                if knobs_of(set).is_empty() {
                    return fail("`set` writes nothing; give `max`, `high`, `low`, `min` or `swap_max`".to_owned());
                }
                for (knob, value) in knobs_of(set) {
                    let before = written.insert((set.cgroup.clone(), knob, at), value);
                    if before.is_some_and(|before| before != value) {
                        return fail(format!("contradicts another event at the same time on cgroup `{}`", set.cgroup));
                    }
                }
            }
            let cgroup = event.set.as_ref().map(|set| &set.cgroup).or(event.reclaim.as_ref().map(|r| &r.cgroup));
            if let Some(cgroup) = cgroup
                && !groups.contains(cgroup)
            {
                return fail(format!("unknown cgroup `{cgroup}`; known: {}", groups.join(", ")));
            }
            if event.reclaim.as_ref().and_then(|r| r.swappiness).is_some_and(|swappiness| swappiness > 201) {
                return fail("`swappiness` must be 0 to 201".to_owned());
            }
        }
        Ok(())
    }
}
