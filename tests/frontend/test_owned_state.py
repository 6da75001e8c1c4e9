"""Functions own their state: wrappers, copies and pickles of a function never share it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp


def square_sum(x: Any) -> Any:
    """The sum of squares."""
    return gnp.sum(x**2)


@gn.custom_jvp
def with_jvp(x: Any) -> Any:
    return gnp.sum(x**2)


@with_jvp.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    return with_jvp(*primals), 2 * gnp.sum(primals[0] * tangents[0])


@gn.custom_vjp
def with_vjp(x: Any) -> Any:
    return gnp.sum(x**2)


with_vjp.defvjp(lambda x: (gnp.sum(x**2), x), lambda x, ct: (2 * ct * x,))


@gn.custom_batching.custom_vmap
def with_vmap(x: Any) -> Any:
    return gnp.sum(x**2)


@with_vmap.def_vmap
def _vmap(axis_size: int, in_batched: Any, xs: Any) -> Any:
    return gnp.sum(xs**2, 1), True


@gn.jit
def jitted(x: Any) -> Any:
    return gnp.sum(x**2)


def exported() -> Any:
    return gn.export.export(gn.jit(square_sum))(gn.ShapeDtypeStruct((3,), np.float32)).call


def sharded() -> Any:
    mesh = gn.make_mesh((1,), ("i",))
    return gn.shard_map(square_sum, mesh=mesh, in_specs=gn.P(), out_specs=gn.P())


def mapped() -> Any:
    of_rows = gn.pmap(square_sum)
    return functools.wraps(of_rows)(lambda x: of_rows(x[None])[0])


FUNCTIONS: dict[str, Callable[[], Any]] = {
    "jit": lambda: jitted,
    "tiered": lambda: gn.jit(square_sum, tiered=True),
    "custom_jvp": lambda: with_jvp,
    "custom_vjp": lambda: with_vjp,
    "custom_vmap": lambda: with_vmap,
    "checkpoint": lambda: gn.checkpoint(jitted),
    "pmap": mapped,
    "shard_map": sharded,
    "exported": exported,
    "partial": lambda: gn.tree_util.Partial(jitted),
}
X = np.arange(3, dtype=np.float32)


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("first", ["function", "wrapper"])
def test_wrappers_run_themselves(kind: str, first: str) -> None:
    function = FUNCTIONS[kind]()
    wrapper = functools.wraps(function)(lambda x: gnp.negative(function(x)))
    outer = functools.update_wrapper(gn.jit(lambda x: function(x) + 1), function)
    calls: list[tuple[Any, float]] = [(function, 5), (gn.jit(wrapper), -5), (outer, 6)]
    if first == "wrapper":
        calls.reverse()
    for call, expected in [*calls, *calls]:
        assert call(X) == expected
    for rule in (gn.custom_jvp, gn.custom_vjp, gn.custom_batching.custom_vmap):
        with pytest.raises(AttributeError, match=r"No .* defined"):
            rule(wrapper)(X)


def test_transformations_of_a_jitted_function() -> None:
    results: dict[str, Any] = {}
    for transformed_first in (True, False):
        loss = gn.jit(lambda w: gnp.sum(w**2))
        calls = {
            "loss": loss,
            "grad": gn.jit(gn.grad(loss)),
            "value_and_grad": gn.jit(gn.value_and_grad(loss)),
            "vmap": gn.jit(gn.vmap(loss)),
        }
        for _ in range(2):
            for name in sorted(calls, reverse=transformed_first):
                argument = X[None] if name == "vmap" else X
                results[name] = gn.tree.map(np.asarray, calls[name](argument))
        assert results["loss"] == results["vmap"] == results["value_and_grad"][0] == 5
        np.testing.assert_array_equal(results["grad"], 2 * X)
        np.testing.assert_array_equal(results["value_and_grad"][1], 2 * X)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_copies(kind: str, way: str) -> None:
    function = FUNCTIONS[kind]()
    if way == "pickle" and kind in ("checkpoint", "pmap", "shard_map"):
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
            pickle.dumps(function)  # Nothing names these functions.
        return
    copied = COPIES[way](function)
    assert copied(X) == function(X) == 5
    if way == "pickle" and kind not in ("tiered", "partial", "exported"):
        assert copied is function, "decorated functions of a module are pickled by name"


def test_a_copy_has_its_own_rule() -> None:
    for way in (copy.copy, copy.deepcopy):
        forward = way(with_jvp)
        forward.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0].sum()))
        backward = way(with_vjp)
        backward.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct * gnp.ones(3),))
        batched = way(with_vmap)
        batched.def_vmap(lambda axis_size, in_batched, xs: (xs[:, 0], True))
        for ours, theirs in ((forward, with_jvp), (backward, with_vjp)):
            np.testing.assert_array_equal(gn.grad(ours)(X), np.ones(3))
            np.testing.assert_array_equal(gn.grad(theirs)(X), 2 * X)
        assert gn.vmap(batched)(X[None]) == 0
        assert gn.vmap(with_vmap)(X[None]) == 5


def test_attributes_are_passed_on_and_replace_no_method() -> None:
    def f(x: Any) -> Any:
        return x + 1

    state: dict[str, Any] = dict.fromkeys(
        ("_cache", "_call", "_fun", "_traces", "fun", "jvp", "fwd", "bwd", "lower", "vmap_rule")
    )
    vars(f).update(state, color="red")
    makers: list[Any] = [gn.jit, gn.custom_jvp, gn.custom_vjp, gn.custom_batching.custom_vmap]
    rules: list[Any] = [
        lambda g: g.lower(1.0),
        lambda g: g.defjvp(lambda p, t: (g(*p), t[0])),
        lambda g: g.defvjp(lambda x: (g(x), None), lambda _, ct: (ct,)),
        lambda g: g.def_vmap(lambda n, batched, x: (x + 1, True)),
    ]
    for make, define in zip(makers, rules, strict=True):
        made = make(f)
        define(made)
        assert made(1.0) == 2
        assert made.color == "red"
        made.color = "blue"
        assert f.color == "red"  # type: ignore[attr-defined]
        for copied in (copy.copy(made), gn.grad(made)):
            assert copied.color == "blue"
        assert copy.copy(made)(1.0) == 2
    assert gn.pmap(f).color == "red"


@dataclasses.dataclass(frozen=True)
class Scale:
    """Equal objects of this class may give different results."""

    factor: Any

    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Unhashable:
    """An object that is compared by value, and so has no hash."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        return x + self.offset


