//! Parsers against texts that no kernel writes: no parser panics.

use crate::lru_gen::{self, Enabled};
use crate::{
    Counters, buddyinfo, cgroup, maps, meminfo, numa_stat, numbers, pagetypeinfo, pressure, smaps, stat, swaps,
    zoneinfo,
};
use proptest::prelude::*;

const SAMPLES: &[&str] = &[
    "some avg10=1.25 avg60=0.07 avg300=100.00 total=987654\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    "nr_free_pages 12\nworkingset_refault_anon 18446744073709551615\nhigh max\n",
    "anon N0=4096 N1=0\nfile N0=1 N1=2\n",
    "MemTotal:        2048 kB\nNode 0 MemFree:  18446744073709551615 kB\n",
    "Node 0, zone    DMA32      2      2      4      2 \nNode 1, zone   Normal      0      1      0 \n",
    "Page block order: 9\nNode 0, zone Normal, type Movable >100000 0 1 \nNumber of blocks type Unmovable Movable\nNode 0, zone Normal 5 7\n",
    "Node 0, zone DMA\n  per-node stats\n      nr_active_anon 436\n  pages free     3840\n        min      16\n  pagesets\n    cpu: 0\n",
    "7f0000000000 bind:1 anon=1 N1=1 kernelpagesize_kB=2048\n",
    "Filename Type Size Used Priority\n/dev/zram0 partition 1024 256 100\n",
];

fn parse_all(text: &str) {
    let _ = pressure::parse(text);
    let _ = Counters::parse(text);
    let _ = numa_stat::parse(text);
    let _ = meminfo::parse(text);
    let _ = buddyinfo::parse(text);
    let _ = pagetypeinfo::parse(text);
    let _ = zoneinfo::parse(text);
    let _ = swaps::parse(text);
    let _ = swaps::parse_zram(text);
    let _ = (maps::parse(text), smaps::parse(text), stat::Stat::parse(text));
    let _ = (lru_gen::parse(text), Enabled::parse(text));
    let _ = (cgroup::Limit::parse(text), cgroup::processes(text), numbers::list(text), numbers::row(text));
}

#[test]
fn torn_texts() {
    for sample in SAMPLES {
        for end in 0..=sample.len() {
            parse_all(&sample[..end]);
            parse_all(&sample[end..]);
        }
        parse_all(&sample.repeat(1000));
        parse_all(&sample.replace(char::is_numeric, "9999999999"));
    }
}

/// A zone as a kernel prints it.
const ZONEINFO: &str = "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 2258\n  pages free     100\n        boost    0\n        \
    min      16\n        low      20\n        high     24\n        promo    28\n        spanned  4095\n        present  4000\n        \
    managed  3840\n        protection: (0, 3)\n      nr_free_pages 100\n  pagesets\n    cpu: 0\n              high:  13\n";

proptest! {
    #[test]
    fn random_texts(text in "\\PC{0,200}", words in "(Node|zone|type|some|avg10=|N0=|:|,|>|-|[0-9]{1,22}|[ \n]){0,60}") {
        parse_all(&text);
        parse_all(&words);
    }

    #[test]
    fn spoilt_zones(text in "\\PC*", at in 0..ZONEINFO.len()) {
        let _ = zoneinfo::parse(&format!("{}{text}{}", &ZONEINFO[..at], &ZONEINFO[at..]));
    }
}
