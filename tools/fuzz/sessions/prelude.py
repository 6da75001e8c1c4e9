"""The functions that sessions start from. Each session executes this file anew, as its module.

Values and derivatives are small integers at integers, so that results are exact.
"""
# ruff: noqa: D102, D103 (the names say what the functions do)

from __future__ import annotations

import copy
import dataclasses
import functools
import gc  # noqa: F401 (steps use it)
import importlib
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


class Settings:
    """An object that is compared by identity, and changes."""

    scale = 2.0


# What functions read; steps change both.
scale = 2.0
settings = Settings()


def change(value: float) -> None:
    """Change the values that functions read."""
    global scale  # noqa: PLW0603 (functions that read globals are the point)
    scale = settings.scale = value


def energy(x: Any) -> Any:
    return gnp.sum(x**2)


def cubic(x: Any) -> Any:
    return x * x * x - x


def scaled(x: Any) -> Any:
    return scale * x


def scaled_energy(x: Any) -> Any:
    return gnp.sum(settings.scale * x * x)


def looped(x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda _, c: c * x + 1, x)


def undecorated(x: Any) -> Any:
    return gnp.sum(3 * x * x)


@gn.jit
def decorated(x: Any) -> Any:
    return gnp.sum(3 * x * x)


def shifted(x: Any, n: Any) -> Any:
    return x + n


def signed(x: Any, n: Any) -> Any:
    return gnp.copysign(x, n) + n


def first(x: Any, n: Any) -> Any:
    """Add the first element of a static tuple."""
    return x + n[0]


class Model:
    """A class with a ``__call__`` and a jitted method."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __call__(self, x: Any) -> Any:
        return self.weight * x * x

    @functools.partial(gn.jit, static_argnums=0)
    def method(self, x: Any) -> Any:
        return gnp.sum(self.weight * x)


@dataclasses.dataclass(frozen=True)
class Offset:
    """Equal objects of this class may give different results."""

    value: Any

    def __call__(self, x: Any) -> Any:
        return x + self.value


# Arrays that many calls take.
_arrays: dict[Any, Any] = {}


def kept(values: Any, dtype: Any) -> Any:
    """The array of these values, the same at each call."""
    key = repr(values), dtype
    if key not in _arrays:
        _arrays[key] = gnp.array(values, dtype)
    return _arrays[key]


def changed_arrays() -> list[Any]:
    """The values of those arrays that no longer have them."""
    return [key for key, x in _arrays.items() if repr(np.asarray(x).astype(int).tolist()) != key[0]]


# ------------------------------------------------------- loops whose bodies reach beyond their code


def counted(x: Any) -> Any:
    count = 0

    def body(_: Any, c: Any) -> Any:
        nonlocal count
        count += 1
        return c + x

    # A trace counts once, and Python's loop under `disable_jit` at each step.
    return lax.fori_loop(0, 3, body, x) + min(count, 1)


def structured(x: Any) -> Any:
    tree: Any = None

    def body(c: Any, _: Any) -> Any:
        nonlocal tree
        leaves, tree = gn.tree.flatten({"a": c, "b": (c * 2,)})
        return c + 1, leaves

    _, ys = lax.scan(body, x, None, length=2)
    return gn.tree.unflatten(tree, ys)["b"][0][1]


def by_getattr(x: Any) -> Any:
    name = "scale"
    return lax.fori_loop(0, 1, lambda _, c: c * getattr(settings, name), x)


def by_import(x: Any) -> Any:
    return lax.fori_loop(0, 1, lambda _, c: c * importlib.import_module(__name__).scale, x)


@gn.tree_util.register_pytree_node_class
class Box:
    """A pytree with static data that is compared by identity, and may change."""

    def __init__(self, value: Any, static: Any) -> None:
        self.value, self.static = value, static

    def tree_flatten(self) -> Any:
        return (self.value,), self.static

    @classmethod
    def tree_unflatten(cls, static: Any, values: Any) -> Box:
        return cls(values[0], static)


def boxed(x: Any) -> Any:
    def body(_: Any, box: Box) -> Any:
        return gn.tree.map(lambda v: v * box.static.scale, box)

    return lax.fori_loop(0, 1, body, Box(x, settings)).value


# ------------------------------------------------------------------------------ ways to make others


def pickled(f: Any) -> Any:
    return pickle.loads(pickle.dumps(f))


def wrapped(f: Any, g: Any) -> Any:
    """A wrapper by the name of ``f`` that calls ``g``."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return g(*args, **kwargs)

    return functools.wraps(f)(wrapper)


