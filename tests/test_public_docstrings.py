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
    "gnomon.lax.linalg": 1,
    "gnomon.ops": 3,
    "gnomon.profiler": 7,
    "gnomon.random": 1,
    "gnomon.scipy.fft": 3,
    "gnomon.scipy.linalg": 8,
    "gnomon.scipy.signal": 6,
    "gnomon.scipy.sparse.linalg": 1,
    "gnomon.scipy.special": 43,
    "gnomon.scipy.stats.bernoulli": 4,
    "gnomon.scipy.stats.beta": 6,
    "gnomon.scipy.stats.betabinom": 2,
    "gnomon.scipy.stats.binom": 2,
    "gnomon.scipy.stats.cauchy": 8,
    "gnomon.scipy.stats.chi2": 6,
    "gnomon.scipy.stats.dirichlet": 2,
    "gnomon.scipy.stats.expon": 7,
    "gnomon.scipy.stats.gamma": 6,
    "gnomon.scipy.stats.gennorm": 3,
    "gnomon.scipy.stats.geom": 2,
    "gnomon.scipy.stats.gumbel_l": 7,
    "gnomon.scipy.stats.gumbel_r": 7,
    "gnomon.scipy.stats.laplace": 3,
    "gnomon.scipy.stats.logistic": 6,
    "gnomon.scipy.stats.multinomial": 2,
    "gnomon.scipy.stats.multivariate_normal": 2,
    "gnomon.scipy.stats.nbinom": 2,
    "gnomon.scipy.stats.norm": 8,
    "gnomon.scipy.stats.pareto": 7,
    "gnomon.scipy.stats.poisson": 4,
    "gnomon.scipy.stats.t": 2,
    "gnomon.scipy.stats.truncnorm": 6,
    "gnomon.scipy.stats.uniform": 4,
    "gnomon.scipy.stats.vonmises": 2,
    "gnomon.scipy.stats.wrapcauchy": 2,
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
