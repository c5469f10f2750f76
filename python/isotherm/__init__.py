"""Which memory is hot, which policy and how much memory a program needs, with evidence.

Traces of programs (:class:`Trace`), records of monitors (:class:`RegionRecord`), the simulated machine
(:func:`simulate`) and the advice that is drawn from replays (:func:`advise`), with the words and the bytes of the
``isotherm`` command. Own workloads and policies: :mod:`isotherm.workloads`, :mod:`isotherm.policies`.

Units are in names: ``runtime_ns`` is in nanoseconds, ``memory_bytes`` in bytes, ``..._ppm`` in millionths. Page
numbers count pages of ``page_bytes``. Long calls release the interpreter's lock, and Ctrl-C ends them.
"""

from . import policies, testing, workloads
from ._advice import Advice, Recommendation, advise
from ._native import Error, ScenarioError, TraceError, __version__
from ._region import RegionRecord
from ._scenario import CgroupSpec, Matrix, Scenario, Variant, Workload, bundled_scenarios
from ._simulate import Result, metrics, simulate
from ._table import Table
from ._trace import Trace

__all__ = [
    "Advice",
    "CgroupSpec",
    "Error",
    "Matrix",
    "Recommendation",
    "RegionRecord",
    "Result",
    "Scenario",
    "ScenarioError",
    "Table",
    "Trace",
    "TraceError",
    "Variant",
    "Workload",
    "__version__",
    "advise",
    "bundled_scenarios",
    "metrics",
    "policies",
    "simulate",
    "testing",
    "workloads",
]
