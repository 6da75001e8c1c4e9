"""The examples of JAX's documentation on export and polymorphic shapes, compared with JAX.

Each program is a function of the library; its results, or the kind of its error, must be JAX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import gnomon as gn
import gnomon_runtime
from tests.frontend.many_devices import eight_devices, jax_outcomes, outcome
from tests.frontend.oracle import kind
from tests.tolerance import assert_each_near


# JAX serializes with a package that it does not need otherwise.
def carried(lib: Any, exported: Any, order: int = 0) -> Any:
    """An exported function after serialization; JAX's is returned unchanged."""
    return lib.export.deserialize(exported.serialize(order)) if lib is gn else exported


I32, F32 = np.dtype(np.int32), np.dtype(np.float32)
INCONCLUSIVE = "is inconclusive|Cannot divide evenly"
PROGRAMS: dict[str, Callable[[Any], Any]] = {}
ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {}


def runs(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


def fails(message: str) -> Callable[[Any], Any]:
    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        ERRORS[function.__name__] = function, message
        return function

    return register


def exported(lib: Any, function: Any, *types: Any, constraints: Any = (), **kwargs: Any) -> Any:
    """A function exported for types such as ``("a, 4", np.int32)``, of one scope."""
    scope = lib.export.SymbolicScope(tuple(constraints))
    specs = [
        lib.ShapeDtypeStruct(lib.export.symbolic_shape(t[0], scope=scope), t[1])
        if isinstance(t, tuple)
        else t
        for t in types
    ]
    return lib.export.export(lib.jit(function), **kwargs)(*specs)


def types(avals: Any) -> Any:
    return [(str(a.shape), str(a.dtype), a.weak_type) for a in avals]


# ------------------------------------------------------------------------------------------- export


@runs
def a_function_is_carried_to_another_process(lib):
    def doubled_square(x):
        return 2 * x * x

    first = lib.export.export(lib.jit(doubled_square))(lib.ShapeDtypeStruct((), F32))
    again = carried(lib, first)

    def around(y):
        return 3.0 * again.call(y * 4.0)

    assert "@main" in first.mlir_module()
    return first.fun_name, types(first.in_avals), types(again.in_avals), around(1.0)


@runs
def three_orders_of_derivatives_are_carried_along(lib):
    call = carried(lib, lib.export.export(lib.jit(lambda x: 7 * x * x * x))(1.0), 3).call
    found = [call(0.1)]
    for _ in range(3):
        call = lib.grad(call)
        found.append(call(0.1))
    return found


@runs
def checks_have_names(lib):
    check = lib.export.DisabledSafetyCheck
    custom = check.custom_call("my_target")
    return [
        lib.export.default_export_platform(),
        custom.is_custom_call(),
        check.platform().is_custom_call(),
        custom == check.custom_call("my_target"),
    ]


@fails("tpu")
def a_program_for_another_platform_is_not_called(lib):
    lib.export.export(lib.jit(lib.lax.cos), platforms=["tpu"])(1.0).call(1.0)


@runs
def platforms_can_be_several_or_unchecked(lib):
    unchecked = lib.export.DisabledSafetyCheck.platform()
    unsafe = lib.export.export(
        lib.jit(lib.lax.cos), platforms=["tpu"], disabled_checks=[unchecked]
    )(1.0)
    several = lib.export.export(lib.jit(lib.lax.cos), platforms=["tpu", "cpu", "cuda"])(1.0)
    return several.platforms, unsafe.platforms, unsafe.call(1.0), several.call(1.0)


@runs
def several_platforms_cost_little(lib):
    def repeated(x):
        for _ in range(100):
            x = lib.numpy.cos(x)
        return x

    one = lib.export.export(lib.jit(repeated))(1.0)
    three = lib.export.export(lib.jit(repeated), platforms=["cpu", "tpu", "cuda"])(1.0)
    size = len(one.mlir_module_serialized)
    return len(three.mlir_module_serialized) < 1.1 * size


@runs
def the_calling_convention_has_a_version(lib):
    module = lib.export
    found = module.export(lib.jit(lib.numpy.cos))(1.0).calling_convention_version
    lowest = module.minimum_supported_calling_convention_version
    return lowest <= found <= module.maximum_supported_calling_convention_version


# ------------------------------------------------------------------------------- polymorphic shapes


@runs
def one_export_serves_many_shapes(lib):
    found = exported(lib, lambda x: lib.numpy.concatenate([x, x], axis=1), ("a, b", I32))
    result = found.call(np.ones((3, 4), I32))
    return types(found.in_avals), types(found.out_avals), result


@runs
def types_of_arguments_come_from_examples(lib):
    x, y = np.ones((3, 1), I32), np.ones((3, 4), I32)
    specs = lib.export.symbolic_args_specs((x, y), "a, ...")
    found = lib.export.export(lib.jit(lambda x, y: x + y))(*specs)
    return types(found.in_avals), types(found.out_avals), found.call(x[:2], y[:2])


@runs
def specifications_are_prefixes_of_arguments(lib):
    images, other = {"a": np.ones((2, 3, 4), F32), "b": np.ones((2, 5, 6), F32)}, np.ones(7, I32)
    specs = lib.export.symbolic_args_specs((images, other), ("(b, _, _)", None))
    pair = lib.export.symbolic_args_specs(
        (np.ones((2, 3), F32), np.ones(2, F32)), ("(batch, ...)", "(batch,)")
    )
    return [str(leaf.shape) for leaf in lib.tree.leaves((specs, pair))]


@runs
def a_flattened_array_has_the_product_as_size(lib):
    def flat(x):
        return lib.numpy.reshape(x, (x.shape[0] * x.shape[1],))

    found = exported(lib, flat, ("b, 4", I32))
    return types(found.out_avals), found.call(np.arange(12, dtype=I32).reshape(3, 4))


@runs
def a_size_becomes_an_array(lib):
    one = exported(lib, lambda x: lib.numpy.array(x.shape[0]) + x, ("b", I32))
    all_ = exported(lib, lambda x: lib.numpy.array(x.shape), ("b, 3", I32))
    return one.call(np.arange(3, dtype=I32)), all_.call(np.ones((2, 3), I32))


@fails(".")
def an_array_is_no_size(lib):
    exported(lib, lambda x: x.reshape(lib.numpy.array(x.shape[0]) + 2), ("b", I32))


@runs
def sizes_meet_floats_and_arrays(lib):
    def function(x):
        size = x.shape[0]
        return 5.0 + size, size - np.arange(5, dtype=I32), x + size + lib.numpy.sin(size)

    found = exported(lib, function, ("b", I32))
    return types(found.out_avals), found.call(np.ones(3, I32))


@runs
def a_mean_divides_by_a_size(lib):
    found = exported(lib, lambda x: lib.numpy.sum(x, axis=0) / x.shape[0], ("b, c", I32))
    return found.call(np.arange(12, dtype=I32).reshape(3, 4))


@fails(".")
def a_size_and_a_number_do_not_broadcast(lib):
    exported(lib, lambda x, y: x + y, ("v", I32), ("4", I32))


@fails(".")
def a_product_needs_equal_sizes(lib):
    exported(lib, lambda x: lib.numpy.matmul(x, x), ("v, 4", I32))


@runs
def a_square_matrix_has_one_variable(lib):
    found = exported(lib, lambda x: lib.numpy.matmul(x, x), ("v, v", I32))
    return found.call(np.arange(9, dtype=I32).reshape(3, 3))


@runs
def comparisons_that_bounds_decide(lib):
    a, b = lib.export.symbolic_shape("a, b")
    return [
        b + b == 2 * b,
        b + 1 == b,
        a == b,
        b == 1,
        a != b,
        b >= 1,
        b >= 0,
        2 * a + b >= 3,
        a + 2 >= 3,
        a * 2 >= 1,
        a // 4 >= 0,
        a**2 >= 1,
        b in [a, b],
    ]


@fails("inconclusive")
def a_comparison_that_sizes_decide(lib):
    exported(lib, lambda x: 0 if x.shape[0] + 1 >= x.shape[1] else 1, ("a, b", I32))


@runs
def an_implicit_constraint_makes_a_slice_possible(lib):
    found = exported(lib, lambda x: x[0:16], ("b + 15", I32))
    return types(found.out_avals), found.call(np.arange(20, dtype=I32))


@runs
def explicit_constraints_make_a_slice_possible(lib):
    found = exported(
        lib, lambda x: x[: x.shape[1], :16], ("a, b", I32), constraints=["a >= b", "b >= 16"]
    )
    return types(found.out_avals), found.call(np.ones((20, 17), I32))


@fails("symbolic shape constraint|Input shapes do not match")
def explicit_constraints_are_checked_when_called(lib):
    found = exported(lib, lambda x: x + 1, ("a, b", I32), constraints=["a >= b"])
    found.call(np.ones((2, 3), I32))


@runs
def constraints_add_up(lib):
    a, b = lib.export.symbolic_shape("a, b", constraints=["a >= 16", "b >= 8"])
    c, d = lib.export.symbolic_shape("c, d", constraints=["c >= d + 8"])
    e, _ = lib.export.symbolic_shape("e, f", constraints=["floordiv(e, f) == 4"])
    return a + 2 * b >= 32, c - d >= 8, str(e // _)


@runs
def a_remainder_fits_with_a_constraint(lib):
    def function(x):
        return lib.lax.slice_in_dim(x, 0, x.shape[0] % 3)

    found = exported(lib, function, ("b", I32), constraints=["b >= mod(b, 3)"])
    return types(found.out_avals), found.call(np.arange(5, dtype=I32))


@fails("[Ss]cope")
def scopes_do_not_mix(lib):
    (one,) = lib.export.symbolic_shape("a,")
    (other,) = lib.export.symbolic_shape("a,", constraints=("a >= 8",))
    one + other


@runs
def scopes_are_shared(lib):
    (a,) = lib.export.symbolic_shape("a,", constraints=("a >= 8",))
    (b,) = lib.export.symbolic_shape("b,", scope=a.scope)
    scope = lib.export.SymbolicScope()
    (c,) = lib.export.symbolic_shape("c", scope=scope)
    (d,) = lib.export.symbolic_shape("d", scope=scope)
    return str(a + b), str(c + d)


def largest(lib, k, x):
    return lib.lax.top_k(x, k)[0]


TABLE = np.arange(40, dtype=I32).reshape(4, 10)


@runs
def a_static_number_of_largest(lib):
    jitted = lib.jit(lambda k, x: largest(lib, k, x), static_argnums=0)
    found = lib.export.export(jitted)(3, TABLE)
    return types(found.in_avals), types(found.out_avals), found.call(TABLE)


@fails("k")
def a_variable_needs_an_argument(lib):
    (k,) = lib.export.symbolic_shape("k", constraints=["k <= 10"])
    jitted = lib.jit(lambda k, x: largest(lib, k, x), static_argnums=0)
    lib.export.export(jitted)(k, TABLE)


@runs
def an_empty_array_brings_a_variable(lib):
    def function(dimensions, x):
        return largest(lib, dimensions.shape[1], x)

    found = exported(lib, function, ("0, k", I32), TABLE, constraints=["k <= 10"])
    result = found.call(np.zeros((0, 3), I32), TABLE)
    return types(found.in_avals), types(found.out_avals), result


@fails("Cannot solve for values of dimension variables")
def a_square_is_not_solved(lib):
    (a,) = lib.export.symbolic_shape("a")
    lib.export.export(lib.jit(lambda x: x.shape[0]))(lib.ShapeDtypeStruct((a * a,), I32))


@fails("Division had remainder 1")
def an_odd_size_does_not_fit(lib):
    exported(lib, lambda x: x, ("b, b, 2*d", I32)).call(np.ones((3, 3, 5), I32))


@runs
def divisions_that_have_no_remainder(lib):
    a, b = lib.export.symbolic_shape("a, b")
    return str((a * b + a) // (b + 1)), str((6 * a + 4) % 3), str((8 * a + 4) // 2)


@fails(INCONCLUSIVE)
def an_unknown_size_is_not_halved(lib):
    exported(lib, lambda x: x.reshape((2, -1)), ("b", I32))


@runs
def known_factors_are_halved(lib):
    def halves(x):
        return x.reshape((2, -1))

    one, other = exported(lib, halves, ("4*b", I32)), exported(lib, halves, ("b, 5, 6", I32))
    return types(one.out_avals), types(other.out_avals), one.call(np.arange(8, dtype=I32))


# ---------------------------------------------------------------------------------------- the tests


def plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return x if isinstance(x, (str, bool, int, type(None))) else np.asarray(x)


def assert_alike(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_alike(mine, other)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert_each_near(ours, theirs, 8, scale=max(1.0, float(np.max(np.abs(theirs)))))
    else:
        assert ours == theirs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_jax(name) -> None:
    assert_alike(plain(PROGRAMS[name](gn)), plain(PROGRAMS[name](jax)))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_jax(name) -> None:
    program, message = ERRORS[name]
    kinds = []
    for lib in gn, jax:
        with pytest.raises(Exception, match=message) as caught:
            program(lib)
        kinds.append(kind(caught.value))
        inconclusive = type(caught.value).__name__ == "InconclusiveDimensionOperation"
        assert inconclusive == (message in ("inconclusive", INCONCLUSIVE))
    if name == "a_variable_needs_an_argument":
        assert kinds[0] is ValueError  # as for other variables; JAX has its own class
    else:
        assert kinds[0] is kinds[1] or "inconclusive" in message


def test_a_remainder_is_known_to_fit() -> None:
    """JAX requires a constraint for this slice."""
    found = exported(gn, lambda x: gn.lax.slice_in_dim(x, 0, x.shape[0] % 3), ("b", I32))
    assert found.call(np.ones(5, I32)).shape == (2,)


# --------------------------------------------------------------------------------- several devices

_ROWS = """
from {name} import export
def turned(x):
    return x.transpose()
def rows(mesh, *spec):
    return lib.ShapeDtypeStruct((32,), np.int32, sharding=NamedSharding(mesh, P(*spec)))
def hlo(exp, outputs=False):
    # JAX no longer keeps shardings of this form; here they are derived from its named shardings.
    if lib.__name__ == "gnomon":
        return str(exp.out_shardings_hlo if outputs else exp.in_shardings_hlo)
    named = exp._out_named_shardings if outputs else exp._in_named_shardings
    avals = exp.out_avals if outputs else exp.in_avals
    return str(tuple(s and s._to_xla_hlo_sharding(a.ndim) for s, a in zip(named, avals)))
def carried(exp):
    return export.deserialize(exp.serialize(1)) if lib.__name__ == "gnomon" else exp
def shards(x):
    return [[s.device.id, str(s.index), np.asarray(s.data)] for s in x.addressable_shards]
grid = np.array(lib.devices())
x = xnp.arange(32, dtype=np.int32)
"""

DEVICES = {
    "meshes with and without devices": """
exp = export.export(lib.jit(turned))(rows(AbstractMesh((4,), ("a",)), "a"))
mesh = Mesh(grid[:4], ("a",))
exp2 = export.export(lib.jit(turned))(rows(mesh, "a"))
assert hlo(exp) == hlo(exp2)
res1 = exp.call(lib.device_put(x, NamedSharding(mesh, P("a"))))
other = Mesh(grid[2:6].reshape(2, 2), ("b", "c"))
res2 = exp.call(lib.device_put(x, NamedSharding(other, P("b"))))
out = [exp.nr_devices, hlo(exp), hlo(exp2, True),
       shards(res1), shards(res2)]
""",
    "another number of devices": """
export.export(lib.jit(turned))(rows(Mesh(grid, ("a",)), "a")).call(x)
""",
    "arguments are spread as the function expects": """
exp = export.export(lib.jit(turned))(rows(Mesh(grid, ("a",)), "a"))
exp = carried(exp)
calling = Mesh(grid[::-1], ("a",))
(sharding,) = exp.in_shardings_jax(calling)
res = exp.call(lib.device_put(x, sharding))
derivative = exp.vjp()
out = [exp.nr_devices, shards(res), hlo(derivative, True), derivative.nr_devices]
""",
    "a function of one device is spread": """
exp = export.export(lib.jit(lambda x: xnp.cos(x)))(xnp.arange(4.0))
given = lib.device_put(xnp.arange(4.0), NamedSharding(Mesh(grid[:4], ("b",)), P("b")))
res = exp.call(given)
out = [exp.nr_devices, hlo(exp), [[s.device.id, str(s.index)]
       for s in res.addressable_shards]]
""",
    "shardings requested of jit": """
mesh = Mesh(grid.reshape(4, 2), ("a", "b"))
def on(*spec):
    return NamedSharding(mesh, P(*spec))
found = []
for spec in [("a",), ("b",), (("a", "b"),), (("b", "a"),), ("a", "b"), ("b", "a"), (None, "a"), ()]:
    f = lib.jit(lambda x: x + 1, in_shardings=on(*spec), out_shardings=on(*spec))
    exp = export.export(f)(lib.ShapeDtypeStruct((8, 8), np.float32))
    found.append([hlo(exp), hlo(exp, True), exp.nr_devices])
out = found
""",
    "results are spread as jit is asked": """
mesh = Mesh(grid[:4], ("a",))
f = lib.jit(turned, out_shardings=NamedSharding(mesh, P(None)))
exp = export.export(f)(rows(mesh, "a"))
res = exp.call(lib.device_put(x, NamedSharding(Mesh(grid[4:], ("z",)), P("z"))))
out = [hlo(exp, True), shards(res)]
""",
}


@pytest.fixture(scope="module")
def by_jax() -> Any:
    return jax_outcomes({name: _ROWS.format(name="jax") + DEVICES[name] for name in DEVICES})


@pytest.mark.parametrize("name", DEVICES)
def test_devices_are_those_of_the_call(name, by_jax) -> None:
    with eight_devices():
        found = outcome("gnomon", _ROWS.format(name="gnomon") + DEVICES[name])
    expected = by_jax[name]
    assert found[0] == expected[0], (found, expected)
    if found[0] == "error":
        assert found[1][0] == expected[1][0]
        assert "8 devices" in found[1][1] and "8 devices" in expected[1][1]
    else:
        assert found[1] == expected[1]


def test_a_calling_mesh_may_have_other_axes() -> None:
    """JAX requires the axes of the export."""
    with eight_devices() as devices:
        rows = gn.NamedSharding(gn.sharding.AbstractMesh((4,), ("a",)), gn.P("a"))
        exported = gn.export.export(gn.jit(lambda x: 2 * x))(
            gn.ShapeDtypeStruct((8,), F32, sharding=rows)
        )
        grid = np.array(devices[:4]).reshape(2, 2)
        (sharding,) = exported.in_shardings_jax(gn.sharding.Mesh(grid, ("b", "c")))
        assert sharding.device_set == set(devices[:4])
        assert sharding.shard_shape((8,)) == (2,)
        with pytest.raises(ValueError, match="exported for 4 devices"):
            exported.in_shardings_jax(gn.sharding.Mesh(np.array(devices), ("a",)))


def test_files_run_on_one_device(tmp_path) -> None:
    mesh = gn.sharding.AbstractMesh((4,), ("a",))
    type_ = gn.ShapeDtypeStruct((8,), F32, sharding=gn.NamedSharding(mesh, gn.P("a")))
    exported = gn.export.export(gn.jit(lambda x: 2 * x))(type_)
    path = tmp_path / "four.gnm"
    with pytest.raises(NotImplementedError, match=r"f runs on 4 devices.*targets=\[\]"):
        gn.export.save(path, {"f": exported})
    gn.export.save(path, {"f": exported}, targets=[])
    with pytest.raises(gnomon_runtime.ArtifactIncompatibleError, match="4 devices"):
        gn.load(path)(np.ones(8, F32))
    (again,) = gn.export.load_exported(path).values()
    assert again.in_shardings == exported.in_shardings
