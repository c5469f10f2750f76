//! DAMON's files in sysfs (docs/spec/live-linux.md; the kernel's Documentation/admin-guide/mm/damon/usage.rst): the first
//! kdamond, as the values that make it, in the order in which they are written.

pub use isotherm_units::AddressRange;

/// Where kdamonds are made.
pub const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Number of kdamonds: a kdamond's folder appears when 1 is written here, and vanishes when 0 is written.
pub const NR_KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
/// Switches the first kdamond on and off, and takes its commands.
pub const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
/// The one context of the first kdamond.
pub const CONTEXT: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";

/// A file, and the value that is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub path: String,
    pub value: String,
}

/// How DAMON finds and checks the monitored memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// All of processes; the kernel follows their mappings.
    Vaddr,
    /// Ranges of processes, which never change.
    Fvaddr,
    /// Ranges of physical memory.
    Paddr,
}

impl Operations {
    /// The kernel's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vaddr => "vaddr",
            Self::Fvaddr => "fvaddr",
            Self::Paddr => "paddr",
        }
    }
}

/// A context. Times are in microseconds unless another unit is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub operations: Operations,
    /// Bytes of a unit of physical addresses; 1 is not written: older kernels have no such file.
    pub addr_unit: u64,
    pub attributes: Attributes,
    pub targets: Vec<Target>,
    /// None: the number of schemes is not written either.
    pub schemes: Vec<Scheme>,
}

/// How often and how finely memory is monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub sample_us: u64,
    pub aggr_us: u64,
    pub update_us: u64,
    pub min_nr_regions: u64,
    pub max_nr_regions: u64,
    /// `None`: intervals are fixed, and the files, which came with 6.15, are not written.
    pub intervals_goal: Option<IntervalsGoal>,
}

/// The goal for which the kernel tunes the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalsGoal {
    /// Target share of observed accesses, in hundredths of a percent.
    pub access_bp: u64,
    /// Aggregations after which it is checked.
    pub aggrs: u64,
    pub min_sample_us: u64,
    pub max_sample_us: u64,
}

/// The monitored memory: a process, ranges of it, or ranges of physical memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub pid: Option<u32>,
    /// Ranges in units of the context. `None`: the kernel finds them.
    pub regions: Option<Vec<AddressRange>>,
}

/// Least and most. The most is always written, because it is 0 in a folder just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// `None`: 0, and not written.
    pub min: Option<u64>,
    pub max: u64,
}

/// A scheme. Numbers that are 0 in a new folder are not written if a kernel may lack the file; the docs of these fields say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheme {
    /// The kernel's word: `stat`, `pageout`.
    pub action: String,
    pub access_pattern: AccessPattern,
    /// 0: not written.
    pub apply_interval_us: u64,
    /// 0: not written.
    pub max_nr_snapshots: u64,
    /// Number of the node that actions move memory to.
    pub target_nid: Option<u32>,
    /// Nodes and their weights.
    pub dests: Vec<(u32, u32)>,
    pub quotas: Quotas,
    pub watermarks: Option<Watermarks>,
    pub filters: Vec<Filter>,
}

/// Regions that a scheme is for. The default is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPattern {
    /// Bytes.
    pub sz: Bounds,
    /// Samples of an aggregation.
    pub nr_accesses: Bounds,
    /// Aggregations.
    pub age: Bounds,
}

impl Default for AccessPattern {
    fn default() -> Self {
        let upto = |max| Bounds { min: None, max };
        let number = u64::from(u32::MAX);
        Self { sz: upto(u64::MAX), nr_accesses: upto(number), age: upto(number) }
    }
}

/// How much a scheme may do. 0: not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    pub ms: u64,
    pub bytes: u64,
    pub reset_interval_ms: u64,
    /// Weights of size, accesses and age, per mille.
    pub sz_permil: u64,
    pub nr_accesses_permil: u64,
    pub age_permil: u64,
    /// Numerator and denominator of the charge for failed memory.
    pub fail_charge: Option<(u32, u32)>,
    /// The kernel's word; `None` for its default.
    pub goal_tuner: Option<&'static str>,
    pub goals: Vec<Goal>,
}

/// The goal of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// The kernel's word: `some_mem_psi_us`.
    pub target_metric: String,
    pub target_value: u64,
    /// 0: not written.
    pub current_value: u64,
    pub nid: Option<u32>,
    /// Path of a group.
    pub path: Option<String>,
}