def test_equal_callables_are_not_the_same_function() -> None:
    assert Scale(2) == Scale(2.0)
    x = gnp.arange(3)
    assert [gn.jit(Scale(2))(x).dtype, gn.jit(Scale(2.0))(x).dtype] == ["int32", "float32"]
    functions = [gn.jit(Unhashable(offset)) for offset in (1.0, 2.0)]
    for _ in range(2):
        assert [float(f(1.0)) for f in functions] == [2, 3]
    gn.clear_caches()
    assert [f._cache_size() for f in functions] == [0, 0]  # type: ignore[attr-defined]


def test_a_deep_copy_of_a_jitted_object_has_a_copy_of_the_object() -> None:
    scaled = Unhashable(1.0)
    function = gn.jit(scaled)
    assert function(1.0) == 2
    copied = copy.deepcopy(function)
    scaled.offset = 5.0
    gn.clear_caches()
    assert (function(1.0), copied(1.0)) == (6, 2)


def test_copies_of_what_transformations_return() -> None:
    """Copies share the program, which does not change, and have arrays of their own."""
    out, pullback = gn.vjp(lambda x: x**2, X)
    _, pushforward = gn.linearize(lambda x: x**2, X)
    transposed = gn.linear_transpose(lambda x: out * x, X)
    exported = gn.export.export(gn.jit(lambda x: 2 * x))(X)
    functions: dict[Any, Any] = {
        pullback: lambda f: f(gnp.ones(3))[0],
        pushforward: lambda f: f(gnp.ones(3)),
        transposed: lambda f: f(gnp.ones(3))[0] ** 0.5 * 2,
        exported: lambda f: f.call(X),
        gn.jit(lambda x: 2 * x).lower(X): lambda f: f.compile()(X),
    }
    for function, call in functions.items():
        for way in (copy.copy, copy.deepcopy):
            np.testing.assert_array_equal(call(way({"it": function})["it"]), 2 * X)
    copied = copy.deepcopy(pullback)
    for leaf in gn.tree.leaves(copied):
        leaf.delete()
    np.testing.assert_array_equal(pullback(gnp.ones(3))[0], 2 * X)


class Model:
    """A class with functions as methods."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @functools.partial(gn.jit, static_argnums=0)
    def scaled(self, x: Any) -> Any:
        return self.weight * x

    squared = gn.custom_jvp(lambda self, x: x**2, nondiff_argnums=(0,))


def test_methods_are_bound() -> None:
    model, other = Model(2.0), Model(3.0)
    for _ in range(2):
        assert (model.scaled(2.0), other.scaled(2.0)) == (4, 6)
    assert isinstance(model.scaled, MethodType) and isinstance(model.squared, MethodType)
    assert model.scaled == model.scaled != other.scaled
    assert pickle.loads(pickle.dumps(model.scaled))(2.0) == 4
    assert pickle.loads(pickle.dumps(Model.scaled)) is Model.scaled


def test_a_wrapper_of_a_universal_function_is_not_one() -> None:
    wrapper = functools.wraps(gnp.add)(lambda x, y: x * y)
    assert isinstance(gnp.add, gnp.ufunc)
    assert not isinstance(wrapper, gnp.ufunc)


# ------------------------------------------------------------------------------ the public API


def public_modules() -> list[ModuleType]:
    """All public modules of the API."""
    found = [gn]
    for module in found:
        for info in pkgutil.iter_modules(getattr(module, "__path__", ())):
            name = f"{module.__name__}.{info.name}"
            if not info.name.startswith("_") and info.name not in _PARTS:
                found.append(importlib.import_module(name))
    return found


# Packages that are in gnomon's folder, but are no part of the API.
_PARTS = ("backends", "commands", "dialects", "libgnomon_vulkan", "passes", "tests", "tools")


def test_public_functions_are_pickled_by_name() -> None:
    """`multiprocessing.Pool.map(gnp.sin, ...)` pickles the function."""
    failures = []
    count = 0
    for module in public_modules():
        names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        for name in names:
            value = getattr(module, name, None)
            if not callable(value):
                continue
            count += 1
            try:
                loaded = pickle.loads(pickle.dumps(value))
            except Exception as error:
                failures.append(f"{module.__name__}.{name}: {error}")
                continue
            # Aliases of types are made anew; so are partials, such as those of `stax`.
            if loaded is not value and loaded != value and not isinstance(value, functools.partial):
                failures.append(f"{module.__name__}.{name}: another object")
    assert not failures
    assert count > 1200
