//! Two records on the same axes: matches their targets, and selects the addresses to draw.

use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;
use serde::Serialize;

use super::bands::{busy, joined};
use super::{Grid, RecordHeatmap, Shown, ShownBand, Survey, heatmap, heatmap_picture, target_name};
use crate::{Heatmap, HeatmapPair};

/// A range of addresses of one target that both records are drawn over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairBand {
    /// Name of the target.
    pub target: String,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Equal address bins in it.
    pub rows: u32,
}

/// Access rates of two records by time and address, on the same axes. Times count from the beginning of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordPair {
    /// Right edge: the end of the longer one, in nanoseconds.
    pub end_ns: u64,
    /// Equal columns from 0 on.
    pub columns: u32,
    /// Bands by target and address: the busy memory of either record.
    pub bands: Vec<PairBand>,
    /// As in [`RecordHeatmap`]: bands one after the other, rows of each by address, columns of each row.
    pub rate_ppm: [Vec<u64>; 2],
    /// Share of all accesses found that lies outside of the bands, in parts per million.
    pub left_out_ppm: [u64; 2],
    /// Notes for comparing them.
    pub notes: Vec<String>,
    /// Each record as a heatmap.
    #[serde(skip)]
    maps: [RecordHeatmap; 2],
}

/// Both records over the memory that is busy in either. Passes over each as of [`heatmap()`]. `columns` and `rows` are limits, and
/// gaps from `fold_bytes` on are folded away.
///
/// # Errors
/// When one record is of physical and the other of virtual addresses; and as of [`heatmap()`].
pub fn heatmap_pair(
    (one, one_survey): (&mut RegionStore, &Survey),
    (other, other_survey): (&mut RegionStore, &Survey),
    (columns, rows): (u32, u32),
    fold_bytes: u64,
) -> Result<RecordPair, TraceError> {
    let spaces = [space(one, one_survey), space(other, other_survey)];
    if let [Some(left), Some(right)] = spaces
        && left != right
    {
        let what = format!(
            "its addresses are {right}, and those of {} are {left}: they name different memory, so that heatmaps cannot be compared",
            one.path().display()
        );
        return Err(TraceError::Unsupported { path: other.path().to_owned(), what });
    }
    let (targets, mut notes) = Targets::of([(one, one_survey), (other, other_survey)]);
    let shown = [busy(one, one_survey, rows, fold_bytes)?, busy(other, other_survey, rows, fold_bytes)?];
    let ranges = [0, 1].map(|side| -> Vec<(u32, u64, u64)> {
        let joint = |band: &ShownBand| Some((targets.joint(side, band.target)?, band.start, band.end));
        shown[side].iter().filter_map(joint).collect()
    });
    if !overlap(&ranges[0], &ranges[1]) {
        notes.push(
            "no address is busy in both: they are different programs, or addresses were chosen at random in each run \
             (setarch -R runs a command without that)"
                .to_owned(),
        );
    }
    let bands = joined(&union(ranges.concat()), rows, fold_bytes);
    let end_ns = one_survey.end_ns.max(other_survey.end_ns);
    let aggregation_ns_max = one_survey.aggregation_ns_max.max(other_survey.aggregation_ns_max);
    let of = |side: usize, store: &mut RegionStore, survey: &Survey| {
        let mut survey = survey.clone();
        (survey.start_ns, survey.end_ns, survey.aggregation_ns_max) = (0, end_ns, aggregation_ns_max);
        let grid = Grid { columns, rows, fold_bytes, shown: Shown::Bands(targets.bands_of(side, &bands)) };
        heatmap(store, &survey, &grid).map(|map| targets.in_joint_order(side, map, &bands))
    };
    let maps = [of(0, one, one_survey)?, of(1, other, other_survey)?];
    Ok(RecordPair {
        end_ns,
        columns: maps[0].columns,
        bands: bands
            .iter()
            .map(|band| PairBand {
                target: targets.names[band.target as usize].clone(),
                start: band.start,
                end: band.end,
                rows: band.rows,
            })
            .collect(),
        rate_ppm: maps.each_ref().map(|map| map.rate_ppm.clone()),
        left_out_ppm: maps.each_ref().map(|map| map.left_out_ppm),
        notes,
        maps,
    })
}

