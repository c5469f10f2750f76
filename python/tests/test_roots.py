"""The wheel in clean roots of Debian releases, as a user without privileges, in a fresh environment. Needs root and mmdebstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT, skip_or_fail

# Debian 12 and 13, and their Python.
RELEASES = [("bookworm", "3.11"), ("trixie", "3.13")]

SCRIPT = """
set -e
rm -rf /tmp/environment
python3 -m venv /tmp/environment
/tmp/environment/bin/pip install --quiet --no-index --find-links /opt/wheels isotherm
cd /tmp
/tmp/environment/bin/python - <<'EOF'
import isotherm
result = isotherm.simulate("mglru-thrashing", repeats=1, threads=1)
trace = isotherm.Trace.from_arrays(range(100))
print(isotherm.__version__, result.table().num_rows > 0, trace.table()["page"].sum())
EOF
"""


def root_of(release: str) -> Path:
    """The root of a release with Python and venv, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "isotherm" / "roots" / f"{release}-venv"
    if (root / "usr/bin/python3").exists():
        return root
    if shutil.which("mmdebstrap") is None:
        skip_or_fail("mmdebstrap is not installed (apt-get install mmdebstrap)")
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    made = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv", release, str(unfinished)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        skip_or_fail(f"mmdebstrap cannot make a root of {release}: {made.stderr.strip()[-300:]}")
    shutil.rmtree(root, ignore_errors=True)
    return unfinished.rename(root)


def wheel() -> Path:
    """The wheel that this environment has installed, as it was built last."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    wheels = sorted((target / "wheels").glob("isotherm-*.whl"))
    if not wheels:
        skip_or_fail("the wheel is not built: make python")
    return wheels[-1]


@pytest.mark.nightly
@pytest.mark.parametrize(("release", "python"), RELEASES)
def test_the_wheel_works_in_a_clean_root(release: str, python: str) -> None:
    if os.geteuid() != 0:
        skip_or_fail("roots can be made and entered by root alone")
    built, root = wheel(), root_of(release)
    place = root / "opt" / "wheels"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copy(built, place)
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        + ["--no-deps", "--python-version", python, "--dest", str(place), "numpy"],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode != 0:
        skip_or_fail(f"NumPy for Python {python} cannot be fetched: {fetched.stderr.strip()[-300:]}")
    command = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root / 'proc'}"]
    command += ["chroot", "--userspec=1000:1000", str(root), "env", "-i", "HOME=/tmp", "PATH=/usr/bin:/bin"]
    done = subprocess.run([*command, "sh", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["True", "4950"], done.stdout
