//! The advice in tables.

use crate::{Advice, AdviceRow, CANDIDATES, FEWEST_FAULTS, HugePages, percent};
use isotherm_report::{Align, Cell, Column, Table, Unit};
use isotherm_units::Bytes;

use super::words;

/// Every configuration at every size played, release by release.
pub fn rows(answers: &[Advice]) -> Table {
    let mut table = Table::new(
        "",
        vec![
            Column::text("kernel"),
            Column::text("configuration"),
            Column::number("memory", Unit::Bytes),
            Column::number("of peak", Unit::Ppm),
            Column::number("n", Unit::Count),
            Column::number("runtime", Unit::Ns),
            Column::number("slower by", Unit::Ppm),
            Column::number("at least", Unit::Ppm),
            Column::number("at most", Unit::Ppm),
            Column::number("at most by chance", Unit::Ppm),
            Column::number("at most natively", Unit::Ppm),
            Column::number("major faults", Unit::Count),
            Column::number("faults at least", Unit::Count),
            Column::number("faults at most", Unit::Count),
            Column::number("faults at most by chance", Unit::Count),
            Column::number("faults to opt", Unit::Factor),
            Column::number("killed", Unit::Count),
            Column::number("killed at most", Unit::Ppm),
            Column::text("killed of"),
            Column::number("mean memory", Unit::Bytes),
            Column::number("pressure some", Unit::Ppm),
            Column::number("reclaim cpu", Unit::Ns),
            Column::number("monitor cpu", Unit::Ns),
            Column::text("note"),
            Column::text("schemes"),
        ],
    );
    // A limit that moves a stall can give slightly less than nothing.
    let over = |ratio: u64| ratio as f64 - 1e6;
    for (advice, row) in answers.iter().flat_map(|advice| advice.rows.iter().map(move |row| (advice, row))) {
        if words::is_recommended(advice, row) {
            table.highlight = Some(table.rows.len());
        }
        let ratio = row.runtime_ratio_ppm;
        table.push(vec![
            Cell::from(advice.kernel.name()),
            Cell::from(row.candidate),
            row.memory_bytes.into(),
            row.memory_share_ppm.into(),
            row.n.into(),
            row.runtime_ns.into(),
            ratio.map(|ratio| over(ratio.median)).into(),
            ratio.map(|ratio| over(ratio.low)).into(),
            ratio.map(|ratio| over(ratio.high)).into(),
            ratio.map(|ratio| over(ratio.chance_high)).into(),
            row.native_at_most_ppm.map(over).into(),
            row.major_faults.median.into(),
            row.major_faults.low.into(),
            row.major_faults.high.into(),
            row.major_faults.chance_high.into(),
            row.faults_to_opt_ppm.map(|ppm| ppm as f64 / 1e6).into(),
            row.kills.share.of.into(),
            row.kills.share.at_most_ppm().into(),
            Cell::from(words::start(row.kills.start)),
            row.mean_bytes.median.into(),
            row.pressure_some_ppm.into(),
            row.reclaim_cpu_ns.into(),
            if row.schemes.is_empty() { Cell::Missing } else { row.monitor_cpu_ns.into() },
            Cell::from(words::note(advice, row)),
            Cell::from(words::did(&row.schemes)),
        ]);
    }
    table
}

/// The policies of Linux by each release, at the size at which all are compared.
pub fn releases(answers: &[Advice]) -> Table {
    let size = answers.first().map_or(0, |advice| advice.compared_bytes);
    let columns = vec![
        Column::text("kernel"),
        Column::text("policy"),
        Column::number("safe from", Unit::Bytes),
        Column::number("slower by", Unit::Ppm),
        Column::number("major faults", Unit::Count),
    ];
    let mut table = Table::new(format!("At memory.max = {}", Bytes::new(size).approx()), columns);
    for advice in answers {
        let is_plain =
            |name: &str| CANDIDATES.iter().any(|one| one.name == name && one.runs_on_linux() && one.nr_parts() == 0);
        for configuration in advice.configurations.iter().filter(|one| is_plain(one.candidate)) {
            let name = configuration.candidate;
            let row = advice.rows.iter().find(|row| row.candidate == name && row.memory_bytes == advice.compared_bytes);
            let slower = row.and_then(|row| row.runtime_ratio_ppm).map(|ratio| ratio.median as f64 - 1e6);
            table.push(vec![
                Cell::from(advice.kernel.name()),
                Cell::from(name),
                configuration.enough_bytes.into(),
                slower.into(),
                row.map(|row| row.major_faults.median).into(),
            ]);
        }
    }
    table
}