/// When a scheme is on, by the share of free memory, in per mille.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    pub interval_us: u64,
    pub high: u64,
    pub mid: u64,
    pub low: u64,
}

/// Memory of a region that is treated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The kernel's word: `anon`, `memcg`, `hugepage_size`.
    pub kind: String,
    pub matching: bool,
    /// `false` is not written: kernels before 6.14 only have rejecting filters, and no such file.
    pub allow: bool,
    /// Byte addresses, or units of the context.
    pub addresses: Option<AddressRange>,
    pub memcg_path: Option<String>,
    /// Bytes, least and most.
    pub size: Option<(u64, u64)>,
}

impl Context {
    /// All that makes the context of the first kdamond, in order: between 1 for [`NR_KDAMONDS`] and `on` for [`STATE`].
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        Folder { settings: &mut settings, path: format!("{ADMIN}/0/contexts") }.put("nr_contexts", 1);
        let mut folder = Folder { settings: &mut settings, path: CONTEXT.to_owned() };
        folder.put("operations", self.operations.name());
        if self.addr_unit != 1 {
            folder.put("addr_unit", self.addr_unit);
        }
        folder.attributes(&self.attributes);
        folder.put("targets/nr_targets", self.targets.len());
        for (nth, target) in self.targets.iter().enumerate() {
            folder.below(&format!("targets/{nth}")).target(target);
        }
        folder.put_list("schemes/nr_schemes", "schemes", &self.schemes, |folder, scheme| folder.scheme(scheme));
        settings
    }
}

/// A folder whose files are written.
struct Folder<'a> {
    settings: &'a mut Vec<Setting>,
    path: String,
}

