"""A process that plays runs: jobs on standard input, answers on standard output, until the end of the input."""

from __future__ import annotations

import os
import pickle
import sys

from .executors import play


def main() -> None:
    """Serves until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # Output printed during a run must not get between the answers.
    os.dup2(2, 1)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(play(job), answers)
        answers.flush()


if __name__ == "__main__":
    main()
