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

A commit runs a quarter of these cases, at least one: half of them in the default suite, the others
in the slow one. If the test is slow itself, all of them are in the slow suite. ``-m exhaustive``
runs the other three quarters. A case that the command line names by its id always runs. The seed of
the samples is the commit, or the variable ``GNOMON_SAMPLE``; pytest prints it in the first lines of
its output.

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


# The parameter of a test that checks one half of its cases in the default suite, and the other half
# in the slow suite: `@pytest.mark.parametrize("half", HALVES)`.
HALVES = [0, pytest.param(1, marks=pytest.mark.slow)]


def half_of(cases: Iterable[T], half: int, name: str) -> list[T]:
    """One half of the cases, in their order; which ones these are changes with the commit.

    Args:
      cases: the cases.
      half: 0 or 1, the parameter of the test; see `HALVES`.
      name: the name of the matrix.
    """
    cases = list(cases)
    ordered = sorted(range(len(cases)), key=lambda i: order(f"{name} {i}"))
    return [cases[i] for i in sorted(ordered[half::2])]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that are in no sample as exhaustive, and half of the samples as slow.

    Exhaustive tests are dropped unless they are asked for.

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
        count = max(1, math.ceil(share * len(cases)))
        left_out.update(cases[count:])
        for item in cases[math.ceil(count / 2) : count]:
            item.add_marker(pytest.mark.slow)
    for item in left_out:
        item.add_marker(pytest.mark.exhaustive)
    # Other expressions, such as `slow`, need not know of exhaustive tests.
    if left_out and "exhaustive" not in config.option.markexpr:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
