"""Many runs of a scenario, into a dataset: :func:`sweep`.

Runs are played by an executor: processes of this machine (:class:`LocalExecutor`) or a Ray cluster
(:class:`isotherm.sweep.ray.RayExecutor`). The dataset is the same bytes with either executor. The same from a shell:
``isotherm sweep SPACE -o FOLDER``, or ``python -m isotherm.sweep``.
"""

from .executors import Answer, Executor, Job, LocalExecutor, Row
from .sweeps import Space, Swept, sweep

__all__ = ["Answer", "Executor", "Job", "LocalExecutor", "Row", "Space", "Swept", "sweep"]