/// All configurations at the recommended size, and from which on each is safe. For people: narrow.
pub fn side_by_side(advice: &Advice) -> Table {
    let size = advice.compared_bytes;
    let share = u64::try_from(u128::from(size) * 1_000_000 / u128::from(advice.peak_bytes.max(1))).unwrap_or(u64::MAX);
    let title = format!("At memory.max = {} ({} of peak)", Bytes::new(size).approx(), percent(share));
    let columns = vec![
        Column::text("configuration"),
        Column { align: Align::Right, ..Column::text("slower [%]") },
        Column { align: Align::Right, ..Column::text("at worst [%]") },
        Column { align: Align::Right, ..Column::text("major faults") },
        Column::number("at worst", Unit::Count),
        Column::number("mean memory", Unit::Bytes),
        Column::number("enough", Unit::Bytes),
        Column::text("note"),
    ];
    let mut table = Table::new(title, columns);
    for configuration in &advice.configurations {
        let is_it = |row: &&AdviceRow| row.candidate == configuration.candidate && row.memory_bytes == size;
        let Some(row) = advice.rows.iter().find(is_it) else { continue };
        if words::is_recommended(advice, row) {
            table.highlight = Some(table.rows.len());
        }
        let over = |ratio: u64| format!("{:.1}", ratio as f64 / 1e4 - 100.0);
        let (median, faults) = match &row.gamble {
            // The median of two groups would be a figure that no run gives.
            Some(gamble) => (None, format!("{} or {}", gamble.good_faults, gamble.bad_faults)),
            None => (row.runtime_ratio_ppm.map(|ratio| over(ratio.median)), row.major_faults.median.to_string()),
        };
        table.push(vec![
            Cell::from(row.candidate),
            median.into(),
            row.runtime_ratio_ppm.map(|ratio| over(ratio.high)).into(),
            Cell::from(faults),
            row.major_faults.high.into(),
            row.mean_bytes.median.into(),
            configuration.enough_bytes.into(),
            Cell::from(words::note(advice, row)),
        ]);
    }
    table
}

/// The first columns of that table, in a few rows: the recommendation, the policies of Linux next to it, and `opt`, if it was played.
pub fn evidence(advice: &Advice) -> Table {
    const LINES: usize = 7;
    let whole = side_by_side(advice);
    let has_note =
        |row: &Vec<Cell>, wanted: &str| matches!(row.last(), Some(Cell::Text(note)) if note.starts_with(wanted));
    let is_first = |row: &Vec<Cell>| has_note(row, "recommended");
    let is_floor = |row: &Vec<Cell>| matches!(row.first(), Some(Cell::Text(name)) if name == FEWEST_FAULTS);
    let is_kept = |row: &Vec<Cell>| !has_note(row, "baseline");
    let mut table = Table::new(whole.title.clone(), whole.columns.clone());
    let (first, others): (Vec<_>, Vec<_>) = whole.rows.into_iter().filter(is_kept).partition(is_first);
    let left = LINES.saturating_sub(first.len() + usize::from(others.iter().any(is_floor)));
    let others = others.into_iter().enumerate().filter(|(index, row)| *index < left || is_floor(row));
    table.highlight = (!first.is_empty()).then_some(0);
    table.rows = first.into_iter().chain(others.map(|(_, row)| row)).collect();
    table.only(&["configuration", "slower [%]", "at worst [%]", "major faults", "enough", "note"])
}

