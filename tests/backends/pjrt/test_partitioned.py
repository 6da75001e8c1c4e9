"""Programs that are partitioned over several devices of a plugin: one program for all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P, lax
from gnomon._compilation.ahead_of_time import closed_program
from gnomon.backends.pjrt import buffer as buffers
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.plugin import PluginSpec
from gnomon.dialects import shardy
from gnomon.passes.lower import LoweringError
from tests.sample import HALVES, half_of

pytestmark = pytest.mark.pjrt

AXES, SIZES = ("x", "y"), (2, 2)
MESH = gn.sharding.AbstractMesh(SIZES, AXES)
Split = tuple[str, ...]


@pytest.fixture(scope="module")
def four(spec: PluginSpec) -> Iterator[PjrtBackend]:
    """A backend on four devices, closed at the end."""
    backend = PjrtBackend(
        "xla_cpu", PluginSpec("xla_cpu", spec.path, {"cpu_device_count": 4}, spec.flags)
    )
    yield backend
    backend.close()


def shards_of(array: np.ndarray[Any, Any], split: Split) -> list[np.ndarray[Any, Any]]:
    """The part of an array that each device of the mesh holds, in their order."""
    found = []
    for position in itertools.product(*map(range, SIZES)):
        place = dict(zip(AXES, position, strict=True))
        size = dict(zip(AXES, SIZES, strict=True))
        part = array
        for dimension, entry in enumerate(split):
            for axis in filter(None, entry.split(",")):
                part = np.split(part, size[axis], dimension)[place[axis]]
        found.append(np.ascontiguousarray(part))
    return found


def lowered(
    backend: PjrtBackend,
    fun: Callable[..., Any],
    arguments: Sequence[Any],
    ins: Sequence[Split] | None = None,
    outs: Sequence[Split] | None = None,
    devices: tuple[int, ...] = (0, 1, 2, 3),
) -> Any:
    """A function lowered for the mesh; by default its arguments and results are not split."""
    stage = gn.jit(fun).lower(*arguments)
    program = closed_program(stage.as_text("traced"), stage._traced.captures)
    ranks = [len(a.shape) for a in gn.tree.leaves(stage.in_avals)]
    whole = [("",) * rank for rank in ranks]
    results = [("",) * len(a.shape) for a in gn.tree.leaves(stage.out_info)]
    mesh = shardy.Mesh(AXES, SIZES, devices)
    shardy.annotate(program.module, mesh, ins or whole, outs or results)
    return backend.lower(program, keep_stages=True)


def check(
    backend: PjrtBackend,
    fun: Callable[..., Any],
    *arguments: Any,
    ins: Sequence[Split] | None = None,
    outs: Sequence[Split] | None = None,
    names: Sequence[str] | None = None,
) -> str:
    """Compare each device's part of the results with the CPU's; return the program's text.

    Names of the results, if there are any, are for the error message, which has all differences.
    """
    arrays = [np.asarray(x) for x in arguments]
    artifact = lowered(backend, fun, arrays, ins, outs)
    program = backend.compile(artifact)
    splits = ins or [("",) * a.ndim for a in arrays]
    parts = [shards_of(a, s) for a, s in zip(arrays, splits, strict=True)]
    given = [
        [buffers.put(part[number], device) for part in parts]
        for number, device in enumerate(backend.devices())
    ]
    made = program.run_on_all(given)
    expected = [np.asarray(r) for r in gn.tree.leaves(gn.jit(fun)(*arrays))]
    wanted = outs or [("",) * e.ndim for e in expected]
    problems = []
    for number, (whole, split) in enumerate(zip(expected, wanted, strict=True)):
        name = names[number] if names else f"result {number}"
        for result, part in zip(made, shards_of(whole, split), strict=True):
            try:
                np.testing.assert_allclose(
                    result[number].to_numpy(), part, rtol=2e-5, atol=2e-5, err_msg=name
                )
            except AssertionError as error:
                problems.append(str(error))
    assert not problems, "\n".join(problems)
    return str(artifact.stages.stablehlo.plain)


def over(
    fun: Callable[..., Any], ins: Any, outs: Any, *, axes: set[str] | None = None, vma: bool = True
) -> Callable[..., Any]:
    """The function mapped over the mesh."""
    names = frozenset(axes or AXES)
    mapped: Callable[..., Any] = gn.shard_map(
        fun, mesh=MESH, in_specs=ins, out_specs=outs, axis_names=names, check_vma=vma
    )
    return mapped


X = np.arange(32, dtype=np.float32).reshape(4, 8) / 7
V = np.linspace(-1, 1, 8, dtype=np.float32)


def pairs(names: Any) -> list[tuple[int, int]]:
    size = 4 if isinstance(names, tuple) else 2
    return [(i, (i + 1) % size) for i in range(size)]


COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "x") * x,
    "psum of two": lambda x: lax.psum(x, ("x", "y")) * x,
    "psum in groups": lambda x: lax.psum(x, "y", axis_index_groups=[[1], [0]]) * x,
    "pmean": lambda x: lax.pmean(x, "y") - x,
    "pmax": lambda x: lax.pmax(x, "x") - x,
    "pmin": lambda x: lax.pmin(x, ("x", "y")) - x,
    "axis_index": lambda x: x + lax.axis_index("x") + 10 * lax.axis_index("y"),
    "axis_index of two": lambda x: x + lax.axis_index(("y", "x")),
    "all_gather": lambda x: lax.all_gather(x, "y").sum(0) * x,
    "all_gather at the end": lambda x: lax.all_gather(x, "x", axis=2)[:, :, 1] * x,
    "all_gather tiled": lambda x: lax.all_gather(x, "y", axis=1, tiled=True)[:, ::2] * x,
    "psum_scatter": lambda x: lax.psum_scatter(x, "x", scatter_dimension=0) + x,
    "psum_scatter tiled": lambda x: gnp.tile(
        lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True), (1, 2)
    ),
    "all_to_all": lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True).reshape(x.shape),
    "all_to_all, untiled": lambda x: lax.all_to_all(x, "y", 0, 1).reshape(x.shape),
    "ppermute": lambda x: lax.ppermute(x, "x", pairs("x")) - x,
    "ppermute without some": lambda x: lax.ppermute(x, "y", [(0, 1)]) - x,
    "ppermute over two": lambda x: lax.ppermute(x, ("x", "y"), pairs(("x", "y"))),
}


def check_all(
    backend: PjrtBackend, functions: dict[str, Callable[..., Any]], ins: Split, outs: Split
) -> None:
    """Compare functions of an array each, compiled as one program."""

    def program(*xs: Any) -> list[Any]:
        return [fun(x) for fun, x in zip(functions.values(), xs, strict=True)]

    count = len(functions)
    # The arrays differ, so that no function's result is another's.
    arrays = [X + k for k in range(count)]
    names = list(functions)
    check(backend, program, *arrays, ins=[ins] * count, outs=[outs] * count, names=names)


@pytest.mark.parametrize("half", HALVES)
def test_collectives_and_their_derivatives(four: PjrtBackend, half: int) -> None:
    functions = half_of(COLLECTIVES.items(), half, __name__)
    mapped = {name: over(fun, P("x", "y"), P("x", "y")) for name, fun in functions}
    check_all(four, mapped, ("x", "y"), ("x", "y"))

    def gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
        return gn.grad(lambda x: gnp.sum(gnp.sin(fun(x)) * X))

    derivatives = {n: gradient(fun) for n, fun in mapped.items() if "axis_index" not in n}
    check_all(four, derivatives, ("x", ""), ("", "y"))


def mean_square(x: Any, w: Any) -> Any:
    """A loss that is computed by all devices, each on its rows."""
    return lax.pmean(gnp.mean((gnp.tanh(x) @ w - 1) ** 2), ("x", "y"))


def rows(vma: bool = True) -> Callable[..., Any]:
    return over(mean_square, (P(("x", "y")), P()), P(), vma=vma)


@pytest.mark.parametrize("vma", [True, False], ids=["checked", "unchecked"])
def test_derivatives_of_the_whole(four: PjrtBackend, vma: bool) -> None:
    loss = rows(vma)
    check(four, gn.value_and_grad(loss, argnums=(0, 1)), X, V)
    check(four, lambda x, w: gn.jvp(loss, (x, w), (gnp.cos(x), gnp.sin(w))), X, V)
    # The Hessian: forward over reverse, in a vmap.
    check(four, gn.jacfwd(gn.grad(loss, argnums=1), argnums=1), X, V)
    check(four, gn.jacrev(gn.grad(loss, argnums=1), argnums=1), X, V)


def test_derivatives_inside(four: PjrtBackend) -> None:
    def gradient(x: Any, w: Any) -> Any:
        return gn.grad(mean_square, argnums=1)(x, w)

    text = check(four, over(gradient, (P(("x", "y")), P()), P()), X, V)
    assert "stablehlo.all_reduce" in text


def test_vmap_around_and_inside(four: PjrtBackend) -> None:
    xs = np.stack([X, 2 * X, -X])
    check(four, gn.vmap(rows(), in_axes=(0, None)), xs, V)
    check(four, gn.vmap(gn.grad(rows()), in_axes=(1, None), out_axes=2), xs.swapaxes(0, 1), V)
    inner = over(
        lambda x: gn.vmap(lambda r: r - lax.psum(r, "i") + lax.psum(r, "x"), axis_name="i")(x),
        P("x", "y"),
        P("x", "y"),
    )
    check(four, inner, X)


def test_loops_and_branches(four: PjrtBackend) -> None:
    def steps(x: Any) -> Any:
        def step(carry: Any, i: Any) -> tuple[Any, Any]:
            carry = gnp.sin(carry) + lax.ppermute(carry, "x", pairs("x")) * i
            return carry, lax.pmean(carry, ("x", "y")).sum()

        return lax.scan(step, x, gnp.arange(3.0))

    inside = over(steps, P("x", "y"), (P("x", "y"), P()))
    check(four, inside, X)
    check(four, gn.grad(lambda x: inside(x)[1].sum()), X)

    shift = over(lambda x: lax.ppermute(x, "x", pairs("x")) * 2, P("x", "y"), P("x", "y"))

    def around(x: Any) -> Any:
        return lax.scan(lambda c, _: (gnp.sin(shift(c * c)), c.sum()), x, None, length=3)

    check(four, around, X)
    check(four, gn.grad(lambda x: around(x)[0].sum() + around(x)[1].sum()), X)
    choose = over(
        lambda x: lax.cond(lax.axis_index("x") == 0, lambda v: gnp.sin(v), lambda v: v * 2, x),
        P("x", "y"),
        P("x", "y"),
    )
    check(four, gn.grad(lambda x: (choose(x) * X).sum()), X)


def test_a_checkpoint_recomputes_inside(four: PjrtBackend) -> None:
    def layer(x: Any) -> Any:
        return gn.checkpoint(lambda v: gnp.sin(lax.psum(v, "y")) * v)(x)

    mapped = over(layer, P("x", "y"), P("x", "y"))
    check(four, gn.grad(lambda x: gnp.sum(mapped(x) * X)), X)
    check(four, gn.grad(lambda x: gnp.sum(gn.checkpoint(mapped)(x) * X)), X)


def test_some_axes_are_left_to_the_partitioner(four: PjrtBackend) -> None:
    def part(x: Any) -> Any:
        return lax.psum(x, "x") * (1 + lax.axis_index("x")) + gnp.sum(x, axis=1, keepdims=True)

    fun = over(part, P("x"), P("x"), axes={"x"})
    text = check(four, fun, X, ins=[("x", "y")], outs=[("x", "y")])
    assert "{\\22x\\22, ?}" in text
    check(four, gn.grad(lambda x: gnp.sum(fun(x) * X)), X, ins=[("x", "y")], outs=[("x", "y")])

    def nested(x: Any) -> Any:
        inner = gn.shard_map(
            lambda v: lax.psum(v, ("y",)) + lax.axis_index("x") * v,
            in_specs=P(None, "y"),
            out_specs=P(None, "y"),
            axis_names={"y"},
        )
        return inner(x) + lax.psum(x.sum(), "x")

    check(four, over(nested, P("x"), P("x"), axes={"x"}), X)


def test_the_partitioner_splits_whole_programs(four: PjrtBackend) -> None:
    def loss(w: Any, x: Any) -> Any:
        return gnp.mean(gnp.tanh(x @ w) ** 2)

    w = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
    check(four, gn.grad(loss), w, X, ins=[("", "y"), ("x", "")], outs=[("", "y")])
    program = four.compile(
        lowered(four, gn.grad(loss), (w, X), [("", "y"), ("x", "")], [("", "y")])
    )
    assert "all-reduce" in program.as_text()
    # Each device holds its part of the arguments only.
    assert program.memory_analysis().argument_size_in_bytes == 4 * (8 * 4 // 2 + 4 * 8 // 2)


def test_constraints(four: PjrtBackend) -> None:
    def fun(x: Any) -> Any:
        y = lax.with_sharding_constraint(gnp.sin(x), gn.NamedSharding(MESH, P("y", "x")))
        return y + lax.with_sharding_constraint(
            gnp.cos(x), gn.NamedSharding(MESH, P(P.UNCONSTRAINED, "x"))
        )

    text = check(four, fun, X, ins=[("x", "y")], outs=[("x,y", "")])
    assert "[{\\22y\\22}, {\\22x\\22}]" in text and "[{?}, {\\22x\\22}]" in text


def test_donated_arguments_are_taken_over(four: PjrtBackend) -> None:
    artifact = lowered(four, lambda x: x * 2, (X,), [("x", "y")], [("x", "y")])
    program = four.compile(artifact, donate=(0,))
    assert program.memory_analysis().alias_size_in_bytes == X.nbytes // 4
    places = zip(shards_of(X, ("x", "y")), four.devices(), strict=True)
    given = [[buffers.put(shard, device)] for shard, device in places]
    made = program.run_on_all(given)
    np.testing.assert_array_equal(made[3][0].to_numpy(), 2 * X[2:, 4:])
    assert all(buffer.is_deleted() for (buffer,) in given)


def test_other_devices_are_an_error(four: PjrtBackend) -> None:
    with pytest.raises(ValueError, match=r"devices \[4, 5\] that the platform 'xla_cpu'.*\[0, 1"):
        four.compile(lowered(four, gnp.sin, (X,), devices=(0, 1, 4, 5)))
    wide = gn.sharding.AbstractMesh((8,), ("x",))
    fun = gn.shard_map(lambda v: v, mesh=wide, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(LoweringError, match="runs on the devices of one mesh"):
        lowered(four, fun, (V,))


def test_a_vmap_with_the_name_of_an_axis(four: PjrtBackend) -> None:
    mapped = gn.vmap(over(lambda v: lax.psum(v, "x"), P("x"), P()), axis_name="x")
    with pytest.raises(TypeError, match="axis name 'x', which is an axis of the mesh"):
        lowered(four, mapped, (X,))
