//! Evidence from the sizes of generations between two samples.
//!
//! Memory in an old generation can only leave it: it was used again and is now in a younger one, was freed, or was evicted. Sizes alone do
//! not tell these apart. So the memory that left is the most that was used again. The least is the memory that left minus the total
//! decrease. A program that frees old memory and allocates as much in the same interval looks like one that used it again.

use std::collections::BTreeMap;

use isotherm_trace::group::{Gauges, Generation, GroupMeta, Look, LookKind};

use super::step::{Bounds, Cut, Observed, Step, ratio};
use super::{ColdnessError, Source};

/// Least number of samples and intervals.
const LOOKS_MIN: usize = 3;

/// Intervals that are left out at the beginning where enough others follow. A group holds four generations (`MAX_NR_GENS`): until three
/// have been made while watching, memory that is not used is in one generation with memory that is, however old it is.
const WARM_UP: usize = 3;

/// The steps after the warm-up, if there are enough.
fn settled(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.len() >= 2 * WARM_UP {
        steps.drain(..WARM_UP);
    }
    steps
}

/// A group record in memory: read from a file, or being collected.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// Metadata of the record.
    pub meta: GroupMeta,
    /// Samples by time.
    pub looks: Vec<Look>,
}

type Bytes = fn(&Generation) -> u64;

