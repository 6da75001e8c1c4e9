"""How many public functions lack an example or the section Args.

The table may only shrink: lower a number, or delete its line, when the test says so.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.test_docs import load

INCOMPLETE: dict[str, int] = {
    "gnomon.ad_checkpoint": 3,
    "gnomon.custom_derivatives": 2,
    "gnomon.debug": 2,
    "gnomon.distributed": 3,
    "gnomon.distributed.launch": 1,
    "gnomon.dlpack": 2,
    "gnomon.dtypes": 3,
    "gnomon.example_libraries.optimizers": 18,
    "gnomon.example_libraries.stax": 13,
    "gnomon.experimental.checkify": 3,
    "gnomon.experimental.multihost_utils": 5,
    "gnomon.experimental.shard_map": 1,
    "gnomon.experimental.topologies": 1,
    "gnomon.export": 6,
    "gnomon.ops": 3,
    "gnomon.profiler": 7,
    "gnomon.random": 1,
    "gnomon.sharding": 2,
}


def is_complete(function: Callable[..., Any]) -> bool:
    """Whether a docstring has an example, and a section Args if there are parameters."""
    text = function.__doc__ or ""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        parameters = {}
    return ">>> " in text and ("Args:" in text or not parameters)


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every public function; functions of NumPy under its names are left out."""
    api = load("public_api")
    found = {}
    for module in api.public_modules():
        for name in api.public_names(module):
            value = getattr(module, name)
            origin = str(getattr(value, "__module__", "")).partition(".")[0]
            if callable(value) and not isinstance(value, type) and origin == "gnomon":
                found[f"{module.__name__}.{name}"] = value
    return found


def test_public_functions_have_arguments_and_an_example() -> None:
    functions = public_functions()
    missing = [name for name, function in functions.items() if not is_complete(function)]
    counts = dict(Counter(name.rpartition(".")[0] for name in missing))
    print(*missing, sep="\n")  # Shown when the test fails.
    assert len(functions) > 1000
    assert counts == INCOMPLETE