/// Both as one picture. `names` are the names of the files.
pub fn pair_picture(pair: &RecordPair, names: [String; 2], stores: [&RegionStore; 2]) -> Option<HeatmapPair> {
    let picture = |side: usize| -> Heatmap {
        let picture = heatmap_picture(&pair.maps[side], stores[side]);
        Heatmap { subtitle: "times from the beginning of each; one scale of colours".to_owned(), ..picture }
    };
    HeatmapPair::new(names, [picture(0), picture(1)])
}

/// `physical` or `virtual`; `None` if the record does not say, or has both.
fn space(store: &RegionStore, survey: &Survey) -> Option<&'static str> {
    let of = |target: &u32| match store.meta().context_of(*target).operations.as_str() {
        "paddr" => Some("physical"),
        "vaddr" | "fvaddr" => Some("virtual"),
        _ => None,
    };
    let first = of(survey.targets.first()?)?;
    survey.targets.iter().all(|target| of(target) == Some(first)).then_some(first)
}

/// Matching of the targets of the two records.
struct Targets {
    /// Name of each joint target, for people.
    names: Vec<String>,
    /// Numbers of the joint targets in each record.
    numbers: [Vec<Option<u32>>; 2],
}

impl Targets {
    /// Targets of the same name are the same target; so are targets of the same PID, and two that are the only ones left over, which a note
    /// reports.
    fn of(sides: [(&RegionStore, &Survey); 2]) -> (Self, Vec<String>) {
        let named = sides.map(|(store, survey)| -> Vec<(u32, String)> {
            survey.targets.iter().map(|&target| (target, target_name(store, target))).collect()
        });
        let [ones, mut others] = named;
        let (mut targets, mut notes) = (Self { names: Vec::new(), numbers: [Vec::new(), Vec::new()] }, Vec::new());
        let mut left = Vec::new();
        for (number, name) in ones {
            match others.iter().position(|(_, other)| *other == name) {
                Some(at) => targets.push(name, Some(number), Some(others.remove(at).0)),
                None => left.push((number, name)),
            }
        }
        if let ([(one, name)], [(other, other_name)]) = (left.as_slice(), others.as_slice()) {
            notes.push(format!(
                "different targets are compared, `{name}` and `{other_name}`: the same address need not be the same memory"
            ));
            targets.push(format!("{name}, {other_name}"), Some(*one), Some(*other));
        } else {
            for (side, (number, name)) in
                left.into_iter().map(|one| (0, one)).chain(others.into_iter().map(|other| (1, other)))
            {
                let which = if side == 0 { "first" } else { "second" };
                notes.push(format!("`{name}` is in the {which} record alone"));
                let here = |wanted: usize| (side == wanted).then_some(number);
                targets.push(name, here(0), here(1));
            }
        }
        (targets, notes)
    }

    fn push(&mut self, name: String, one: Option<u32>, other: Option<u32>) {
        self.names.push(name);
        self.numbers[0].push(one);
        self.numbers[1].push(other);
    }

    fn joint(&self, side: usize, target: u32) -> Option<u32> {
        let at = self.numbers[side].iter().position(|number| *number == Some(target))?;
        u32::try_from(at).ok()
    }

    /// The number of a joint target in a record; if the record lacks it, a number that no record has.
    fn number(&self, side: usize, joint: u32) -> u32 {
        self.numbers[side][joint as usize].unwrap_or(u32::MAX - joint)
    }

    /// Joint bands in the order of a record.
    fn bands_of(&self, side: usize, bands: &[ShownBand]) -> Vec<ShownBand> {
        let own = |band: &ShownBand| ShownBand { target: self.number(side, band.target), ..band.clone() };
        let mut bands: Vec<ShownBand> = bands.iter().map(own).collect();
        bands.sort_by_key(|band| (band.target, band.start));
        bands
    }

