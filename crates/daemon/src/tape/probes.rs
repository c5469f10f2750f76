//! Requests of our own engines, recorded on a tape. There are hundreds a second, so the tape holds only their number and a checksum.

use super::taped::{Refused, Taped};
use isotherm_core::host::{
    Action, AddressRange, Adopting, Applied, Applying, Area, AreaKind, Attribute, Capabilities, HostError, Level,
    Mappings, MoveOrder, NodeId, NodeMemory, Order, PageMove, Probe, ProbeResult, Probing, ScanFilter, Scanned,
    SchemeCapabilities, Seen, TargetId, TierNode, Tiering, TieringCapabilities,
};
use isotherm_core::vocabulary::FilterType;
use isotherm_units::Duration;
use isotherm_units::hash::fnv1a;

/// FNV-1a over numbers: it need not resist attacks, and must never change.
fn checksum(numbers: impl Iterator<Item = u64>) -> u64 {
    fnv1a(numbers.flat_map(u64::to_le_bytes))
}

/// Number of probes, and a checksum over them.
fn of_probes(probes: &[Probe]) -> (usize, u64) {
    (probes.len(), checksum(probes.iter().flat_map(|probe| [probe.address, u64::from(probe.level.0)])))
}

fn of_addresses(addresses: &[u64]) -> (usize, u64) {
    (addresses.len(), checksum(addresses.iter().copied()))
}

/// Letters on the tape.
const SEEN: [(Seen, char); 4] =
    [(Seen::NotMapped, '-'), (Seen::Idle, '0'), (Seen::Accessed, '1'), (Seen::Unknown, '?')];

/// A letter and a digit for the level, for each result.
fn letters(results: &[ProbeResult]) -> String {
    let letter = |result: &ProbeResult| {
        let letter = SEEN.iter().find(|(seen, _)| *seen == result.seen).map_or('?', |(_, letter)| *letter);
        [letter, char::from(b'0' + result.level.0.min(9))]
    };
    results.iter().flat_map(letter).collect()
}

/// Decodes results. `None` if the letters have another meaning.
fn results(letters: &str, out: &mut [ProbeResult]) -> Option<()> {
    let (pairs, rest) = letters.as_bytes().as_chunks::<2>();
    if pairs.len() != out.len() || !rest.is_empty() {
        return None;
    }
    for ([letter, level], result) in pairs.iter().zip(out) {
        let seen = SEEN.iter().find(|(_, known)| *known == char::from(*letter))?.0;
        *result = ProbeResult { seen, level: Level(level.checked_sub(b'0').filter(|level| *level < 10)?) };
    }
    Some(())
}

const STRANGE: &str = "the tape has another number of answers";

fn strange() -> HostError {
    HostError::Failed(STRANGE.to_owned())
}

/// Shifts, highest level, capabilities.
type Looks = (Vec<u8>, u8, [bool; 3]);

