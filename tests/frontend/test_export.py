"""`gnomon.export` compared with `jax.export`: exports, calls, derivatives, serialization."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export as jax_export
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon_runtime
from gnomon import export
from tests.tolerance import assert_each_near
from tests.tools.pages import blocks, run_python


def assert_close(actual, expected) -> None:
    """Compare values computed from numbers of size one in a few operations."""
    assert_each_near(actual, expected, 8, scale=1.0)


X = np.linspace(-1, 1, 3, dtype=np.float32)


def scaled(np_like, x, y):
    return {"r": np_like.sin(x) * y, "s": (x + 1, None)}


def exported_pair(fun, *args, **kwargs):
    """A function exported here and by JAX; it takes the module `numpy` first."""
    ours = export.export(gn.jit(lambda *a: fun(gnp, *a)), **kwargs)(*args)
    return ours, jax_export.export(jax.jit(lambda *a: fun(jnp, *a)), **kwargs)(*args)


def assert_same_types(ours, theirs) -> None:
    for mine, other in (ours.in_avals, theirs.in_avals), (ours.out_avals, theirs.out_avals):
        found = [(a.shape, a.dtype, a.weak_type) for a in mine]
        assert found == [(a.shape, a.dtype, a.weak_type) for a in other]


@pytest.fixture(params=["here", "serialized"])
def revived(request):
    """The callee: the exported function, or the one deserialized from its bytes."""
    if request.param == "here":
        return lambda exported, order=0: exported
    return lambda exported, order=0: export.deserialize(exported.serialize(order))


def test_attributes() -> None:
    ours, theirs = exported_pair(scaled, X, 2.0)
    assert_same_types(ours, theirs)
    assert (ours.nr_devices, ours.platforms) == (theirs.nr_devices, theirs.platforms)
    assert str(ours.in_tree) == str(theirs.in_tree)
    assert str(ours.out_tree) == str(theirs.out_tree)
    assert ours.module_kept_var_idx == theirs.module_kept_var_idx
    assert "stablehlo.sine" in ours.mlir_module()
    assert ours.mlir_module_serialized.startswith(b"ML\xefR")
    assert export.default_export_platform() == "cpu"
    assert export.export(gn.jit(gnp.sin))(X).fun_name == "sin"


def test_call(revived) -> None:
    ours, theirs = exported_pair(scaled, X, 2.0)
    ours = revived(ours)
    found, expected = ours.call(X, 3.0), theirs.call(X, 3.0)
    assert gn.tree.structure(found) == gn.tree.structure(gn.tree.map(np.asarray, expected))
    assert_close(found["r"], expected["r"])
    assert_close(found["s"][0], expected["s"][0])
    assert_close(gn.jit(ours.call)(X, 3.0)["r"], expected["r"])
    assert_close(gn.jit(lambda x: 2 * ours.call(x, x[0])["r"])(X), 2 * np.sin(X) * X[0])
    with gn.disable_jit():
        assert_close(ours.call(X, 3.0)["r"], expected["r"])


def test_types_stand_for_arguments() -> None:
    spec = gn.ShapeDtypeStruct((3,), np.float32)
    exported = export.export(gn.jit(lambda x, *, y: x * y))(spec, y=spec)
    assert_close(exported.call(X, y=X), X * X)


def test_static_arguments_are_a_part_of_the_program() -> None:
    exported = export.export(gn.jit(lambda x, n: x * n, static_argnums=1))(X, 3)
    assert_close(exported.call(X), 3 * X)


@pytest.mark.sampled(1)
def test_gradients(revived) -> None:
    def fun(np_like, x, y):
        return np_like.sum(np_like.sin(x) * y), y**2

    ours, theirs = exported_pair(fun, X, np.float32(2))
    ours = revived(ours, 3)
    assert ours.has_vjp()

    def loss(exported, x, y):
        return exported.call(x, y)[0] + exported.call(x, y)[1] * 3

    found = gn.grad(loss, argnums=(1, 2))(ours, X, 2.0)
    expected = jax.jit(jax.grad(lambda *a: loss(theirs, *a), argnums=(0, 1)))(X, 2.0)
    for mine, other in zip(found, expected, strict=True):
        assert_close(mine, other)
    second = gn.jacrev(gn.grad(lambda x: loss(ours, x, 2.0)))(X)
    assert_close(second, np.diag(-2 * np.sin(X)))
    third = gn.grad(gn.grad(gn.grad(lambda y: loss(ours, X, y**2))))(1.5)
    assert_close(third, jax.jit(jax.grad(jax.grad(jax.grad(lambda y: loss(theirs, X, y**2)))))(1.5))


def test_vjp_is_an_exported_function_too(revived) -> None:
    def fun(np_like, i, x):
        return i + 1, x * i, x**2

    ours, theirs = exported_pair(fun, np.int32(3), X)
    ours = revived(ours, 2)
    while True:
        derivative, other = ours.vjp(), theirs.vjp()
        found = [(a.shape, a.dtype) for a in (*derivative.in_avals, *derivative.out_avals)]
        assert found == [(a.shape, a.dtype) for a in (*other.in_avals, *other.out_avals)]
        assert str(derivative.in_tree) == str(other.in_tree)
        given = [
            np.zeros(a.shape, a.dtype)
            if a.dtype == gn.float0
            else np.full(a.shape, 2 + i).astype(a.dtype)
            for i, a in enumerate(derivative.in_avals)
        ]
        for mine, expected in zip(derivative.call(*given), other.call(*given), strict=True):
            assert mine.dtype == expected.dtype
            if mine.dtype != gn.float0:
                assert_close(mine, expected)
        if len(given) > 5:
            break
        ours, theirs = derivative, other


def test_orders_that_were_not_serialized_are_missing_by_name() -> None:
    def order(n):
        return export.deserialize(export.export(gn.jit(gnp.sin))(1.0).serialize(n))

    assert not order(0).has_vjp()
    with pytest.raises(ValueError, match="has no VJP"):
        order(0).vjp()
    with pytest.raises(ValueError, match="has no VJP"):
        gn.grad(order(0).call)(1.0)
    assert order(1).vjp().has_vjp() is False
    assert_close(gn.grad(order(1).call)(1.0), np.cos(np.float32(1)))
    with pytest.raises(ValueError, match="has no VJP"):
        gn.grad(gn.grad(order(1).call))(1.0)


def test_a_function_without_inexact_results_has_zero_cotangents() -> None:
    ours, theirs = exported_pair(lambda np_like, x: np_like.argmax(x), X)
    given = X, np.zeros((), gn.float0)
    (found,), (expected,) = ours.vjp().call(*given), theirs.vjp().call(*given)
    assert_close(found, expected)


def test_forward_mode_is_refused_as_by_jax() -> None:
    ours, theirs = exported_pair(lambda np_like, x: np_like.sin(x), X)
    for package, exported in (gn, ours), (jax, theirs):
        with pytest.raises(TypeError, match="custom_vjp"):
            package.jvp(exported.call, (X,), (X,))


def test_vmap(revived) -> None:
    """JAX has no batching rule for these calls; here the program is known."""
    ours = revived(export.export(gn.jit(lambda x: gnp.sum(x**2)))(X), 1)
    rows = np.stack([X, 2 * X])
    assert_close(gn.vmap(ours.call)(rows), np.sum(rows**2, 1))
    assert_close(gn.vmap(gn.grad(ours.call))(rows), 2 * rows)


@pytest.mark.parametrize(
    "args",
    [
        (np.ones(4, np.float32), 2.0),
        (np.ones((3, 1), np.float32), 2.0),
        (np.ones(3, np.int32), 2.0),
        (X, 2),
        (X,),
        (X, 2.0, 3.0),
        ([X], 2.0),
    ],
    ids=str,
)
def test_other_arguments_are_refused_as_by_jax(args) -> None:
    for exported in exported_pair(scaled, X, 2.0):
        with pytest.raises(ValueError):
            exported.call(*args)


def test_messages_name_the_argument() -> None:
    exported = export.export(gn.jit(lambda d, *, k: d["a"][1] * k))({"a": (X, X)}, k=X)
    with pytest.raises(ValueError, match=r"args\[0\]\['a'\]\[1\].*has shape \(2,\).*\(3,\)"):
        exported.call({"a": (X, X[:2])}, k=X)
    with pytest.raises(ValueError, match=r"kwargs\['k'\].*has dtype int32.*float32"):
        exported.call({"a": (X, X)}, k=np.ones(3, np.int32))
    with pytest.raises(ValueError, match=r"structure.*tuple of 2.*tuple of 1"):
        exported.call({"a": (X,)}, k=X)


def test_only_jitted_functions_are_exported() -> None:
    for module in export, jax_export:
        with pytest.raises(ValueError, match="jit"):
            module.export(lambda x: x)(X)
    with pytest.raises(TypeError, match="sequence"):
        export.export(gn.jit(gnp.sin), platforms="cpu")


def test_platforms() -> None:
    exported = export.export(gn.jit(gnp.sin), platforms=["tpu"])(X)
    theirs = jax_export.export(jax.jit(jnp.sin), platforms=["tpu"])(X)
    for one in exported, theirs:
        assert one.platforms == ("tpu",)
        with pytest.raises(ValueError, match=r"tpu.*cpu"):
            one.call(X)
    unchecked = export.export(
        gn.jit(gnp.sin), platforms=["tpu"], disabled_checks=[export.DisabledSafetyCheck.platform()]
    )(X)
    assert_close(unchecked.call(X), np.sin(X))
    assert_close(export.deserialize(unchecked.serialize()).call(X), np.sin(X))
    both = export.export(gn.jit(gnp.sin), platforms=["tpu", "cpu"])(X)
    assert_close(export.deserialize(both.serialize()).call(X), np.sin(X))


def test_a_program_that_asks_for_its_platform_is_traced_for_each() -> None:
    def fun(x):
        return gn.lax.platform_dependent(x, cpu=lambda y: y + 1, default=lambda y: y * 2)

    exported = export.export(gn.jit(fun), platforms=["tpu", "cpu"])(X)
    assert len(set(exported.programs.values())) == 2
    again = export.deserialize(exported.serialize())
    assert_close(again.call(X), X + 1)
    assert "multiply" in again.mlir_module()


def test_python_functions_are_refused_by_name() -> None:
    def called(x):
        return x

    def fun(x):
        return gn.pure_callback(called, x, x)

    with pytest.raises(NotImplementedError, match=r"export of fun: it calls Python"):
        export.export(gn.jit(fun))(X)
    with pytest.raises(NotImplementedError):
        jax_export.export(jax.jit(lambda x: jax.pure_callback(called, x, x)))(X)


def test_arrays_that_are_closed_over_travel_along() -> None:
    weights = gnp.arange(12.0).reshape(3, 4)
    exported = export.export(gn.jit(lambda x: x @ weights))(X)
    assert [w.shape for w in exported.closed_over] == [(3, 4)]
    again = export.deserialize(exported.serialize(1))
    assert_close(again.call(X), X @ np.asarray(weights))
    assert_close(gn.grad(lambda x: again.call(x)[0])(X), np.asarray(weights)[:, 0])


Point = collections.namedtuple("Point", "x y")
Named = collections.namedtuple("Named", "a")


class Scaled:
    def __init__(self, value, factor: int) -> None:
        self.value, self.factor = value, factor


gn.tree_util.register_pytree_node(
    Scaled, lambda s: ((s.value,), s.factor), lambda factor, parts: Scaled(*parts, factor)
)


def test_structures_need_a_name_for_their_classes() -> None:
    def fun(s, p):
        return Point(s.value * s.factor, p.x), collections.OrderedDict(b=p.y, a=[s])

    exported = export.export(gn.jit(fun))(Scaled(X, 2), Point(X, X))
    with pytest.raises(ValueError, match=r"Scaled.*register_pytree_node_serialization"):
        exported.serialize()
    export.register_pytree_node_serialization(
        Scaled,
        serialized_name="tests.Scaled",
        serialize_auxdata=lambda factor: str(factor).encode(),
        deserialize_auxdata=int,
    )
    with pytest.raises(ValueError, match=r"Point.*register_namedtuple_serialization"):
        exported.serialize()
    export.register_namedtuple_serialization(Point, serialized_name="tests.export.Point")
    again = export.deserialize(exported.serialize())
    point, rest = again.call(Scaled(X, 2), Point(X, -X))
    assert isinstance(point, Point)
    assert_close(point.x, 2 * X)
    assert_close(rest["b"], -X)
    assert (type(rest), rest["a"][0].factor) == (collections.OrderedDict, 2)
    with pytest.raises(ValueError, match="structure"):
        again.call(Scaled(X, 3), Point(X, -X))


def test_wrong_registrations_are_refused() -> None:
    class Other:
        pass

    given = {"serialize_auxdata": bytes, "deserialize_auxdata": bytes}
    with pytest.raises(ValueError, match="not registered as a pytree node"):
        export.register_pytree_node_serialization(Other, serialized_name="tests.o", **given)
    with pytest.raises(ValueError, match="not a named tuple class"):
        export.register_namedtuple_serialization(Other, serialized_name="tests.o")
    export.register_namedtuple_serialization(Named, serialized_name="tests.Named")
    with pytest.raises(ValueError, match="already registered for serialization"):
        export.register_namedtuple_serialization(Named, serialized_name="tests.Named2")
    with pytest.raises(ValueError, match="already taken"):
        export.register_namedtuple_serialization(
            collections.namedtuple("Third", "a"), serialized_name="tests.Named"
        )


def test_random_keys_are_arguments_and_results() -> None:
    exported = export.export(gn.jit(lambda k: (gn.random.split(k)[0], gn.random.normal(k))))(
        gn.random.key(0)
    )
    again = export.deserialize(exported.serialize())
    key, value = again.call(gn.random.key(7))
    assert isinstance(key, type(gn.random.key(0)))
    assert_close(value, jax.random.normal(jax.random.key(7)))


def test_other_bytes_are_refused() -> None:
    data = export.export(gn.jit(gnp.sin))(X).serialize()
    with pytest.raises(gnomon_runtime.NotAnArtifactError):
        export.deserialize(b"abc")
    with pytest.raises(gnomon_runtime.ArtifactDamagedError):
        export.deserialize(data[:-1])
    data[-1] ^= 1
    with pytest.raises(gnomon_runtime.ArtifactDamagedError):
        export.deserialize(data)


def test_the_page_runs(tmp_path, monkeypatch) -> None:
    """The programs of docs/export.md."""
    page = Path(__file__).parents[2] / "docs" / "export.md"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page.read_text()):
        run_python(block.source, page.name, block.line, names)
    x, w = names["x"], np.ones(4, np.float32)
    assert_close(names["gradient"], gn.grad(names["loss"])(w, x))
    assert np.asarray(names["value"]) < names["loss"](w, x)


def test_another_process_gets_the_same_bits(tmp_path) -> None:
    def fun(x):
        return gnp.tanh(x @ x.T) / 3

    x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)
    exported = export.export(gn.jit(fun))(x)
    (tmp_path / "f").write_bytes(exported.serialize(1))
    program = (
        "import sys, numpy as np, gnomon as gn; from gnomon import export\n"
        "f = export.deserialize(open(sys.argv[1], 'rb').read())\n"
        "x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)\n"
        "print(np.asarray(f.call(x)).tobytes().hex())\n"
        "print(np.asarray(gn.grad(lambda x: f.call(x).sum())(x)).tobytes().hex())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "f")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found[0] == np.asarray(exported.call(x)).tobytes().hex()
    assert found[1] == np.asarray(gn.grad(lambda x: exported.call(x).sum())(x)).tobytes().hex()
