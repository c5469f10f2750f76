"""Traces and records: no copies on the way to other libraries, and the numbers of the command."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from checkout import skip_or_fail

import isotherm
from isotherm import RegionRecord, Trace


def address(array: Any) -> int:
    at: int = array.__array_interface__["data"][0]
    return at


def test_rows_reach_other_libraries_without_a_copy(sqlite: Path) -> None:
    table = Trace.open(sqlite).table()
    views = {name: table[name] for name in ("time_ns", "thread", "page", "pages")}
    assert not any(view.flags.writeable or view.flags.owndata for view in views.values())
    assert all(address(table[name]) == address(view) for name, view in views.items())
    arrow = pa.table(table)
    frame = pl.DataFrame(table)
    for name, view in views.items():
        assert arrow[name].num_chunks == 1
        assert arrow[name].chunk(0).buffers()[1].address == address(view)
        assert address(frame[name].to_numpy(allow_copy=False)) == address(view)


def test_a_view_keeps_the_memory_after_its_table(sqlite: Path) -> None:
    page = Trace.open(sqlite).table()["page"]
    copy = page.copy()
    for _ in range(3):
        Trace.open(sqlite).table()
    assert (page == copy).all()


def test_every_library_reads_the_same(sqlite: Path) -> None:
    trace = Trace.open(sqlite)
    frame = pl.DataFrame(trace)
    assert frame.height == trace.rows == len(trace)
    assert frame["pages"].sum() == trace.accesses
    assert pa.RecordBatchReader.from_stream(trace).read_all().num_rows == trace.rows
    assert pd.DataFrame.from_arrow(trace).equals(frame.to_pandas())
    rows = pa.table(trace.table())  # noqa: F841: named in the query
    assert duckdb.sql("SELECT sum(pages), count(*) FROM rows").fetchall() == [(trace.accesses, trace.rows)]
    assert (trace.table()["page"] == frame["page"].to_numpy()).all()
    parquet = pl.read_parquet(sqlite)
    assert (parquet["page"].to_numpy() == frame["page"].to_numpy()).all()
    assert (parquet["write"] == frame["write"]).all()


def test_arrays_make_a_trace_and_come_back(tmp_path: Path) -> None:
    page = np.array([7, 3, 7, 100], np.int32)
    trace = Trace.from_arrays(page, write=[True, False, True, False], pages=[1, 2, 1, 3], thread=[0, 0, 1, 1])
    assert (trace.rows, trace.accesses, trace.page_bytes) == (4, 7, 4096)
    table = trace.table()
    assert list(table["page"]) == [7, 3, 7, 100] and list(table["time_ns"]) == [0, 1000, 2000, 3000]
    assert list(table["write"]) == [True, False, True, False]
    assert len(trace.meta["threads"]) == 2
    path = tmp_path / "kept.parquet"
    kept = Trace.from_arrow(pl.DataFrame(trace), path=path)
    assert kept.path == path
    assert Trace.open(path).table().to_pylist() == table.to_pylist()
    for numbers in ([1, 0, 1, 0], np.array([1, 0, 1, 0], np.int8), np.array([1, 0, 1, 0], np.uint8)):
        same = Trace.from_arrays(page, write=numbers, pages=[1, 2, 1, 3], thread=[0, 0, 1, 1])
        assert same.table().to_pylist() == table.to_pylist()
        flags = pa.table({"page": pa.array([7, 3, 7, 100], pa.uint8()), "write": pa.array(list(numbers))})
        assert list(Trace.from_arrow(flags).table()["write"]) == [True, False, True, False]
    with pytest.raises(ValueError, match="write: 2 is no flag; allowed: booleans, or 0 and 1"):
        Trace.from_arrow(pa.table({"page": [1], "write": [2]}))
    assert Trace.from_arrays([], write=[]).rows == 0
    only_pages = Trace.from_arrow(pa.table({"page": pa.array([1, 2, 1], pa.int64())}))
    assert [row["pages"] for row in only_pages.table().to_pylist()] == [1, 1, 1]
    assert only_pages.mrc()["misses"].tolist() == [3, 2]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"page": [-1]}, "page: values from -1 to -1; allowed: 0 to 18446744073709551615"),
        ({"page": [0.5]}, "page: an array of float64; allowed: uint64, or other whole numbers"),
        ({"page": [[1]]}, r"page: an array of shape \(1, 1\); allowed: one dimension"),
        ({"page": [1, 2], "write": [True]}, "write: 1 rows, but `page` has 2"),
        ({"page": [1, 2], "write": [0, 2]}, "write: values from 0 to 2; allowed: booleans, or 0 and 1"),
        ({"page": [1], "write": ["w"]}, "write: an array of <U1; allowed: booleans, or 0 and 1"),
        ({"page": [1], "write": [0.0]}, "write: an array of float64; allowed: booleans, or 0 and 1"),
        ({"page": [True]}, "page: an array of bool; allowed: uint64, or other whole numbers"),
        ({"page": [1], "pages": [2**32]}, "pages: values from 4294967296 to 4294967296; allowed: 0 to 4294967295"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Trace.from_arrays(**arrays)


def test_rows_that_are_not_allowed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "refused.parquet"
    with pytest.raises(isotherm.TraceError, match=r"row 0: `pages` is 0; at least 1 is allowed"):
        Trace.from_arrays([1], pages=[0], path=path)
    with pytest.raises(isotherm.TraceError, match="row 1: time 5 ns of thread 0 is before 10 ns"):
        Trace.from_arrays([1, 2], time_ns=[10, 5], path=path)
    assert not path.exists()
    with pytest.raises(ValueError, match="page: there is no such column"):
        Trace.from_arrow(pa.table({"pages": [1]}))
    with pytest.raises(ValueError, match="page: it has gaps"):
        Trace.from_arrow(pa.table({"page": [1, None]}))


ANALYSES = [
    ("heatmap", lambda trace: trace.heatmap()),
    ("wss", lambda trace: trace.wss()),
    ("mrc", lambda trace: trace.mrc()),
    ("idle", lambda trace: trace.idle()),
]


@pytest.mark.parametrize(("view", "analysis"), ANALYSES, ids=[view for view, _ in ANALYSES])
def test_analyses_have_the_numbers_of_the_command(view: str, analysis: Any, sqlite: Path, command: Any) -> None:
    printed = list(csv.DictReader(io.StringIO(command("report", view, str(sqlite), "--format", "csv").decode())))
    rows = analysis(Trace.open(sqlite)).to_pylist()
    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows] == printed


def test_errors_have_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot open .*none.parquet"):
        Trace.open(tmp_path / "none.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("hello\n")
    with pytest.raises(isotherm.TraceError, match="is not a page trace .*it begins like text"):
        Trace.open(text)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes((Path(__file__).parents[2] / "traces" / "table.parquet").read_bytes()[:5000])
    with pytest.raises(isotherm.TraceError):
        Trace.open(torn)
    with pytest.raises(ValueError, match="sample: "):
        Trace.from_arrays([1]).mrc("half")


def test_records_of_regions_are_tables(tmp_path: Path, sqlite: Path, command: Any) -> None:
    path = tmp_path / "regions.parquet"
    subprocess.run([command.program, "monitor", str(sqlite), "-o", str(path)], check=True, capture_output=True)
    record = RegionRecord.open(path)
    table = record.table()
    assert table.num_rows == record.meta["regions"] > 0
    assert (table["end"] > table["start"]).all()
    assert pl.DataFrame(record).height == table.num_rows
    for view, rows in [("heatmap", record.heatmap()), ("wss", record.wss()), ("idle", record.idle())]:
        printed = list(csv.DictReader(io.StringIO(command("report", view, str(path), "--format", "csv").decode())))
        assert [
            {key: "" if value is None else str(value) for key, value in row.items()} for row in rows.to_pylist()
        ] == printed
    with pytest.raises(isotherm.TraceError):
        RegionRecord.open(Path(__file__))


def test_recording_needs_the_command() -> None:
    with pytest.raises(FileNotFoundError, match="`no-isotherm` is not found: recording needs the isotherm command"):
        Trace.record(["true"], isotherm="no-isotherm")


def test_a_program_is_recorded(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "true.parquet"
    try:
        trace = Trace.record(["/bin/true"], path, isotherm=command.program)
    except isotherm.TraceError as refused:
        skip_or_fail(f"nothing is recorded here: {refused}")
    assert trace.path == path and trace.rows > 0
    assert trace.meta["exit_code"] == 0 and trace.meta["command"] == ["/bin/true"]


def test_what_the_recorder_refuses_is_an_exception(command: Any) -> None:
    with pytest.raises(isotherm.TraceError, match="allowed: 1000 to"):
        Trace.record(["true"], epoch="1ns", isotherm=command.program)


def test_import_brings_no_library() -> None:
    """Modules that make an import slow; `bench.py` has its time."""
    code = (
        "import sys, isotherm;"
        "print([name for name in ('numpy', 'pyarrow', 'polars', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd="/") == "[]\n"


def test_pictures_are_drawn(sqlite: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from isotherm import plot

    trace = Trace.open(sqlite)
    assert plot.heatmap(trace).images
    assert plot.wss(trace.wss()).lines
    assert plot.mrc(trace).lines
