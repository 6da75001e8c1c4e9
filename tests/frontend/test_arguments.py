"""Arguments of jitted functions: static data that cannot be hashed, and arrays of ``float0``."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax
import gnomon.numpy as gnp


@gn.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    x: Any
    options: Any = dataclasses.field(metadata={"static": True})


def test_static_data_are_compared_where_they_cannot_be_hashed() -> None:
    traced = []

    @gn.jit
    def f(model: Model) -> Any:
        traced.append(model.options)
        return model.x * model.options["scale"]

    options = {"scale": 2, "names": ["a"], "table": np.arange(3)}
    same = {"scale": 2, "names": ["a"], "table": np.arange(3)}
    assert f(Model(1.0, options)) == f(Model(1.0, same)) == 2
    assert len(traced) == 1
    assert f(Model(1.0, {**same, "table": np.arange(3.0)})) == 2
    assert f(Model(1.0, {**same, "names": ("a",)})) == 2
    assert len(traced) == 3
    options["scale"] = 5  # the key is a copy of the data at the time of tracing
    assert f(Model(1.0, options)) == 5
    assert f(Model(1.0, same)) == 2
    assert len(traced) == 4


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: gn.jit(lambda m: f(m)),
        lambda f: gn.jit(lambda m: gn.jit(f)(m) + 0),
        lambda f: lambda m: gn.vmap(gn.jit(f))(Model(gnp.ones(2), m.options))[0],
        lambda f: gn.checkpoint(f),
        lambda f: lambda m: gn.grad(gn.jit(f))(m).x,
        lambda f: gn.jit(lambda m: gn.lax.cond(m.x > 0, lambda m: m, lambda m: m, m).x * 3),
        lambda f: gn.jit(
            lambda m: gn.lax.fori_loop(0, 3, lambda i, m: Model(m.x + 1, m.options), m).x - 1
        ),
    ],
)
def test_static_dictionaries_pass_through_transformations(transform: Any) -> None:
    assert transform(lambda m: m.x * m.options["scale"])(Model(1.0, {"scale": 3})) == 3


def test_float0_arguments() -> None:
    zero = np.zeros((2, 3), gn.float0)
    assert gn.jit(lambda x: x)(zero).dtype == gn.float0
    assert gn.jit(lambda x, y: y + x.shape[1])(zero, 1.0) == 4
    assert gn.jit(lambda d, y: y + d["b"])({"a": zero, "b": 2.0}, y=1.0) == 3
    assert gn.jit(lambda x: gn.jit(lambda x, y: (x, y))(x, 1.0))(zero)[0].shape == (2, 3)
    assert gn.jit(lambda x, y: 2 * y, donate_argnums=1).lower(zero, 1.0).compile()(zero, 1.0) == 2
    assert gn.grad(gn.jit(lambda y, x: 3 * y))(2.0, zero) == 3
    _, pullback = gn.vjp(gnp.sign, 1)
    assert gn.jit(pullback)(np.zeros((), gn.float0))[0].dtype == gn.float0


def test_axis_env_of_make_jaxpr() -> None:
    def f(x: Any) -> Any:
        return gn.lax.psum(x, ("i", "j")) + gn.lax.axis_index("i"), x

    made = gn.make_jaxpr(f, axis_env=[("i", 4), ("j", 2)], return_shape=True)
    program, types = made(gnp.ones(3))
    assert 'axis_name = "i", axis_size = 4' in str(program)
    assert 'axis_name = "j", axis_size = 2' in str(program)
    assert [t.shape for t in types] == [(3,), (3,)]


def test_buffer_pointer() -> None:
    x = gnp.arange(4.0)
    assert x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data


def test_debug_print_uses_the_options_of_its_call() -> None:
    with np.printoptions(precision=2):
        f = gn.jit(lambda x: gn.debug.print("{}", x)).lower(gnp.ones(1)).compile()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        f(gnp.asarray([1.23456]))
        gn.effects_barrier()
    assert out.getvalue() == "[1.23]\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"static_argnames": 5}, "static_argnames must be a string or a sequence of strings"),
        ({"donate_argnames": [1]}, "donate_argnames must be a string or a sequence of strings"),
        ({"static_argnums": 1.5}, "static_argnums must be an int or a sequence of ints"),
        ({"static_argnums": "x"}, "static_argnums must be an int or a sequence of ints"),
    ],
)
def test_numbers_and_names_of_other_types_are_refused(given: Any, expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        gn.jit(lambda x: x, **given)