impl<H: Probing> Probing for Taped<'_, H> {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        let told = || -> Looks {
            let Capabilities { shifts, highest_level, flush, scan_children, rules_out } =
                self.inner.capabilities(target);
            (shifts, highest_level.0, [flush, scan_children, rules_out])
        };
        let (shifts, highest, [flush, scan_children, rules_out]) =
            self.tape.call("capabilities", target.0, told, || (vec![12], 0, [false; 3]));
        Capabilities { shifts, highest_level: Level(highest), flush, scan_children, rules_out }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], out: &mut [ProbeResult]) -> Result<(), HostError> {
        let look = || {
            let mut seen = out.to_vec();
            self.inner.clear(target, probes, &mut seen).map_err(Refused::of)?;
            Ok(letters(&seen))
        };
        let told: Result<String, Refused> = self.tape.call("clear", (target.0, of_probes(probes)), look, Refused::over);
        results(&told.map_err(|error| error.error(&self.tape))?, out).ok_or_else(strange)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], out: &mut [ProbeResult]) -> Result<(), HostError> {
        let look = || {
            let mut seen = out.to_vec();
            self.inner.test(target, probes, &mut seen).map_err(Refused::of)?;
            Ok(letters(&seen))
        };
        let told: Result<String, Refused> = self.tape.call("test", (target.0, of_probes(probes)), look, Refused::over);
        results(&told.map_err(|error| error.error(&self.tape))?, out).ok_or_else(strange)
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        let look = || {
            let mut words = Vec::new();
            self.inner.scan_children(target, parent, &mut words).map_err(Refused::of)?;
            Ok(words)
        };
        let asked = (target.0, parent.address, parent.level.0);
        let told: Result<Vec<u64>, Refused> = self.tape.call("scan-children", asked, look, Refused::over);
        out.extend(told.map_err(|error| error.error(&self.tape))?);
        Ok(())
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        let told: Result<(), Refused> =
            self.tape.call("flush", target.0, || self.inner.flush(target).map_err(Refused::of), Refused::over);
        told.map_err(|error| error.error(&self.tape))
    }

    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        let look = || {
            let mut has = out.to_vec();
            self.inner.has_attribute(target, attribute, addresses, &mut has).map_err(Refused::of)?;
            Ok(has)
        };
        let asked = (target.0, attribute, of_addresses(addresses));
        let told: Result<Vec<Option<bool>>, Refused> = self.tape.call("has-attribute", asked, look, Refused::over);
        let told = told.map_err(|error| error.error(&self.tape))?;
        if told.len() != out.len() {
            return Err(strange());
        }
        out.copy_from_slice(&told);
        Ok(())
    }
}

impl<H: Mappings> Mappings for Taped<'_, H> {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        let read = || {
            let mut ranges = Vec::new();
            self.inner.mappings(target, &mut ranges).map_err(Refused::of)?;
            Ok(ranges.iter().map(|range| (range.start, range.end)).collect())
        };
        let told: Result<Vec<(u64, u64)>, Refused> = self.tape.call("mappings", target.0, read, Refused::over);
        let told = told.map_err(|error| error.error(&self.tape))?;
        out.extend(told.into_iter().map(|(start, end)| AddressRange::new(start, end.max(start))));
        Ok(())
    }
}

/// Counts of page filters are not recorded: no live host has them.
impl<H: Applying> Applying for Taped<'_, H> {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        let told = || {
            let SchemeCapabilities { actions, filtered_actions, filters } = self.inner.scheme_capabilities(target);
            (actions, filtered_actions, filters)
        };
        let (actions, filtered_actions, filters): (Vec<Action>, Vec<Action>, Vec<FilterType>) =
            self.tape.call("scheme-capabilities", target.0, told, Default::default);
        SchemeCapabilities { actions, filtered_actions, filters }
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        let nodes: Vec<(u32, u32)> = order.destinations.iter().map(|one| (one.nid, one.weight)).collect();
        let to = order.target_nid.map(|node| node.0);
        let asked = (target.0, order.action, order.range.start, order.range.end, to, nodes, order.marks_accessed);
        let apply = || {
            let Applied { bytes, spent, .. } = self.inner.apply(target, order).map_err(Refused::of)?;
            Ok((bytes, spent.ns()))
        };
        let told: Result<(u64, u64), Refused> = self.tape.call("apply", asked, apply, Refused::over);
        let (bytes, spent) = told.map_err(|error| error.error(&self.tape))?;
        Ok(Applied { bytes, spent: Duration::from_ns(spent), ..Applied::default() })
    }
}

/// Indexed by their numbers on the tape. A move is recorded as 100 plus its pages.
const MOVES: [PageMove; 11] = [
    PageMove::SameNode,
    PageMove::TopTier,
    PageMove::NotPresent,
    PageMove::Busy,
    PageMove::Pinned,
    PageMove::Shared,
    PageMove::Dirty,
    PageMove::NotActive,
    PageMove::Full,
    PageMove::BelowWatermark,
    PageMove::Moved(1),
];
const MOVED: u32 = 100;