/// Effects of schemes at that size.
pub fn schemes(advice: &Advice) -> Table {
    let columns = vec![
        Column::text("configuration"),
        Column::text("scheme"),
        Column::number("changed", Unit::Bytes),
        Column::text("stopped most by"),
        Column::number("monitor cpu", Unit::Ns),
    ];
    let mut table = Table::new("What schemes did there", columns);
    for row in advice.rows.iter().filter(|row| row.memory_bytes == advice.compared_bytes) {
        for (place, scheme) in row.schemes.iter().enumerate() {
            table.push(vec![
                Cell::from(if place == 0 { row.candidate } else { "" }),
                Cell::from(scheme.action),
                scheme.applied_bytes.into(),
                Cell::from(scheme.stopped_by.map_or_else(String::new, |why| why.replace('_', " "))),
                if place == 0 { row.monitor_cpu_ns.into() } else { Cell::Missing },
            ]);
        }
    }
    table
}

/// How much of the program's memory could be huge pages. Empty if no memory could be huge, and if the recording gives no answer.
pub fn huge_pages(huge: &HugePages) -> Table {
    let columns = vec![
        Column::text("touched at least"),
        Column::number("2 MiB ranges", Unit::Count),
        Column::number("in use", Unit::Bytes),
        Column::number("of all touched", Unit::Ppm),
        Column::number("of accesses", Unit::Ppm),
        Column::number("held beside", Unit::Bytes),
    ];
    let mut table = Table::new("Memory that could be huge pages", columns);
    for step in huge.ranges.iter().flat_map(|ranges| &ranges.steps).filter(|step| step.ranges > 0) {
        if huge.dense() == Some(step) {
            table.highlight = Some(table.rows.len());
        }
        let least = match step.least_share_ppm {
            0 => "a page".to_owned(),
            share => format!("{} %", share / 10_000),
        };
        table.push(vec![
            Cell::from(least),
            step.ranges.into(),
            step.held_bytes.into(),
            step.held_share_ppm.into(),
            step.accesses_share_ppm.into(),
            step.overhead_bytes.into(),
        ]);
    }
    table
}

/// The columns of [`latencies`] that fit 100 characters.
pub fn narrow_latencies(huge: &HugePages) -> Table {
    let shown =
        ["proactive compaction", "in Linux", "not had", "there at once", "at once p50", "made p95", "daemon cpu"];
    latencies(huge).only(&shown)
}

/// How long the program would wait for huge pages on fragmented memory. Empty if no memory could be huge.
pub fn latencies(huge: &HugePages) -> Table {
    let columns = vec![
        Column::text("proactive compaction"),
        Column::text("in Linux"),
        Column::number("huge pages", Unit::Count),
        Column::number("not had", Unit::Count),
        Column::number("there at once", Unit::Ppm),
        Column::number("at once p50", Unit::Ns),
        Column::number("made p50", Unit::Ns),
        Column::number("made p95", Unit::Ns),
        Column::number("longest", Unit::Ns),
        Column::number("mean", Unit::Ns),
        Column::number("daemon cpu", Unit::Ns),
    ];
    let mut table = Table::new("Huge pages on fragmented memory", columns);
    let Some(fragmented) = &huge.fragmented else { return table };
    for row in &fragmented.rows {
        if row.design == fragmented.best {
            table.highlight = Some(table.rows.len());
        }
        table.push(vec![
            Cell::from(row.design),
            Cell::from(if row.runs_on_linux { "yes" } else { "no" }),
            row.got.into(),
            row.failed.into(),
            row.light_share_ppm.into(),
            row.light_p50_ns.into(),
            row.fallback_p50_ns.into(),
            row.fallback_p95_ns.into(),
            row.max_ns.into(),
            row.mean_ns.into(),
            row.daemon_cpu_ns.into(),
        ]);
    }
    table
}