    /// A record's heatmap over [`bands_of`](Self::bands_of), with the joint bands in their order, named for people.
    fn in_joint_order(&self, side: usize, map: RecordHeatmap, bands: &[ShownBand]) -> RecordHeatmap {
        let columns = map.columns as usize;
        let mut rates = Vec::with_capacity(map.rate_ppm.len());
        for band in bands {
            let own = (self.number(side, band.target), band.start);
            let mut first = 0;
            for shown in &map.bands {
                let cells = shown.rows as usize * columns;
                if (shown.target, shown.start) == own {
                    rates.extend_from_slice(map.rate_ppm.get(first..first + cells).unwrap_or_default());
                }
                first += cells;
            }
        }
        let several = self.names.len() > 1;
        let label = |band: &ShownBand| {
            let end = format!("to {:#x}", band.end);
            if several { format!("{} {end}", self.names[band.target as usize]) } else { end }
        };
        let bands = bands.iter().map(|band| ShownBand { label: label(band), ..band.clone() }).collect();
        RecordHeatmap { bands, rate_ppm: rates, ..map }
    }
}

/// Ranges in order, adjacent ones joined.
fn union(mut ranges: Vec<(u32, u64, u64)>) -> Vec<(u32, u64, u64)> {
    ranges.sort_unstable();
    let mut disjoint: Vec<(u32, u64, u64)> = Vec::new();
    for (target, start, end) in ranges {
        match disjoint.last_mut() {
            Some(last) if last.0 == target && start <= last.2 => last.2 = last.2.max(end),
            _ => disjoint.push((target, start, end)),
        }
    }
    disjoint
}