fn move_number(result: PageMove) -> u32 {
    match result {
        PageMove::Moved(pages) => MOVED.saturating_add(pages),
        other => MOVES.iter().position(|known| *known == other).and_then(|at| u32::try_from(at).ok()).unwrap_or(3),
    }
}

fn move_of(number: u32) -> PageMove {
    match number.checked_sub(MOVED) {
        Some(pages) => PageMove::Moved(pages),
        None => usize::try_from(number).ok().and_then(|at| MOVES.get(at).copied()).unwrap_or(PageMove::Busy),
    }
}

/// Start, end, kind as flags.
type TapedArea = (u64, u64, [bool; 8]);

fn kind_flags(kind: AreaKind) -> [bool; 8] {
    let AreaKind {
        is_io,
        is_dax,
        is_hugetlb,
        is_mixed,
        is_bound,
        is_read_only_file,
        is_inaccessible,
        is_low_zone_file,
    } = kind;
    [is_io, is_dax, is_hugetlb, is_mixed, is_bound, is_read_only_file, is_inaccessible, is_low_zone_file]
}

fn kind_of(
    [is_io, is_dax, is_hugetlb, is_mixed, is_bound, is_read_only_file, is_inaccessible, is_low_zone_file]: [bool; 8],
) -> AreaKind {
    AreaKind { is_io, is_dax, is_hugetlb, is_mixed, is_bound, is_read_only_file, is_inaccessible, is_low_zone_file }
}

impl<H: Tiering> Tiering for Taped<'_, H> {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        let told = || {
            let has = self.inner.tiering_capabilities();
            let nodes: Vec<(u32, bool, bool)> =
                has.nodes.iter().map(|node| (node.node.0, node.is_top_tier, node.has_memory)).collect();
            let calls = [has.spaces, has.scan_accessed, has.page_nodes, has.node_memory, has.migrate, has.knows_active];
            (nodes, calls)
        };
        let (nodes, [spaces, scan_accessed, page_nodes, node_memory, migrate, knows_active]) =
            self.tape.call("tiering-capabilities", (), told, Default::default);
        let node = |(node, is_top_tier, has_memory)| TierNode { node: NodeId(node), is_top_tier, has_memory };
        let nodes = nodes.into_iter().map(node).collect();
        TieringCapabilities { nodes, spaces, scan_accessed, page_nodes, node_memory, migrate, knows_active }
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        let read = || {
            let mut areas = Vec::new();
            self.inner.areas(target, &mut areas).map_err(Refused::of)?;
            Ok(areas.iter().map(|area| (area.range.start, area.range.end, kind_flags(area.kind))).collect())
        };
        let told: Result<Vec<TapedArea>, Refused> = self.tape.call("areas", target.0, read, Refused::over);
        let told = told.map_err(|error| error.error(&self.tape))?;
        let area = |(start, end, kind): TapedArea| Area {
            range: AddressRange::new(start, end.max(start)),
            kind: kind_of(kind),
        };
        out.extend(told.into_iter().map(area));
        Ok(())
    }

    /// The tape holds the filter as it is afterwards.
    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        let mut seen = filter.clone();
        let scan = || {
            let Scanned { next, spent } = self.inner.scan_accessed(target, range, &mut seen).map_err(Refused::of)?;
            Ok((next, spent.ns(), seen))
        };
        let asked = (target.0, range.start, range.end);
        let told: Result<(u64, u64, ScanFilter), Refused> = self.tape.call("scan-accessed", asked, scan, Refused::over);
        let (next, spent, seen) = told.map_err(|error| error.error(&self.tape))?;
        *filter = seen;
        Ok(Scanned { next, spent: Duration::from_ns(spent) })
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        let look = || {
            let mut nodes = out.to_vec();
            self.inner.page_nodes(target, addresses, &mut nodes).map_err(Refused::of)?;
            Ok(nodes.iter().map(|node| node.map(|node| node.0)).collect())
        };
        let asked = (target.0, of_addresses(addresses));
        let told: Result<Vec<Option<u32>>, Refused> = self.tape.call("page-nodes", asked, look, Refused::over);
        let told = told.map_err(|error| error.error(&self.tape))?;
        if told.len() != out.len() {
            return Err(strange());
        }
        out.iter_mut().zip(told).for_each(|(out, node)| *out = node.map(NodeId));
        Ok(())
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        let rules = [order.keeps_high_watermark, order.only_active, order.leaves_shared, order.only_promotes];
        let asked = (target.0, of_addresses(order.pages), order.to.0, order.together, rules);
        let move_all = || {
            let mut moved = results.to_vec();
            let spent = self.inner.migrate(target, order, &mut moved).map_err(Refused::of)?;
            Ok((spent.ns(), moved.into_iter().map(move_number).collect()))
        };
        let told: Result<(u64, Vec<u32>), Refused> = self.tape.call("migrate", asked, move_all, Refused::over);
        let (spent, moved) = told.map_err(|error| error.error(&self.tape))?;
        if moved.len() != results.len() {
            return Err(strange());
        }
        results.iter_mut().zip(moved).for_each(|(result, number)| *result = move_of(number));
        Ok(Duration::from_ns(spent))
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        let read = || {
            let memory = self.inner.node_memory(node).map_err(Refused::of)?;
            Ok(memory.map(|NodeMemory { present, free, high, promo }| [present, free, high, promo]))
        };
        let told: Result<Option<[u64; 4]>, Refused> = self.tape.call("node-memory", node.0, read, Refused::over);
        let told = told.map_err(|error| error.error(&self.tape))?;
        Ok(told.map(|[present, free, high, promo]| NodeMemory { present, free, high, promo }))
    }
}

