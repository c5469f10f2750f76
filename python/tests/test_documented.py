"""The page's code runs unchanged, from the first block to the last; so do the examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

PAGE = ROOT / "docs" / "use" / "python.md"


def test_the_blocks_of_the_page_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


@pytest.mark.parametrize("name", ["policies", "workload", "traces"])
def test_examples_run(name: str) -> None:
    example = Path(__file__).parents[1] / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, str(example)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout, done.stderr
