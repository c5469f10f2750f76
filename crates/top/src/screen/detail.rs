//! Panes about the chosen row and the nodes, other than the heatmap.

use ratatui::layout::Rect;

use super::paint::{Canvas, DIM, PLAIN, bytes, ppm, time};
use crate::{Detail, Generation, State};

const STEPS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Upper bounds of the idle times that regions are sorted into, in nanoseconds, and their names.
const IDLE: [(u64, &str); 6] = [
    (0, "accessed"),
    (1_000_000_000, "idle < 1 s"),
    (10_000_000_000, "idle < 10 s"),
    (60_000_000_000, "idle < 1 min"),
    (600_000_000_000, "idle < 10 min"),
    (u64::MAX, "idle longer"),
];

fn detail(state: &State) -> Option<&Detail> {
    state.frame()?.detail(state.chosen?)
}

/// Hot and warm memory over time, newest at the right.
pub(super) fn working_set(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let (Some(chosen), Some(now)) = (state.chosen, state.frame()) else {
        return canvas.text(area, (1, 0), "-", DIM);
    };
    let column_ns = state.column_ns();
    let at = |back: u64| -> Option<u64> {
        let to_ns = now.at_ns.checked_sub(back * column_ns)?;
        let frame = state.history.within(to_ns.checked_sub(column_ns), to_ns)?;
        frame.groups.iter().find(|row| row.key == chosen)?.working_set_bytes()
    };
    let values: Vec<Option<u64>> = (0..u64::from(area.width)).rev().map(at).collect();
    let most = values.iter().flatten().max().copied();
    let latest = now.groups.iter().find(|row| row.key == chosen).and_then(|row| row.working_set_bytes());
    if most.is_none() && latest.is_none() {
        return canvas.text(area, (1, 0), "-  the working set is not known", DIM);
    }
    canvas.text(area, (0, 0), &format!("now {}, most {}", bytes(latest), bytes(most)), PLAIN);
    let lines = area.height.saturating_sub(1);
    let most = u128::from(most.unwrap_or(0).max(1));
    for (column, value) in (0..area.width).zip(values) {
        let eighths = u128::from(value.unwrap_or(0)) * u128::from(lines) * 8 / most;
        for line in 0..lines {
            let above = eighths.saturating_sub(u128::from(lines - 1 - line) * 8);
            let step = usize::try_from(above.min(8)).unwrap_or(8);
            if let Some(step) = step.checked_sub(1) {
                canvas.text(area, (column, line + 1), STEPS[step], PLAIN);
            }
        }
    }
}

/// Generations if they are known, otherwise monitored memory by the time since it was found accessed.
pub(super) fn ages(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(detail) = detail(state) else { return canvas.text(area, (1, 0), "-", DIM) };
    let bars: Vec<(String, u64)> = if detail.generations.is_empty() {
        idle(detail)
    } else {
        let label = |generation: &Generation| format!("gen {}, {}", generation.seq, time(generation.age_ns));
        let size = |generation: &Generation| generation.anon_bytes.saturating_add(generation.file_bytes);
        detail.generations.iter().map(|generation| (label(generation), size(generation))).collect()
    };
    if bars.is_empty() {
        return canvas.text(area, (1, 0), "-  ages are not known", DIM);
    }
    let most = u128::from(bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1));
    let room = area.width.saturating_sub(32);
    for (line, (label, size)) in (0..).zip(bars) {
        canvas.text(area, (0, line), &format!("{label:<18} {:>10}", bytes(Some(size))), PLAIN);
        let length = usize::try_from(u128::from(size) * u128::from(room) / most).unwrap_or(0);
        canvas.text(area, (31, line), &"█".repeat(length), PLAIN);
    }
}

/// Empty if a region has no age.
fn idle(detail: &Detail) -> Vec<(String, u64)> {
    let mut sums = [0u64; IDLE.len()];
    for region in &detail.regions {
        let idle_ns = match (region.access_ppm, region.age_ns) {
            (Some(0), Some(age_ns)) => age_ns.max(1),
            (Some(0), None) => return Vec::new(),
            _ => 0,
        };
        let index = IDLE.iter().position(|&(bound, _)| idle_ns < bound || (bound == 0 && idle_ns == 0));
        let sum = &mut sums[index.unwrap_or(IDLE.len() - 1)];
        *sum = sum.saturating_add(region.bytes());
    }
    let named = IDLE.iter().zip(sums).map(|((_, name), sum)| ((*name).to_owned(), sum));
    if detail.regions.is_empty() { Vec::new() } else { named.collect() }
}

pub(super) fn figures(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let detail = detail(state);
    let refaults = detail.and_then(|detail| detail.refaults_milli_per_s);
    let refaults = refaults.map_or_else(|| "-".to_owned(), |milli| format!("{}.{:03} /s", milli / 1000, milli % 1000));
    let placed = detail.map_or(&[][..], |detail| &detail.node_bytes);
    let placed: Vec<String> = placed.iter().map(|&(node, size)| format!("node {node} {}", bytes(Some(size)))).collect();
    let lines = [
        ("refaults", refaults),
        ("pressure some", ppm(detail.and_then(|detail| detail.pressure_some_ppm))),
        ("pressure full", ppm(detail.and_then(|detail| detail.pressure_full_ppm))),
        ("huge pages", ppm(detail.and_then(|detail| detail.huge_ppm))),
        ("placement", if placed.is_empty() { "-".to_owned() } else { placed.join(", ") }),
    ];
    for (line, (name, value)) in (0..).zip(&lines) {
        canvas.text(area, (0, line), &format!("{name:<14} {value}"), PLAIN);
    }
    notes(state, canvas, area, 6);
}

/// The notes of the frame, from line `first` of the area on.
pub(super) fn notes(state: &State, canvas: &mut Canvas<'_>, area: Rect, first: u16) {
    let notes = state.frame().map_or(&[][..], |frame| &frame.notes);
    let folded = notes.iter().flat_map(|note| folded(note, usize::from(area.width)));
    for (line, words) in (first..area.height).zip(folded) {
        canvas.text(area, (0, line), &words, DIM);
    }
}

/// A note in lines of at most `columns` characters, cut between words; all but the first are indented.
fn folded(note: &str, columns: usize) -> Vec<String> {
    let mut lines = vec!["note:".to_owned()];
    for word in note.split_whitespace() {
        let last = lines.last_mut().expect("there is a first line");
        if last.chars().count() + 1 + word.chars().count() <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("      {word}"));
        }
    }
    lines
}

pub(super) fn nodes(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let nodes = state.frame().map_or(&[][..], |frame| &frame.nodes);
    if nodes.is_empty() {
        return canvas.text(area, (1, 0), "-  nodes are not known", DIM);
    }
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    canvas.text(area, (0, 0), "NODE TIER      TOTAL       FREE  FREE BLOCKS BY ORDER, FROM 0", DIM);
    for (line, node) in (1..).zip(nodes) {
        let blocks: Vec<String> = node.free_blocks.iter().map(u64::to_string).collect();
        let blocks = if blocks.is_empty() { "-".to_owned() } else { blocks.join(" ") };
        let (total, free) = (bytes(node.total_bytes), bytes(node.free_bytes));
        let words = format!("{:>4} {:>4} {total:>10} {free:>10}  {blocks}", node.node, number(node.tier));
        canvas.text(area, (0, line), &words, PLAIN);
    }
}
