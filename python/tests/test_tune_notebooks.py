"""The notebooks of docs/notebooks run from top to bottom, and are stored without output."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkout import skip_or_fail

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
#: Modules that a notebook cannot do without.
NEEDS = {"own-policy": ["isotherm.policies"], "sweep-and-pareto": ["optuna"]}
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def _cells(path: Path) -> list[dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    cells: list[dict[str, Any]] = document["cells"]
    return cells


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["damo-to-decision", "first-steps", "own-policy", "sweep-and-pareto"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    for module in NEEDS.get(path.stem, []):
        if importlib.util.find_spec(module) is None:
            skip_or_fail(f"{module} is not installed")
    # Each cell is run as in a notebook: in one name space, and the value of its last line is shown.
    cells = ["".join(cell["source"]) for cell in _cells(path) if cell["cell_type"] == "code"]
    runner = tmp_path / "runner.py"
    runner.write_text(
        "import ast, json, sys\n"
        "space = {'__name__': 'notebook'}\n"
        "for number, cell in enumerate(json.loads(open(sys.argv[1]).read())):\n"
        "    tree = ast.parse(cell)\n"
        "    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None\n"
        "    exec(compile(tree, f'cell {number}', 'exec'), space)\n"
        "    if last is not None:\n"
        "        value = eval(compile(last, f'cell {number}', 'eval'), space)\n"
        "        shown = getattr(value, '_repr_html_', value.__repr__)()\n"
        "        assert value is None or shown\n"
    )
    listed = tmp_path / "cells.json"
    listed.write_text(json.dumps(cells))
    done = subprocess.run(
        [sys.executable, str(runner), str(listed)], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_output(path: Path) -> None:
    for cell in _cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, "clear all outputs before saving"