def updated(f: Any, g: Any) -> Any:
    """A jitted function of ``g`` that gets the name and attributes of ``f``."""

    @gn.jit
    def made(x: Any) -> Any:
        return g(x)

    return functools.update_wrapper(made, f)


def added(f: Any, g: Any) -> Any:
    return lambda x: f(x) + g(x)


def directional(f: Any) -> Any:
    return lambda x: gn.jvp(f, (x,), (gnp.ones_like(x),))[1]


def linear(f: Any) -> Any:
    return lambda x: gn.linearize(f, x)[1](gnp.ones_like(x))


def pulled(f: Any) -> Any:
    def result(x: Any) -> Any:
        out, pullback = gn.vjp(f, x)
        return pullback(gnp.ones_like(out))[0]

    return result


def method_of(f: Any) -> Any:
    class Holder:
        call = gn.jit(lambda self, x: f(x), static_argnums=0)

    return Holder().call


def mapped(f: Any) -> Any:
    of_rows = gn.pmap(f)
    return functools.wraps(of_rows)(lambda x: of_rows(x[None])[0])


def sharded(f: Any) -> Any:
    mesh = gn.make_mesh((1,), ("i",))
    return gn.shard_map(f, mesh=mesh, in_specs=gn.P(), out_specs=gn.P())


def exported(f: Any) -> Any:
    return gn.export.export(gn.jit(f))(gn.ShapeDtypeStruct((3,), np.float32)).call


def loaded(f: Any) -> Any:
    made = gn.export.export(gn.jit(f))(gn.ShapeDtypeStruct((3,), np.float32))
    return gn.export.deserialize(made.serialize()).call


def compiled(f: Any) -> Any:
    return gn.jit(f).lower(gn.ShapeDtypeStruct((3,), np.float32)).compile()


# Rules with a wrong factor, so that it shows whose rule is used.


def with_jvp(f: Any, factor: float) -> Any:
    return jvp_rule(gn.custom_jvp(f), factor)


def jvp_rule(custom: Any, factor: float) -> Any:
    def rule(primals: Any, tangents: Any) -> Any:
        out, tangent = gn.jvp(custom.fun, primals, tangents)
        return out, tangent * factor

    custom.defjvp(rule)
    return custom


def with_vjp(f: Any, factor: float) -> Any:
    return vjp_rule(gn.custom_vjp(f), factor)


def vjp_rule(custom: Any, factor: float) -> Any:
    def backward(pullback: Callable[..., Any], ct: Any) -> Any:
        return (pullback(ct)[0] * factor,)

    custom.defvjp(lambda x: gn.vjp(custom.fun, x), backward)
    return custom


def with_vmap(f: Any, factor: float) -> Any:
    return vmap_rule(gn.custom_batching.custom_vmap(f), factor)


def without_rule(f: Any, factor: float) -> Any:
    """The function itself, in place of `with_vmap`."""
    return f


def vmap_rule(custom: Any, factor: float) -> Any:
    custom.def_vmap(lambda n, batched, x: (gn.vmap(custom.fun)(x) * factor, True))
    return custom


copied, deeply_copied = copy.copy, copy.deepcopy


def together(*calls: Callable[[], None]) -> None:
    """Make calls at the same time, each in a thread."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