/// Whether any address is in both.
fn overlap(ones: &[(u32, u64, u64)], others: &[(u32, u64, u64)]) -> bool {
    let alike = |a: &(u32, u64, u64), b: &(u32, u64, u64)| a.0 == b.0 && a.1 < b.2 && b.1 < a.2;
    ones.iter().any(|one| others.iter().any(|other| alike(one, other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Selection;
    use isotherm_trace::region::{Intervals, RecordMeta, Region, RegionWriter, Snapshot, TargetMeta};

    const MIB: u64 = 1 << 20;

    /// A record of snapshots of 100 ms. `targets`: name, and the regions of each snapshot, hot in every check.
    fn record(
        operations: &str,
        snapshots: u64,
        targets: &[(&str, &[(u64, u64)])],
    ) -> (tempfile::TempDir, RegionStore, Survey) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        let mut meta = RecordMeta::single(operations, targets[0].0);
        let first = meta.targets[0].clone();
        meta.targets =
            targets.iter().map(|(name, _)| TargetMeta { name: (*name).to_owned(), ..first.clone() }).collect();
        let mut writer = RegionWriter::create(&path, meta).unwrap();
        for number in 1..=snapshots {
            for (target, (_, regions)) in (0u32..).zip(targets) {
                let region = |&(start, end): &(u64, u64)| Region {
                    start,
                    end,
                    nr_accesses: 20,
                    age: Some(1),
                    ..Region::default()
                };
                writer
                    .push(&Snapshot {
                        target,
                        time_ns: number * 100_000_000,
                        duration_ns: Some(100_000_000),
                        intervals: Intervals::new(5_000_000, 100_000_000, 1_000_000_000),
                        regions: regions.iter().map(region).collect(),
                        ..Snapshot::default()
                    })
                    .unwrap();
            }
        }
        writer.finish().unwrap();
        let mut store = RegionStore::open(&path).unwrap();
        let survey = Survey::of(&mut store, &Selection::default()).unwrap();
        (folder, store, survey)
    }

    #[test]
    fn both_are_on_the_same_axes() {
        // The right one is twice as long, and has the upper half of the left one's memory, and more above.
        let (_a, mut one, one_survey) = record("vaddr", 4, &[("x", &[(0, 2 * MIB)])]);
        let (_b, mut other, other_survey) = record("vaddr", 8, &[("x", &[(MIB, 3 * MIB)])]);
        let pair = heatmap_pair((&mut one, &one_survey), (&mut other, &other_survey), (8, 3), MIB).unwrap();
        assert_eq!((pair.end_ns, pair.columns), (800_000_000, 8));
        assert_eq!(pair.bands, [PairBand { target: "x".to_owned(), start: 0, end: 3 * MIB, rows: 3 }]);
        const ALL: u64 = 1_000_000;
        let row = |cells: [u64; 2]| [[cells[0]; 4], [cells[1]; 4]].concat();
        // Lowest row first; the left one has ended after four columns.
        assert_eq!(pair.rate_ppm[0], [row([ALL, 0]), row([ALL, 0]), row([0, 0])].concat());
        assert_eq!(pair.rate_ppm[1], [row([0, 0]), row([ALL, ALL]), row([ALL, ALL])].concat());
        assert_eq!(pair.notes, Vec::<String>::new());
        assert!(pair_picture(&pair, ["a".to_owned(), "b".to_owned()], [&one, &other]).is_some());
    }

    #[test]
    fn targets_are_matched_by_name_and_others_are_told() {
        let (_a, mut one, one_survey) = record("vaddr", 2, &[("x", &[(0, MIB)]), ("y", &[(8 * MIB, 9 * MIB)])]);
        let (_b, mut other, other_survey) = record("vaddr", 2, &[("y", &[(8 * MIB, 9 * MIB)]), ("x", &[(0, MIB)])]);
        let pair = heatmap_pair((&mut one, &one_survey), (&mut other, &other_survey), (2, 2), MIB).unwrap();
        let names: Vec<&str> = pair.bands.iter().map(|band| band.target.as_str()).collect();
        assert_eq!(names, ["x", "y"]);
        assert!(pair.rate_ppm.iter().flatten().all(|&rate| rate == 1_000_000), "{pair:?}");
        assert_eq!(pair.notes, Vec::<String>::new());

        let (_c, mut alone, alone_survey) = record("vaddr", 2, &[("y", &[(8 * MIB, 9 * MIB)])]);
        let pair = heatmap_pair((&mut one, &one_survey), (&mut alone, &alone_survey), (2, 2), MIB).unwrap();
        assert_eq!(pair.notes, ["`x` is in the first record alone"]);
        assert_eq!(pair.rate_ppm[1].iter().filter(|&&rate| rate == 0).count(), 2, "the band of x is empty: {pair:?}");

        let (_d, mut far, far_survey) = record("vaddr", 2, &[("z", &[(64 * MIB, 65 * MIB)])]);
        let pair = heatmap_pair((&mut alone, &alone_survey), (&mut far, &far_survey), (2, 2), MIB).unwrap();
        assert!(pair.notes[0].contains("different targets are compared, `y` and `z`"), "{:?}", pair.notes);
        assert!(pair.notes[1].contains("no address is busy in both"), "{:?}", pair.notes);
    }

    #[test]
    fn physical_and_virtual_addresses_are_refused() {
        let (_a, mut one, one_survey) = record("paddr", 2, &[("x", &[(0, MIB)])]);
        let (_b, mut other, other_survey) = record("vaddr", 2, &[("x", &[(0, MIB)])]);
        let error = heatmap_pair((&mut one, &one_survey), (&mut other, &other_survey), (2, 2), MIB).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("virtual") && words.contains("physical") && words.contains("different memory"),
            "{words}"
        );
    }

    #[test]
    fn ranges_become_disjoint() {
        assert_eq!(
            union(vec![(0, 5, 9), (0, 1, 6), (1, 1, 2), (0, 9, 10), (0, 20, 30), (0, 21, 22)]),
            [(0, 1, 10), (0, 20, 30), (1, 1, 2)]
        );
    }
}