pub(super) fn observe(record: &GroupRecord) -> Result<Observed, ColdnessError> {
    let GroupRecord { meta, looks } = record;
    let refuse = |what: String| Err(ColdnessError::Unsupported(what));
    if looks.len() < LOOKS_MIN {
        let found = looks.len();
        return refuse(format!("it has {found} looks; at least {LOOKS_MIN} are needed. Watch for longer"));
    }
    let (first, last) = (&looks[0], &looks[looks.len() - 1]);
    let span_ns = last.time_ns.saturating_sub(first.time_ns);
    if span_ns < meta.interval_ns.saturating_mul(LOOKS_MIN as u64 - 1) || span_ns == 0 {
        return refuse(format!("it spans {span_ns} ns; at least two intervals of {} ns are needed", meta.interval_ns));
    }
    if looks.iter().all(|look| look.kind == LookKind::Read) {
        return refuse(
            "no generation was made while watching, so that it is not known since when memory is idle. \
             Age the group at each look (debugfs `lru_gen`, root)"
                .to_owned(),
        );
    }
    let steps = settled(steps(looks, Generation::bytes));
    if steps.len() < LOOKS_MIN - 1 {
        return refuse(
            "fewer than two pairs of consecutive looks show the same group with at least two generations".into(),
        );
    }
    let kinds: [(&'static str, Bytes); 2] =
        [("anonymous", |generation| generation.anon_bytes), ("file", |generation| generation.file_bytes)];
    let by_kind = kinds.map(|(kind, bytes)| (kind, settled(self::steps(looks, bytes)))).into();
    let rise = |gauge: fn(&Gauges) -> Option<u64>| Some(gauge(&last.gauges)?.saturating_sub(gauge(&first.gauges)?));
    let refaults_seen = rise(|gauges| gauges.refaults_anon)
        .zip(rise(|gauges| gauges.refaults_file))
        .map(|(anon, file)| anon.saturating_add(file));
    Ok(Observed {
        source: Source::Generations,
        steps,
        by_kind,
        looks: looks.len() as u64,
        span_ns,
        outside_bytes: looks.iter().filter_map(outside).max().unwrap_or(0),
        refaults_seen,
        pressure_some_ns: rise(|gauges| gauges.pressure_some_ns),
        notes: notes(meta, looks, refaults_seen),
    })
}

fn notes(meta: &GroupMeta, looks: &[Look], refaults_seen: Option<u64>) -> Vec<String> {
    let mut notes = meta.notes.clone();
    notes.push(
        "The first three intervals are left out where enough others follow: until then old and new memory stand together."
            .to_owned(),
    );
    notes.push(
        "Generations tell how much was used, never which pages. Memory that was freed and replaced looks as if it had been used \
         again, so high figures may be too high."
            .to_owned(),
    );
    notes.push(
        "Files that are only read through descriptors (`read`, not `mmap`) look cold although they are used.".into(),
    );
    if meta.huge_pages != Some(false) {
        notes.push("Huge pages may have been in use: one used page then counts as 512.".to_owned());
    }
    match refaults_seen {
        None => notes.push("Refaults were not counted while watching: those that happened are missing here.".to_owned()),
        Some(0) => {}
        Some(count) => notes.push(format!(
            "{count} refaults happened while watching: memory was short already. What was evicted counts as used again, and what \
             came back faster than the looks show is only in the counter."
        )),
    }
    let swap = |look: &Look| look.gauges.swap_current_bytes;
    if looks.first().and_then(swap) < looks.last().and_then(swap) {
        notes.push("Swap grew while watching: what was swapped out counts as used again in high figures.".to_owned());
    }
    notes
}

/// Memory charged to the group that is on no list of the group.
fn outside(look: &Look) -> Option<u64> {
    Some(look.gauges.memory_current_bytes?.saturating_sub(look.total_bytes()))
}

fn steps(looks: &[Look], bytes: Bytes) -> Vec<Step> {
    looks.windows(2).filter_map(|pair| step(&pair[0], &pair[1], bytes)).collect()
}

fn by_node(look: &Look) -> BTreeMap<u64, Vec<Generation>> {
    let mut nodes: BTreeMap<u64, Vec<Generation>> = BTreeMap::new();
    look.generations.iter().for_each(|generation| nodes.entry(generation.node).or_default().push(*generation));
    nodes
}

/// The sum over nodes; `None` if a node gives no figure.
fn step(before: &Look, after: &Look, bytes: Bytes) -> Option<Step> {
    let (old, new) = (by_node(before), by_node(after));
    let duration_ns = after.time_ns.saturating_sub(before.time_ns);
    if duration_ns == 0 || old.is_empty() || !old.keys().eq(new.keys()) {
        return None;
    }
    let mut sum: Option<Step> = None;
    for (old, new) in old.values().zip(new.values()) {
        let node = node_step(old, new, bytes)?;
        sum = Some(match sum {
            None => node,
            Some(sum) => add(sum, &node),
        });
    }
    sum.map(|step| Step { duration_ns, ..step })
}

/// Nodes are aged one right after the other, so that their cuts match, counted from the youngest. A cut that one of the two lacks is left
/// out.
fn add(mut sum: Step, other: &Step) -> Step {
    sum.total_bytes = sum.total_bytes.saturating_add(other.total_bytes);
    sum.cuts.truncate(other.cuts.len());
    for (cut, other) in sum.cuts.iter_mut().zip(&other.cuts) {
        cut.age_ns = cut.age_ns.min(other.age_ns);
        cut.cold_bytes = cut.cold_bytes.saturating_add(other.cold_bytes);
        cut.hot_low_bytes = cut.hot_low_bytes.saturating_add(other.hot_low_bytes);
        cut.hot_high_bytes = cut.hot_high_bytes.saturating_add(other.hot_high_bytes);
        cut.again_bytes = cut.again_bytes.plus(other.again_bytes);
    }
    sum
}

fn node_step(old: &[Generation], new: &[Generation], bytes: Bytes) -> Option<Step> {
    let (youngest, oldest_now) = (old.last()?, new.first()?);
    // If sequence numbers went back, or forward past all generations, it is another group.
    if new.last()?.seq < youngest.seq || oldest_now.seq >= youngest.seq {
        return None;
    }
    let up_to = |rows: &[Generation], seq: u64| -> u64 {
        rows.iter().filter(|row| row.seq <= seq).map(bytes).fold(0, u64::saturating_add)
    };
    let (total, total_now) = (up_to(old, u64::MAX), up_to(new, u64::MAX));
    let gone = total.saturating_sub(total_now);
    let mut cuts = Vec::with_capacity(old.len());
    // A cut below generation `pair[1]`: older memory was last used before that one was made.
    for pair in old.windows(2).rev() {
        let cold = up_to(old, pair[0].seq);
        // Generations merged into the oldest one since cannot be separated from it: only the sum is known.
        let seen_at = pair[0].seq.max(oldest_now.seq);
        let all = up_to(old, seen_at);
        let left = all.saturating_sub(up_to(new, seen_at));
        let high = left.min(cold);
        let low = left.saturating_sub(gone).saturating_sub(all - cold).min(high);
        let share = left.saturating_sub(mul(gone, ratio(all, total)));
        let middle = mul(share, ratio(cold, all)).clamp(low, high);
        cuts.push(Cut {
            age_ns: pair[1].age_ns,
            cold_bytes: cold,
            hot_low_bytes: total - cold,
            hot_high_bytes: total_now.saturating_sub(cold - high),
            again_bytes: Bounds { low: float(low), middle: float(middle), high: float(high) },
        });
    }
    // Cuts of equal age are one.
    cuts.dedup_by_key(|cut| cut.age_ns);
    Some(Step { duration_ns: 0, cuts, total_bytes: total.max(total_now) })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size is one")]
fn mul(bytes: u64, share: f64) -> u64 {
    (float(bytes) * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(first: u64, bytes: [u64; 4]) -> Vec<Generation> {
        (0..4u64)
            .zip(bytes)
            .map(|(index, anon_bytes)| Generation {
                seq: first + index,
                age_ns: 3 - index,
                anon_bytes,
                ..Generation::default()
            })
            .collect()
    }

    /// Idle for 2 and longer 100, for 1 20, used in the last interval 40, nothing since. Then 5 of the 20 and 3 of the 100 are used,
    /// and 30 of the 40: the oldest two are one generation now.
    #[test]
    fn what_leaves_old_generations_was_used_again() {
        let step = node_step(&rows(0, [100, 20, 40, 0]), &rows(1, [112, 10, 38, 0]), Generation::bytes).unwrap();
        let cuts: Vec<(u64, u64, u64, Bounds)> =
            step.cuts.iter().map(|cut| (cut.age_ns, cut.cold_bytes, cut.hot_high_bytes, cut.again_bytes)).collect();
        let exact = |bytes: f64| Bounds { low: bytes, middle: bytes, high: bytes };
        assert_eq!(cuts[0], (0, 160, 38, exact(38.0)));
        assert_eq!(cuts[1], (1, 120, 48, exact(8.0)), "10 of the last interval and 38 of this one");
        // Of the 8 that left the two oldest, none need be of the oldest; or all of them.
        assert_eq!(cuts[2], (2, 100, 68, Bounds { low: 0.0, middle: 6.0, high: 8.0 }));
        assert_eq!(step.total_bytes, 160);
    }

    #[test]
    fn what_is_gone_may_have_been_cold() {
        let step = node_step(&rows(0, [100, 20, 40, 0]), &rows(1, [60, 0, 40, 0]), Generation::bytes).unwrap();
        assert_eq!(
            step.cuts[1].again_bytes,
            Bounds { low: 0.0, middle: 15.0, high: 60.0 },
            "60 of 160 went, 60 of 120 here"
        );
    }

    #[test]
    fn another_group_of_the_same_name_is_not_compared() {
        assert!(node_step(&rows(5, [1; 4]), &rows(0, [1; 4]), Generation::bytes).is_none());
        assert!(node_step(&rows(0, [1; 4]), &rows(3, [1; 4]), Generation::bytes).is_none());
        assert!(node_step(&[], &rows(3, [1; 4]), Generation::bytes).is_none());
    }

    #[test]
    fn too_little_is_refused_in_words() {
        let refused = |record: &GroupRecord| observe(record).unwrap_err().to_string();
        assert!(refused(&GroupRecord::default()).contains("0 looks"));
        let look = |time_ns, kind| Look { time_ns, kind, generations: rows(time_ns, [1; 4]), ..Look::default() };
        let looks: Vec<Look> = (0..4).map(|time_ns| look(time_ns, LookKind::Read)).collect();
        let mut record = GroupRecord { looks, ..GroupRecord::default() };
        assert!(refused(&record).contains("no generation was made"));
        record.meta.interval_ns = 100;
        assert!(refused(&record).contains("at least two intervals"));
    }
}
