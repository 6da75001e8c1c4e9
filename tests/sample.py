"""Samples of large matrices of tests, which change with each commit.

A matrix crosses ops, dtypes, sizes or transformations. Each of its cases finds the same kind of
fault, so a part of them suffices for a commit, if it is another part for the next. Cases that a
fault was once found by are no matrix: they always run.

```python
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_an_op(op, dtype): ...
```

The default and the slow suite run a quarter of these cases, at least one; ``-m exhaustive`` runs
the others. A case that the command line names by its id always runs. The seed of the samples is the
commit, or the variable ``GNOMON_SAMPLE``; pytest prints it in the first lines of its output.

A test that compiles its cases as one program calls `sample`. ``GNOMON_SAMPLE=all`` is no sample:
all cases run, these among them.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

_VARIABLE = "GNOMON_SAMPLE"
# The seed that leaves nothing out.
_ALL = "all"


@functools.cache
def seed() -> str:
    """The seed of all samples."""
    if given := os.environ.get(_VARIABLE):
        return given
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "0"


def order(name: str) -> bytes:
    """A number by which the cases of a matrix are ordered; the first ones are the sample."""
    return hashlib.blake2b(f"{seed()} {name}".encode(), digest_size=8).digest()


def sample(cases: Iterable[T], count: int, name: str) -> list[T]:
    """Return ``count`` of the cases of a loop in a test, in their order; see the module.

    Args:
      cases: the cases; their order is part of what chooses the sample.
      count: the number of cases; all are taken if the seed says so.
      name: the name of the matrix.
    """
    numbered = list(enumerate(cases))
    if seed() == _ALL:
        count = len(numbered)
    chosen = sorted(numbered, key=lambda case: order(f"{name} {case[0]}"))[:count]
    return [case for _, case in sorted(chosen, key=lambda case: case[0])]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that are in no sample as exhaustive, and drop them unless these are asked for.

    Args:
      config: the configuration, with the command line.
      items: the collected tests.
    """
    if seed() == _ALL:
        return
    named = [argument.rpartition("/")[2] for argument in config.args if "[" in argument]
    matrices = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None or item.get_closest_marker("smoke"):
            continue
        if not any(item.nodeid.endswith(argument) for argument in named):
            matrices[item.nodeid.partition("[")[0], mark.args].append(item)
    left_out = set()
    for (_, (share,)), cases in matrices.items():
        cases.sort(key=lambda item: order(item.nodeid))
        left_out.update(cases[max(1, math.ceil(share * len(cases))) :])
    for item in left_out:
        item.add_marker(pytest.mark.exhaustive)
    # Other expressions, such as `slow`, need not know of exhaustive tests.
    if left_out and "exhaustive" not in config.option.markexpr:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
