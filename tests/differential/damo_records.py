"""damo's side of the differential test of region records.

    damo_records.py make FOLDER        writes one record in each of damo's formats, with damo's own classes and writer
    damo_records.py dump FILE          prints what damo's own reader finds in FILE: a line a snapshot, a line a region
    damo_records.py kdamonds FILE      prints the kdamonds in FILE as damo reads and prints them
    damo_records.py make-kdamonds FOLDER   writes one configuration, with damo's own classes

No DAMON in the kernel is needed or used: monitoring results are made up, everything else is damo.
"""

import collections
import importlib.util
import json
import os
import sys

# The package's modules import each other by bare names, as its own start-up has it.
sys.path.insert(0, os.path.dirname(importlib.util.find_spec("damo").origin))

import _damo_records  # noqa: E402
import _damon  # noqa: E402


def region(start, pages, samples, age):
    end = start + pages * 4096
    return _damon.DamonRegion(start, end, samples, _damon.unit_samples, age, _damon.unit_aggr_intervals)


def make_records():
    """Two targets, three snapshots of 100 ms each; addresses and times of the size that real ones have."""
    intervals = _damon.DamonIntervals("5ms", "100ms", "1s", _damon.DamonIntervalsGoal("4%", 3, "5ms", "10s"))
    records = []
    for target in range(2):
        record = _damo_records.DamonRecord(0, 0, intervals, None, target, [])
        for index in range(3):
            end_ns = 100952251360000 + (index + 1) * 100000000
            base = 94827419009024 + target * (1 << 40)
            regions = [
                region(base, 10, 20 - index, 5 + index),
                region(base + 10 * 4096, 1000, 0, 100 + index),
                region(base + (1 << 30), 77, 3 * target, 0),
            ]
            record.snapshots.append(_damo_records.DamonSnapshot(end_ns - 100000000, end_ns, regions, None))
        records.append(record)
    return records


def make(folder):
    for name in ("json", "json_compressed", "perf_script"):
        err = _damo_records.write_damon_records(make_records(), os.path.join(folder, name), name)
        assert err is None, err


def read(path):
    """As damo's own `parse_records_file`, but for its asking the `file` command, whose words differ between versions."""
    with open(path, "rb") as f:
        head = f.read(2)
    if head == b"x\x9c":
        return _damo_records.parse_compressed_json(path)
    if head[:1] == b"[":
        return _damo_records.parse_json_file(path)
    with open(path) as f:
        records, err = _damo_records.parse_damon_trace(f.read(), "perf-script", None)
    assert err is None, err
    return records


def dump(path):
    for record in read(path):
        intervals = record.intervals
        if intervals is not None:
            print("intervals", *(int(x * 1000) for x in (intervals.sample, intervals.aggr, intervals.ops_update)))
        for snapshot in record.snapshots:
            print("snapshot", record.kdamond_idx, record.target_id, round(snapshot.start_time), snapshot.end_time)
            for r in snapshot.regions:
                print("region", r.start, r.end, r.nr_accesses.samples, r.age.aggr_intervals, sep=" ")


def make_kdamonds(folder):
    target = _damon.DamonTarget(None, [_damon.DamonRegion(4096, 26843545600)])
    goal = _damon.DamosQuotaGoal("some_mem_psi_us", "10ms", "0")
    quotas = _damon.DamosQuotas("0", "100M", "1s", ["0.1%", "0.1%", "0.1%"], [goal])
    scheme = _damon.Damos(
        access_pattern=_damon.DamosAccessPattern(["min", "max"], ["0%", "0%"], _damon.unit_percent, ["2m", "max"],
                                                 _damon.unit_usec),
        action="pageout", quotas=quotas,
        watermarks=_damon.DamosWatermarks("free_mem_rate", "5s", "50%", "40%", "20%"),
        filters=[_damon.DamosFilter("anon", True, True),
                 _damon.DamosFilter("hugepage_size", True, True, hugepage_size=["2M", "1G"])])
    goal = _damon.DamonIntervalsGoal("4%", 3, "5ms", "10s")
    context = _damon.DamonCtx(ops="paddr", targets=[target],
                              intervals=_damon.DamonIntervals("5ms", "100ms", "1s", goal), schemes=[scheme])
    kvpairs = collections.OrderedDict(
        [("kdamonds", [_damon.Kdamond(None, None, [context]).to_kvpairs(params_only=True)])])
    with open(os.path.join(folder, "kdamonds.json"), "w") as f:
        json.dump(kvpairs, f, indent=4)


def print_kdamonds(path):
    with open(path) as f:
        kvpairs = json.load(f)
    kdamonds = [_damon.Kdamond.from_kvpairs(kv) for kv in kvpairs["kdamonds"]]
    print(json.dumps([k.to_kvpairs(raw=True, params_only=True) for k in kdamonds], indent=1))


if __name__ == "__main__":
    verb, argument = sys.argv[1:]
    {"make": make, "dump": dump, "kdamonds": print_kdamonds, "make-kdamonds": make_kdamonds}[verb](argument)
