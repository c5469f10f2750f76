//! Areas that are scanned (docs/spec/promotion.md#s1-6): NUMA balancing has the same filter.

use crate::host::AreaKind;

/// Why an area is not scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// The area is device memory or bare frame numbers.
    Io,
    /// The area is a file mapped directly from its device (DAX).
    Dax,
    /// The area is memory of `hugetlbfs`.
    Hugetlb,
    /// Frames with and without a `struct page`.
    Mixed,
    /// A memory policy that keeps pages where they are.
    Policy,
    /// A file mapping that is only read: program text and libraries, shared by many.
    ReadOnlyFile,
    /// The area may not be accessed at all (`PROT_NONE`).
    Inaccessible,
    /// A file that cannot have pages of the highest zone.
    LowZone,
}

/// Why an area is not scanned; `None`: it is eligible.
pub fn obstacle(kind: AreaKind) -> Option<Obstacle> {
    let table = [
        (kind.is_io, Obstacle::Io),
        (kind.is_dax, Obstacle::Dax),
        (kind.is_hugetlb, Obstacle::Hugetlb),
        (kind.is_mixed, Obstacle::Mixed),
        (kind.is_bound, Obstacle::Policy),
        (kind.is_read_only_file, Obstacle::ReadOnlyFile),
        (kind.is_inaccessible, Obstacle::Inaccessible),
        (kind.is_low_zone_file, Obstacle::LowZone),
    ];
    table.into_iter().find(|(stands, _)| *stands).map(|(_, obstacle)| obstacle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/promotion.md#s1-6.
    #[test]
    fn each_obstacle_alone_is_enough() {
        type Row = (fn(&mut AreaKind), Obstacle);
        let table: [Row; 8] = [
            (|kind| kind.is_io = true, Obstacle::Io),
            (|kind| kind.is_dax = true, Obstacle::Dax),
            (|kind| kind.is_hugetlb = true, Obstacle::Hugetlb),
            (|kind| kind.is_mixed = true, Obstacle::Mixed),
            (|kind| kind.is_bound = true, Obstacle::Policy),
            (|kind| kind.is_read_only_file = true, Obstacle::ReadOnlyFile),
            (|kind| kind.is_inaccessible = true, Obstacle::Inaccessible),
            (|kind| kind.is_low_zone_file = true, Obstacle::LowZone),
        ];
        for (change, expected) in table {
            let mut kind = AreaKind::default();
            change(&mut kind);
            assert_eq!(obstacle(kind), Some(expected));
        }
        assert_eq!(obstacle(AreaKind::default()), None);
    }
}