impl<H: Adopting> Adopting for Taped<'_, H> {
    fn can_look(&mut self) -> Result<(), HostError> {
        let told: Result<(), Refused> =
            self.tape.call("can-look", (), || self.inner.can_look().map_err(Refused::of), Refused::over);
        told.map_err(|error| error.error(&self.tape))
    }

    fn adopt(&mut self, target: TargetId, process: u32) -> Result<(), HostError> {
        let adopt = || self.inner.adopt(target, process).map_err(Refused::of);
        let told: Result<(), Refused> = self.tape.call("adopt", (target.0, process), adopt, Refused::over);
        told.map_err(|error| error.error(&self.tape))
    }

    fn dismiss(&mut self, target: TargetId) {
        let () = self.tape.call("dismiss", target.0, || self.inner.dismiss(target), || ());
    }

    fn is_as_adopted(&mut self, target: TargetId) -> bool {
        self.tape.call("as-adopted", target.0, || self.inner.is_as_adopted(target), || false)
    }

    fn present_bytes(&mut self, target: TargetId, range: AddressRange) -> Result<u64, HostError> {
        let count = || self.inner.present_bytes(target, range).map_err(Refused::of);
        let asked = (target.0, range.start, range.end);
        let told: Result<u64, Refused> = self.tape.call("present-bytes", asked, count, Refused::over);
        told.map_err(|error| error.error(&self.tape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_as_they_went() {
        let seen: Vec<ProbeResult> =
            SEEN.iter().zip(0..).map(|((seen, _), level)| ProbeResult { seen: *seen, level: Level(level) }).collect();
        let mut back = vec![ProbeResult { seen: Seen::Unknown, level: Level(9) }; seen.len()];
        assert_eq!(results(&letters(&seen), &mut back), Some(()));
        assert_eq!(back, seen);
        for strange in ["", "1", "10", "x0x0x0x0", "1000\u{e9}0"] {
            assert_eq!(results(strange, &mut back), None, "{strange}");
        }
        for moved in MOVES.into_iter().chain([PageMove::Moved(512)]) {
            assert_eq!(move_of(move_number(moved)), moved);
        }
        assert_eq!(checksum([1, 2].into_iter()), checksum([1, 2].into_iter()));
        assert_ne!(checksum([1, 2].into_iter()), checksum([2, 1].into_iter()));
    }
}