impl Folder<'_> {
    fn put(&mut self, file: &str, value: impl ToString) -> &mut Self {
        self.settings.push(Setting { path: format!("{}/{file}", self.path), value: value.to_string() });
        self
    }

    fn put_unless_zero(&mut self, file: &str, value: u64) -> &mut Self {
        if value == 0 { self } else { self.put(file, value) }
    }

    fn put_some(&mut self, file: &str, value: Option<impl ToString>) -> &mut Self {
        if let Some(value) = value {
            self.put(file, value);
        }
        self
    }

    fn below(&mut self, folder: &str) -> Folder<'_> {
        Folder { path: format!("{}/{folder}", self.path), settings: &mut *self.settings }
    }

    /// The number of items, which makes their folders, and each item in its own; nothing is written for an empty list.
    fn put_list<T>(&mut self, count: &str, folder: &str, items: &[T], put: impl Fn(&mut Folder<'_>, &T)) {
        if !items.is_empty() {
            self.put(count, items.len());
        }
        for (nth, item) in items.iter().enumerate() {
            put(&mut self.below(&format!("{folder}/{nth}")), item);
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let mut folder = self.below("monitoring_attrs");
        folder
            .put("intervals/sample_us", attributes.sample_us)
            .put("intervals/aggr_us", attributes.aggr_us)
            .put("intervals/update_us", attributes.update_us)
            // The bounds are checked at each write: the upper one first.
            .put("nr_regions/max", attributes.max_nr_regions)
            .put("nr_regions/min", attributes.min_nr_regions);
        if let Some(goal) = &attributes.intervals_goal {
            folder
                .put("intervals/intervals_goal/access_bp", goal.access_bp)
                .put("intervals/intervals_goal/aggrs", goal.aggrs)
                .put("intervals/intervals_goal/min_sample_us", goal.min_sample_us)
                .put("intervals/intervals_goal/max_sample_us", goal.max_sample_us);
        }
    }

    fn target(&mut self, target: &Target) {
        self.put_some("pid_target", target.pid);
        let Some(regions) = &target.regions else { return };
        self.put("regions/nr_regions", regions.len());
        for (nth, region) in regions.iter().enumerate() {
            self.below(&format!("regions/{nth}")).put("start", region.start).put("end", region.end);
        }
    }

    fn scheme(&mut self, scheme: &Scheme) {
        self.put("action", &scheme.action);
        let pattern = &scheme.access_pattern;
        for (name, bounds) in [("sz", pattern.sz), ("nr_accesses", pattern.nr_accesses), ("age", pattern.age)] {
            self.put(&format!("access_pattern/{name}/max"), bounds.max);
            self.put_some(&format!("access_pattern/{name}/min"), bounds.min);
        }
        self.put_unless_zero("apply_interval_us", scheme.apply_interval_us)
            .put_unless_zero("stats/max_nr_snapshots", scheme.max_nr_snapshots)
            .put_some("target_nid", scheme.target_nid)
            .put_list("dests/nr_dests", "dests", &scheme.dests, |folder, (nid, weight)| {
                folder.put("id", nid).put("weight", weight);
            });
        self.below("quotas").quotas(&scheme.quotas);
        if let Some(marks) = &scheme.watermarks {
            self.below("watermarks")
                .put("metric", "free_mem_rate")
                .put("interval_us", marks.interval_us)
                .put("high", marks.high)
                .put("mid", marks.mid)
                .put("low", marks.low);
        }
        self.put_list("filters/nr_filters", "filters", &scheme.filters, |folder, filter| folder.filter(filter));
    }

    fn quotas(&mut self, quotas: &Quotas) {
        self.put_unless_zero("ms", quotas.ms)
            .put_unless_zero("bytes", quotas.bytes)
            .put_unless_zero("reset_interval_ms", quotas.reset_interval_ms)
            .put_unless_zero("weights/sz_permil", quotas.sz_permil)
            .put_unless_zero("weights/nr_accesses_permil", quotas.nr_accesses_permil)
            .put_unless_zero("weights/age_permil", quotas.age_permil);
        if let Some((num, denom)) = quotas.fail_charge {
            self.put("fail_charge_num", num).put("fail_charge_denom", denom);
        }
        self.put_some("goal_tuner", quotas.goal_tuner);
        self.put_list("goals/nr_goals", "goals", &quotas.goals, |folder, goal| {
            folder
                .put("target_metric", &goal.target_metric)
                .put("target_value", goal.target_value)
                .put_unless_zero("current_value", goal.current_value)
                .put_some("nid", goal.nid)
                .put_some("path", goal.path.as_ref());
        });
    }

    fn filter(&mut self, filter: &Filter) {
        let flag = |is_so: bool| if is_so { "Y" } else { "N" };
        self.put("type", &filter.kind).put("matching", flag(filter.matching));
        self.put_some("allow", filter.allow.then(|| flag(true)));
        if let Some(AddressRange { start, end }) = filter.addresses {
            // The end is checked against the start at each write.
            self.put("addr_end", end).put("addr_start", start);
        }
        self.put_some("memcg_path", filter.memcg_path.as_ref());
        if let Some((min, max)) = filter.size {
            self.put("max", max).put("min", min);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looking(schemes: Vec<Scheme>) -> Context {
        Context {
            operations: Operations::Fvaddr,
            addr_unit: 1,
            attributes: Attributes {
                sample_us: 5000,
                aggr_us: 100_000,
                update_us: 1_000_000,
                min_nr_regions: 10,
                max_nr_regions: 1000,
                intervals_goal: None,
            },
            targets: vec![Target { pid: Some(7), regions: Some(vec![AddressRange::new(4096, 12_288)]) }],
            schemes,
        }
    }

    /// `file=value` of all files in a folder.
    fn lines(context: &Context, folder: &str) -> Vec<String> {
        let settings = context.settings().into_iter();
        let inside = settings.filter_map(|Setting { path, value }| {
            let file = path.strip_prefix(folder)?.strip_prefix('/')?;
            Some(format!("{file}={value}"))
        });
        inside.collect()
    }

    /// By hand, after the kernel's page on usage: a process that is monitored, and nothing else.
    #[test]
    fn a_context_that_only_looks() {
        let context = looking(vec![Scheme { action: "stat".to_owned(), ..Scheme::default() }]);
        assert_eq!(lines(&context, ADMIN)[0], "0/contexts/nr_contexts=1");
        assert_eq!(context.settings().len(), lines(&context, CONTEXT).len() + 1);
        assert_eq!(
            lines(&context, CONTEXT),
            [
                "operations=fvaddr",
                "monitoring_attrs/intervals/sample_us=5000",
                "monitoring_attrs/intervals/aggr_us=100000",
                "monitoring_attrs/intervals/update_us=1000000",
                "monitoring_attrs/nr_regions/max=1000",
                "monitoring_attrs/nr_regions/min=10",
                "targets/nr_targets=1",
                "targets/0/pid_target=7",
                "targets/0/regions/nr_regions=1",
                "targets/0/regions/0/start=4096",
                "targets/0/regions/0/end=12288",
                "schemes/nr_schemes=1",
                "schemes/0/action=stat",
                "schemes/0/access_pattern/sz/max=18446744073709551615",
                "schemes/0/access_pattern/nr_accesses/max=4294967295",
                "schemes/0/access_pattern/age/max=4294967295",
            ]
        );
        let nothing = looking(Vec::new());
        assert!(!lines(&nothing, CONTEXT).iter().any(|line| line.starts_with("schemes")));
    }

    /// By hand: every file of a scheme, upper bounds before lower ones and numbers of folders before their files.
    #[test]
    fn a_scheme_with_all_its_files() {
        let (bounds, text) = (|min, max| Bounds { min: Some(min), max }, str::to_owned);
        let scheme = Scheme {
            action: text("migrate_hot"),
            access_pattern: AccessPattern { sz: bounds(1, 2), nr_accesses: bounds(3, 4), age: bounds(0, 6) },
            apply_interval_us: 7,
            max_nr_snapshots: 8,
            target_nid: Some(9),
            dests: vec![(1, 3)],
            quotas: Quotas {
                ms: 10,
                bytes: 11,
                reset_interval_ms: 12,
                sz_permil: 13,
                nr_accesses_permil: 14,
                age_permil: 15,
                fail_charge: Some((1, 4)),
                goal_tuner: Some("temporal"),
                goals: vec![Goal {
                    target_metric: text("node_mem_used_bp"),
                    target_value: 16,
                    current_value: 17,
                    nid: Some(0),
                    path: Some(text("/g")),
                }],
            },
            watermarks: Some(Watermarks { interval_us: 18, high: 50, mid: 40, low: 20 }),
            filters: vec![
                Filter { kind: text("memcg"), matching: true, memcg_path: Some(text("/x")), ..Filter::default() },
                Filter { kind: text("addr"), addresses: Some(AddressRange::new(1, 2)), ..Filter::default() },
                Filter { kind: text("hugepage_size"), allow: true, size: Some((3, 4)), ..Filter::default() },
            ],
        };
        let mut context = looking(vec![scheme]);
        context.addr_unit = 4096;
        context.attributes.intervals_goal =
            Some(IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5, max_sample_us: 6 });
        assert_eq!(lines(&context, CONTEXT)[1], "addr_unit=4096");
        assert_eq!(
            lines(&context, &format!("{CONTEXT}/monitoring_attrs/intervals/intervals_goal")),
            ["access_bp=400", "aggrs=3", "min_sample_us=5", "max_sample_us=6"]
        );
        let scheme = lines(&context, &format!("{CONTEXT}/schemes/0"));
        assert_eq!(
            scheme.join(" "),
            "action=migrate_hot access_pattern/sz/max=2 access_pattern/sz/min=1 access_pattern/nr_accesses/max=4 \
             access_pattern/nr_accesses/min=3 access_pattern/age/max=6 access_pattern/age/min=0 apply_interval_us=7 \
             stats/max_nr_snapshots=8 target_nid=9 dests/nr_dests=1 dests/0/id=1 dests/0/weight=3 quotas/ms=10 quotas/bytes=11 \
             quotas/reset_interval_ms=12 quotas/weights/sz_permil=13 quotas/weights/nr_accesses_permil=14 \
             quotas/weights/age_permil=15 quotas/fail_charge_num=1 quotas/fail_charge_denom=4 quotas/goal_tuner=temporal \
             quotas/goals/nr_goals=1 quotas/goals/0/target_metric=node_mem_used_bp quotas/goals/0/target_value=16 \
             quotas/goals/0/current_value=17 quotas/goals/0/nid=0 quotas/goals/0/path=/g watermarks/metric=free_mem_rate \
             watermarks/interval_us=18 watermarks/high=50 watermarks/mid=40 watermarks/low=20 filters/nr_filters=3 \
             filters/0/type=memcg filters/0/matching=Y filters/0/memcg_path=/x filters/1/type=addr filters/1/matching=N \
             filters/1/addr_end=2 filters/1/addr_start=1 filters/2/type=hugepage_size filters/2/matching=N filters/2/allow=Y \
             filters/2/max=4 filters/2/min=3"
        );
    }
}
