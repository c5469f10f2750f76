"""Advice equals that of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

import isotherm


@pytest.fixture(scope="module")
def advice() -> isotherm.Advice:
    trace = Path(__file__).resolve().parents[2] / "traces" / "sqlite.parquet"
    return isotherm.advise(trace, effort="quick", kernel="7.2", memory=["60%", "80%"], details=True, cache=False)


FLAGS = ["--effort", "quick", "--kernel", "7.2", "--memory", "60%,80%", "--no-cache"]


def test_python_gives_the_bytes_of_the_command(  # type: ignore[no-untyped-def]
    advice: isotherm.Advice, sqlite: Path, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    page = tmp_path / "page.html"
    printed = command("advise", str(sqlite), *FLAGS, "--format", "json", "--report", str(page))
    assert advice.to_json().encode() == printed
    assert advice.to_html() == page.read_text()
    assert "2023-11-14" in advice.to_html()


def test_the_recommendation_is_that_of_the_document(advice: isotherm.Advice) -> None:
    best, document = advice.recommendation, advice.to_dict()["recommendation"]
    assert best is not None
    assert best.memory_bytes == document["memory_bytes"] < advice.peak_bytes
    assert best.configuration == document["candidate"]
    assert best.configuration in advice.table()["configuration"]
    assert advice.sentences[0] in str(advice)
    config = advice.config()
    assert config is not None and config.workloads


def test_a_notebook_shows_the_report(advice: isotherm.Advice) -> None:
    shown = advice._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "How much memory does sqlite need?" in shown


def test_errors_have_words(sqlite: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="effort: `hasty`; allowed: quick, normal, thorough"):
        isotherm.advise(sqlite, effort="hasty")
    with pytest.raises(ValueError, match="files cannot lie on `zram`"):
        isotherm.advise(sqlite, storage="zram")
    nothing = tmp_path / "nothing.parquet"
    with pytest.raises((FileNotFoundError, isotherm.Error), match="nothing.parquet"):
        isotherm.advise(nothing)
