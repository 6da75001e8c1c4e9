"""Indexing and updates: any NumPy index, eager and traced, with JAX as the definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._diagnostics.errors import NonConcreteBooleanIndexError
from gnomon.numpy._index_parsing import parse
from gnomon.numpy._indexing import getitem, take_by_index
from tests.frontend.oracle import outcomes_in_one_program
from tests.frontend.staged import op_names, run_staged, trace
from tests.sample import order
from tests.tolerance import assert_each_near

Index = tuple[Any, ...]

# JAX compiles every example, so a commit has a few, and the next one has others.
other_examples = seed(int.from_bytes(order(__name__), "big"))


@pytest.fixture(autouse=True)
def jax_may_warn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="jax")
        yield


# ----------------------------------------------------------------------------------- random indices


@st.composite
def slices(draw: Any, size: int) -> slice:
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = draw(st.sampled_from([None, 1, -1, 2, -2, 3]))
    return slice(draw(bound), draw(bound), step)


@st.composite
def integer_arrays(draw: Any, size: int, shape: tuple[int, ...], inside: bool) -> np.ndarray:
    count = int(np.prod(shape))
    low, high = (-size, size - 1) if inside else (-size - 2, size + 1)
    dtype = draw(st.sampled_from([np.int32, np.int8, np.uint8, np.uint32]))
    if np.dtype(dtype).kind == "u":
        low = 0
    values = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return np.array(values, dtype).reshape(shape)


KINDS = ("new", "ellipsis", "slice", "slice", "int", "array", "array", "mask", "flag")


@st.composite
def cases(draw: Any, inside: bool = False, booleans: bool = False) -> tuple[tuple[int, ...], Index]:
    """A shape, and an index for it, which may be out of bounds unless ``inside``."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    batch = draw(st.sampled_from([(), (2,), (3,), (2, 3)]))
    index: list[Any] = []
    at = 0
    for _ in range(draw(st.integers(0, len(shape) + 2))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "new":
            index.append(None)
        elif kind == "ellipsis" and not any(i is Ellipsis for i in index):
            index.append(Ellipsis)
            at += draw(st.integers(0, len(shape) - at))
        elif kind == "flag" and booleans:
            index.append(draw(st.booleans()))
        elif at == len(shape) or kind in ("ellipsis", "flag"):
            continue
        elif kind == "slice":
            index.append(draw(slices(shape[at])))
            at += 1
        elif kind == "int":
            low, high = (-shape[at], shape[at] - 1) if inside else (-shape[at] - 2, shape[at] + 1)
            index.append(draw(st.integers(low, high)))
            at += 1
        elif kind == "array":
            part = draw(st.sampled_from([batch, (1,) * len(batch), batch[-1:], ()]))
            index.append(draw(integer_arrays(shape[at], part, inside)))
            at += 1
        elif kind == "mask":
            rank = draw(st.integers(1, len(shape) - at))
            count = int(np.prod(shape[at : at + rank]))
            flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
            index.append(np.array(flags).reshape(shape[at : at + rank]))
            at += rank
    if any(i is Ellipsis for i in index):
        # The indices after the ellipsis were drawn for the last dimensions, which they index.
        index += [slice(None)] * (len(shape) - at)
    return shape, tuple(index)


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def dynamic(index: Index) -> tuple[list[np.ndarray], Callable[[Any], Index]]:
    """The integers and integer arrays of an index, and the index with others in their place."""

    def traced(i: Any) -> bool:
        is_array = isinstance(i, np.ndarray) and i.dtype != bool
        return is_array or (isinstance(i, int) and not isinstance(i, bool))

    values = [np.asarray(i, np.int32) if isinstance(i, int) else i for i in index if traced(i)]

    def rebuilt(given: Any) -> Index:
        left = iter(given)
        return tuple(next(left) if traced(i) else i for i in index)

    return values, rebuilt


def outcome(function: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except (IndexError, TypeError, ValueError) as error:
            kinds = (IndexError, TypeError, ValueError)
            return next(kind for kind in kinds if isinstance(error, kind))


def assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, type):
        assert actual is expected
        return
    assert isinstance(actual, Array)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    # Whole numbers are exact; products and quotients of up to two dozen of them are rounded.
    assert_each_near(actual, expected, 16)


# -------------------------------------------------------------------------------------------- reads


@given(cases(inside=True, booleans=True))
@settings(max_examples=300)
def test_reads_in_bounds_are_those_of_numpy(case: Any) -> None:
    shape, index = case
    value = numbers(shape)
    try:
        expected = np.asarray(value[index])
    except IndexError:
        # Index arrays that do not broadcast: NumPy's IndexError is JAX's ValueError.
        with pytest.raises(ValueError, match="broadcast"):
            getitem(wrap(value), index)
        return
    for convert in (wrap, lambda i: i):
        mixed = tuple(convert(i) if isinstance(i, np.ndarray) else i for i in index)
        assert_same(getitem(wrap(value), mixed), expected)
    assert_same(take_by_index(wrap(value), index), expected)


MODES = st.sampled_from([None, "clip", "fill", "promise_in_bounds"])


@other_examples
@given(cases(), MODES, st.booleans())
@settings(max_examples=20)
def test_reads_are_those_of_jax(case: Any, mode: Any, wraps: bool) -> None:
    shape, index = case
    value = numbers(shape)
    arguments = {"mode": mode, "wrap_negative_indices": wraps}
    expected = outcome(lambda: jnp.asarray(value).at[index].get(**arguments))
    assert_same(outcome(lambda: wrap(value).at[index].get(**arguments)), expected)
    values, rebuilt = dynamic(index)
    read = lambda x, *given: x.at[rebuilt(given)].get(**arguments)  # noqa: E731
    assert_same(outcome(run_staged, read, value, *values), expected)


@other_examples
@given(cases(), st.integers(0, 2))
@settings(max_examples=10)
def test_reads_are_mapped(case: Any, which: int) -> None:
    shape, index = case
    values, rebuilt = dynamic(index)
    read = lambda x, *given: x[rebuilt(given)]  # noqa: E731
    value = numbers(shape)
    if isinstance(outcome(lambda: read(jnp.asarray(value), *values)), type):
        return
    axes = (0 if which != 1 else None, *[0 if which != 2 else None for _ in values])
    if all(axis is None for axis in axes):
        return
    given_ = [
        np.stack([a, np.flip(a)]) if axis == 0 else a
        for a, axis in zip((value, *values), axes, strict=True)
    ]
    expected = jax.vmap(read, axes)(*map(jnp.asarray, given_))
    assert_same(gn.vmap(read, axes)(*map(wrap, given_)), expected)


# If an index out of bounds breaks a promise, JAX's gradient depends on its way of reading.
DIFFERENTIATED = st.one_of(
    st.tuples(cases(inside=True), st.sampled_from([None, "promise_in_bounds"])),
    st.tuples(cases(), st.sampled_from(["clip", "fill"])),
)


@other_examples
@given(DIFFERENTIATED)
@settings(max_examples=10)
def test_reads_are_differentiated(drawn: Any) -> None:
    (shape, index), mode = drawn
    value = numbers(shape)
    read = lambda x: x.at[index].get(mode=mode)  # noqa: E731
    expected = outcome(lambda: read(jnp.asarray(value)))
    if isinstance(expected, type):
        return
    weights = numbers(expected.shape)
    ours = gn.grad(lambda x: (read(x) * wrap(weights)).sum())
    theirs = jax.grad(lambda x: (read(x) * weights).sum())
    assert_same(ours(wrap(value)), theirs(jnp.asarray(value)))


@pytest.mark.parametrize(
    ("index", "expected"),
    [(7, 4.0), (-7, 0.0), ([7, -7, -1], [4.0, 0.0, 4.0])],
)
def test_reads_out_of_bounds_give_the_nearest_element(index: Any, expected: Any) -> None:
    x = wrap(np.arange(5, dtype=np.float32))
    i = np.asarray(index)
    assert getitem(x, i).tolist() == expected
    assert run_staged(lambda x, i: x[i], x, i).tolist() == expected


def test_indices_of_every_integer_type_keep_their_values() -> None:
    x = wrap(np.arange(300, dtype=np.float32))
    for index in (
        np.array([-1, 100], np.int8),
        np.array([255, 0], np.uint8),
        np.array([2**32 - 1, 7], np.uint32),
        np.array([-300, -301], np.int16),
        np.array([3, 7]).astype(ml_dtypes.uint4),
    ):
        expected = [min(max(i + 300 if i < 0 else i, 0), 299) for i in index.tolist()]
        assert getitem(x, index).tolist() == expected, index.dtype
        assert run_staged(lambda x, i: x[i], x, index).tolist() == expected, index.dtype
    with gn.enable_x64():
        for wide in (np.array([2**40, -(2**40)]), np.array([2**63, 5], np.uint64)):
            expected = [min(max(i, 0), 299) for i in wide.tolist()]
            assert getitem(x, wide).tolist() == expected
            assert run_staged(lambda x, i: x[i], x, wide).tolist() == expected


@pytest.mark.parametrize("index", [2**63 + 5, -(2**63) - 2, 2**64 + 5])
def test_updates_beyond_64_bits_are_dropped(index) -> None:
    x = gnp.arange(5.0)
    indices = [index, np.array(index, np.uint64)] if 0 <= index < 2**64 else [index]
    for i in indices:
        for updated in (x.at[i].set(7.0), x.at[i].add(7), x.at[i].multiply(2.0)):
            assert updated.tolist() == [0, 1, 2, 3, 4]
        assert gn.jit(lambda x, i=i: x.at[i].set(7.0))(x).tolist() == [0, 1, 2, 3, 4]
        assert x.at[i].set(7.0, mode="clip").tolist() == (
            [7, 1, 2, 3, 4] if i < 0 else [0, 1, 2, 3, 7]
        )


def test_fill_values() -> None:
    cases = [
        (np.ones(2).astype(dtype), index, fill)
        for dtype in ("float32", "int8", "uint16", "bool", "complex64", "bfloat16")
        for index in (5, np.array([0, 5]))
        for fill in (None, 1)
    ]

    def read(x: Any, index: Any, fill: Any) -> Any:
        return x.at[index].get(mode="fill", fill_value=fill)

    wanted = outcomes_in_one_program(
        [(read, (jnp.asarray(value), *how), {}) for value, *how in cases]
    )
    for (value, *how), (expected, error) in zip(cases, wanted, strict=True):
        assert error is None, how
        got = read(wrap(value), *how)
        assert got.dtype == value.dtype
        # nan is equal to nan in complex128, not in bfloat16.
        actual, filled = (np.asarray(a).astype(np.complex128) for a in (got, expected))
        np.testing.assert_array_equal(actual, filled)
    with pytest.raises(ValueError, match="must be a scalar"):
        wrap(np.ones(2)).at[5].get(mode="fill", fill_value=np.ones(2))
    with pytest.raises(ValueError, match="'sideways'"):
        wrap(np.ones(2)).at[5].get(mode="sideways")


def test_empty_dimensions() -> None:
    x = wrap(np.zeros((0, 3), np.float32))
    assert x[:, 1].shape == (0,)
    assert x[:, np.array([0, 7])].shape == (0, 2)
    assert x[np.array([], int)].shape == (0, 3)
    assert x[np.zeros(0, bool)].shape == (0, 3)
    for index in (0, np.array(0), np.array([0])):
        with pytest.raises(IndexError, match="axis 0 with size 0"):
            x[index]
        with pytest.raises(IndexError, match="axis 0 with size 0"):
            run_staged(lambda x, i: x[i], x, index)


def test_weak_types_are_kept() -> None:
    x = wrap(np.arange(4, dtype=np.float32), True)
    indices = (1, slice(1, 3), np.array([1, 2]), np.array([True, False, True, False]), None)
    for index in indices:
        assert x[index].weak_type
        assert x.at[index].set(1).weak_type
        assert run_staged(lambda x: x[index], x).weak_type  # noqa: B023
        assert run_staged(lambda x: x.at[index].add(1), x).weak_type  # noqa: B023
    assert run_staged(lambda x, i: x[i], x, np.array(1)).weak_type
    assert not x.astype(np.float32).at[0].set(1).weak_type


def test_small_parts_do_not_keep_large_arrays_in_memory() -> None:
    large = np.zeros((1000, 100), np.float32)
    small = wrap(large)[3]
    assert not np.shares_memory(np.asarray(small), large)
    assert np.shares_memory(np.asarray(wrap(large)[:500]), large)


# --------------------------------------------------------------------------------- emitted programs


def emitted(function: Any, *arguments: Any) -> list[str]:
    return op_names(trace(function, *arguments))


def test_static_indices_become_slices() -> None:
    x = np.ones((4, 5), np.float32)
    assert emitted(lambda x: x[...], x) == []
    assert emitted(lambda x: x[1:3], x) == ["slice"]
    assert emitted(lambda x: x[-1], x) == ["slice", "reshape"]
    assert emitted(lambda x: x[3, ::-2], x) == ["rev", "slice", "reshape"]
    # An index beyond the end is clamped only when the op runs, so that checkify sees it.
    assert emitted(lambda x: x[9], x) == ["dynamic_slice", "reshape"]
    assert emitted(lambda x: x[:, None], x) == ["reshape"]
    assert emitted(lambda x: x[np.array(1)], x) == ["slice", "reshape"]
    assert emitted(lambda x: x.at[1].set(2.0), x).count("dynamic_update_slice") == 1
    assert "scatter" not in emitted(lambda x: x.at[1:3, 2].add(2.0), x)
    assert emitted(lambda x: x.at[:].add(x), x) == ["add"]


def test_traced_scalars_become_one_dynamic_slice() -> None:
    x, i = np.ones((4, 5), np.float32), np.array(1, np.int32)
    for read in (lambda x, i: x[i], lambda x, i: x[1:, i], lambda x, i: x[i, ::2]):
        names = emitted(read, x, i)
        assert "gather" not in names and names.count("dynamic_slice") == 1


def test_index_arrays_become_one_gather_along_their_dimensions() -> None:
    traced = trace(lambda x, i: x[:, i], np.ones((4, 5), np.float32), np.array([1, 2], np.int32))
    names = op_names(traced)
    assert names.count("gather") == 1 and "transpose" not in names
    assert emitted(lambda x: x[np.array([0, -1])], np.ones(3)) == ["gather"]


def test_concrete_masks_become_gathers_of_their_size() -> None:
    mask = np.array([True, False, True])
    out = run_staged(lambda x: x[mask], np.arange(3.0))
    assert out.tolist() == [0, 2]


def test_the_plan_of_numpys_own_examples() -> None:
    shape = (10, 20, 30, 40, 50)
    i = np.zeros((2, 3, 4), int)
    assert parse((slice(None), i), shape).result_shape == (10, 2, 3, 4, 30, 40, 50)
    assert parse((slice(None), i, i), shape).result_shape == (10, 2, 3, 4, 40, 50)
    assert parse((slice(None), i, slice(None), i), shape).result_shape == (2, 3, 4, 10, 30, 50)
    assert parse((0, slice(None), i), shape).result_shape == (2, 3, 4, 20, 40, 50)
    assert parse((0, i), shape).result_shape == (2, 3, 4, 30, 40, 50)
    assert parse((0, ..., i), (3, 4)).result_shape == (2, 3, 4)


# ------------------------------------------------------------------------------------------ updates

OPERATIONS = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max", "apply")


@st.composite
def updates(draw: Any, inside: bool = False) -> Any:
    shape, index = draw(cases(inside=inside))
    operation = draw(st.sampled_from(OPERATIONS))
    dtype = draw(st.sampled_from([np.float32, np.int32]))
    if operation in ("divide", "power"):
        dtype = np.float32
    arguments: dict[str, Any] = {"mode": draw(st.sampled_from([None, "drop", "fill", "clip"]))}
    arguments["wrap_negative_indices"] = inside or draw(st.booleans())
    value = numbers(shape, dtype)
    part = outcome(lambda: take_by_index(wrap(value), index))
    part_shape = () if isinstance(part, type) else part.shape
    new_shape = part_shape[draw(st.integers(0, len(part_shape))) :]
    new_shape = tuple(1 if draw(st.booleans()) else n for n in new_shape)
    # If several values are written to one position, it is undefined which remains.
    repeats = operation == "set" and any(isinstance(i, np.ndarray) for i in index)
    new = np.full(new_shape, 77, dtype) if repeats else numbers(new_shape, dtype) % 8 + 1
    return value, index, operation, new.astype(dtype), arguments


def updated(x: Any, index: Index, operation: str, new: Any, arguments: dict[str, Any]) -> Any:
    reference = x.at[index]
    if operation == "apply":
        return reference.apply(lambda v: v * 2 + 1, **arguments)
    return getattr(reference, operation)(new, **arguments)


@other_examples
@given(updates())
@settings(max_examples=20)
def test_updates_are_those_of_jax(case: Any) -> None:
    value, index, operation, new, arguments = case
    expected = outcome(updated, jnp.asarray(value), index, operation, jnp.asarray(new), arguments)
    before = value.copy()
    assert_same(outcome(updated, wrap(value), index, operation, wrap(new), arguments), expected)
    np.testing.assert_array_equal(value, before)

    values, rebuilt = dynamic(index)
    staged = lambda x, y, *given: updated(x, rebuilt(given), operation, y, arguments)  # noqa: E731
    assert_same(outcome(run_staged, staged, value, new, *values), expected)


@given(updates())
@settings(max_examples=20)
def test_updates_are_mapped(case: Any) -> None:
    value, index, operation, new, arguments = case
    values, rebuilt = dynamic(index)
    update = lambda x, y, *given: updated(x, rebuilt(given), operation, y, arguments)  # noqa: E731
    if isinstance(outcome(update, wrap(value), wrap(new), *map(wrap, values)), type):
        return
    stacked = [np.stack([a, np.flip(a)]) for a in (value, new, *values)]
    rows = [
        np.asarray(update(*(wrap(s[i]) for s in stacked)))  # one after the other
        for i in range(2)
    ]
    assert_each_near(gn.vmap(update)(*map(wrap, stacked)), np.stack(rows), 16)


# JAX's gradients of max and min ignore the mode for indices out of bounds.
@other_examples
@given(updates(inside=True))
@settings(max_examples=8)
def test_updates_are_differentiated(case: Any) -> None:
    value, index, operation, new, arguments = case
    value, new = value.astype(np.float32), new.astype(np.float32)
    if operation == "apply" or isinstance(outcome(take_by_index, wrap(value), index), type):
        return
    weights = numbers(value.shape)
    theirs = jax.grad(
        lambda x, y: (updated(x, index, operation, y, arguments) * weights).sum(), (0, 1)
    )
    try:
        expected = theirs(jnp.asarray(value), jnp.asarray(new))
    except NotImplementedError:
        return  # JAX has no gradient of a product where indices may repeat.
    ours = gn.grad(
        lambda x, y: (updated(x, index, operation, y, arguments) * wrap(weights)).sum(), (0, 1)
    )
    for a, b in zip(ours(wrap(value), wrap(new)), expected, strict=True):
        assert_each_near(a, b, 32)  # sums of up to two dozen terms of one sign


def test_gradient_of_products() -> None:
    i = np.array([1, 2])
    x, y = wrap(np.array([2.0, 3, 5], np.float32)), wrap(np.array([7.0, 11], np.float32))
    product = lambda x, y, **promise: x.at[i].multiply(y, **promise).sum()  # noqa: E731
    dx, dy = gn.grad(lambda x, y: product(x, y, unique_indices=True), (0, 1))(x, y)
    assert (dx.tolist(), dy.tolist()) == ([1, 7, 11], [3, 5])
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        gn.grad(product, (0, 1))(x, y)


@pytest.mark.parametrize(
    ("mode", "by_array", "by_value"), [("clip", [1, 1, 0], 1), ("drop", [1, 1, 1], 0)]
)
def test_gradients_of_updates_out_of_bounds(mode: str, by_array: list[int], by_value: int) -> None:
    x, y = wrap(np.array([2.0, 3, 5], np.float32)), wrap(np.float32(7))
    for index in (9, np.array([9])):
        for update in ("set", "max"):
            function = lambda x, y: getattr(x.at[index], update)(y, mode=mode).sum()  # noqa: B023, E731
            dx, dy = gn.grad(function, (0, 1))(x, y)
            assert (dx.tolist(), dy.tolist()) == (by_array, by_value)


def test_writes_out_of_bounds_are_dropped() -> None:
    x = wrap(np.arange(4, dtype=np.float32))
    for index in (4, -5, np.array([4, 9, -5])):
        assert x.at[index].set(9).tolist() == [0, 1, 2, 3]
        assert run_staged(lambda x, i: x.at[i].add(9), x, np.asarray(index)).tolist() == x.tolist()
    assert x.at[7].set(9, mode="clip").tolist() == [0, 1, 2, 9]
    assert x.at[-1].set(9, wrap_negative_indices=False).tolist() == [0, 1, 2, 3]


def test_repeated_indices_all_count() -> None:
    i = np.array([0, 1, 1, 1])
    x = wrap(np.array([1, 2, 3], np.int32))
    assert x.at[i].add(10).tolist() == [11, 32, 3]
    assert x.at[i].subtract(1).tolist() == [0, -1, 3]
    assert x.at[i].multiply(2).tolist() == [2, 16, 3]
    assert x.at[i].apply(lambda v: v * v).tolist() == [1, 256, 3]
    staged = run_staged(lambda x, i: x.at[i].apply(lambda v: v * v), x, i)
    assert staged.tolist() == [1, 256, 3]


CONVERSIONS = [
    ("int32", 1.5, "set"),
    ("int32", 1.75, "add"),
    ("uint8", -1, "set"),
    ("uint8", 300, "add"),
    ("float32", 3, "multiply"),
    ("int8", True, "set"),
    ("bool", True, "max"),
    ("float32", np.float16(2.5), "min"),
    ("complex64", 2.0, "add"),
    ("bfloat16", 1.1, "set"),
    ("int32", 3, "divide"),
    ("int32", 2, "power"),
]


def test_values_are_converted_as_in_jax() -> None:
    cases = [
        (np.array([1, 0, 1]).astype(dtype), index, operation, new, {})
        for dtype, new, operation in CONVERSIONS
        for index in (0, np.array([0, 2]))
    ]
    wanted = outcomes_in_one_program(
        [(updated, (jnp.asarray(value), *how), {}) for value, *how in cases]
    )
    for (value, *how), (expected, error) in zip(cases, wanted, strict=True):
        assert error is None, how
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = updated(wrap(value), *how)
            staged = run_staged(lambda x: updated(x, *how), value)  # noqa: B023
        for result in (got, staged):
            assert result.dtype == expected.dtype, how
            np.testing.assert_array_equal(result, expected, err_msg=str(how))


def test_values_that_lose_something_warn() -> None:
    with pytest.warns(FutureWarning, match="float32 do not fit into the array of dtype int32"):
        wrap(np.arange(3, dtype=np.int32)).at[0].set(1.5)
    # A quotient of integers is a float, and only the result is truncated; a power has the dtype.
    out = wrap(np.array([5, 4], np.int32)).at[0].divide(2.5)
    assert out.tolist() == [2, 4] and out.dtype == np.float32
    out = wrap(np.array([4, 4], np.int8)).at[0].power(np.float32(1.5))
    assert out.tolist() == [8, 4] and out.dtype == np.int8
    out = wrap(np.array([4, 4], np.float16)).at[0].divide(np.float32(8))
    assert out.tolist() == [0.5, 4] and out.dtype == np.float16
    assert wrap(np.array([True, False])).at[1].power(True).tolist() == [1, 0]


def test_lists_of_values() -> None:
    x = wrap(np.zeros((2, 2), np.float32))
    assert x.at[0].set([1, 2]).tolist() == [[1, 2], [0, 0]]
    one = wrap(np.float32(1))
    assert x.at[0].set([one, 2.0]).tolist() == [[1, 2], [0, 0]]
    assert run_staged(lambda x, y: x.at[0].set([y, 3]), x, 2.0).tolist() == [[2, 3], [0, 0]]
    assert x[([1, 0], [0, 1])].tolist() == [0, 0]
    assert run_staged(lambda x, i: x[[i, 0],], np.arange(3.0), np.array(2)).tolist() == [2, 0]


def test_the_operand_is_its_own_update() -> None:
    x = np.arange(6, dtype=np.float32)
    i, j = np.array([0, 2, 4]), np.array([1, 3, 5])
    expected = x.copy()
    expected[i] += x[j]
    assert wrap(x).at[i].add(wrap(x)[j]).tolist() == expected.tolist()
    assert wrap(x).at[1:].set(wrap(x)[:-1]).tolist() == [0, 0, 1, 2, 3, 4]
    assert wrap(x).at[::-1].set(wrap(x)).tolist() == x[::-1].tolist()
    assert np.array_equal(x, np.arange(6))


# ------------------------------------------------------------------------------------------- errors

X = wrap(np.arange(5, dtype=np.float32))

BAD_INDICES = [
    (1.0, TypeError, "integer or boolean type, got float64"),
    (np.float32(1), TypeError, "integer or boolean type, got float32"),
    (wrap(np.ones(2, np.float32)), TypeError, "integer or boolean type, got float32"),
    ([1, 2], TypeError, r"x\[gnomon\.numpy\.array\(index\)\]"),
    ([], TypeError, r"x\[gnomon\.numpy\.array\(index\)\]"),
    ([1, slice(None)], TypeError, r"x\[tuple\(index\)\]"),
    ("a", TypeError, "strings"),
    ((1, 2), IndexError, "has 1 dimensions, but 2 were indexed"),
    ((..., ...), IndexError, "one ellipsis"),
    ({}, IndexError, "of type dict"),
    (np.array([True, False]), IndexError, r"shape \(2,\).* shape \(5,\)"),
    (np.zeros((2, 2), bool), IndexError, "but 2 were indexed"),
    (slice(None, None, 0), ValueError, "step cannot be zero"),
    (slice(1.5, None), TypeError, "integer|index"),
]


@pytest.mark.parametrize(("index", "error", "message"), BAD_INDICES, ids=lambda p: str(p)[:30])
def test_bad_indices(index: Any, error: type[Exception], message: str) -> None:
    theirs = jnp.asarray(index) if isinstance(index, Array) else index
    with pytest.raises(error):
        jnp.arange(5.0)[theirs]
    for use in (lambda: X[index], lambda: X.at[index].set(1), lambda: X.at[index].get(mode="fill")):
        with pytest.raises(error, match=message):
            use()
        with pytest.raises(error, match=message):
            run_staged(lambda x: (use(), x)[1], X)  # noqa: B023


def test_index_arrays_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"got \(2,\), \(3,\)"):
        wrap(np.ones((5, 5)))[np.zeros(2, int), np.zeros(3, int)]


BAD_VALUES = [
    (np.ones(2), ValueError, r"shape \(2,\) do not broadcast to shape \(3,\)"),
    (np.ones((1, 3)), ValueError, r"shape \(1, 3\) do not broadcast to shape \(3,\)"),
    (None, TypeError, "expected an array"),
    ("x", TypeError, "expected an array"),
]


@pytest.mark.parametrize(("values", "error", "message"), BAD_VALUES, ids=lambda p: str(p)[:30])
def test_bad_values(values: Any, error: type[Exception], message: str) -> None:
    for index in (slice(1, 4), np.array([0, 1, 2])):
        with pytest.raises(error, match=message):
            X.at[index].set(values)
        with pytest.raises(error, match=message):
            run_staged(lambda x: x.at[index].add(values), X)  # noqa: B023


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError, match="does not fit in int32"):
        wrap(np.arange(3, dtype=np.int32)).at[0].add(2**40)


def test_booleans_are_not_added() -> None:
    x = wrap(np.array([True, False]))
    for index in (0, np.array([0])):
        with pytest.raises(TypeError, match="use max for logical or"):
            x.at[index].add(True)


def test_traced_masks_are_refused_with_advice() -> None:
    for function in (
        lambda x: x[x > 1],
        lambda x: x.at[x > 1].set(0.0),
        lambda x: x[x[0] > 1],
    ):
        with pytest.raises(NonConcreteBooleanIndexError, match=r"numpy\.where\(mask"):
            run_staged(function, X)


def test_traced_bounds_of_slices_are_refused_with_advice() -> None:
    with pytest.raises(IndexError, match=r"lax\.dynamic_slice"):
        run_staged(lambda x, i: x[1:i], X, np.array(3))


def test_masks_and_bounds_are_known_under_grad() -> None:
    x = wrap(np.array([1.0, -2.0, 3.0], np.float32))
    assert gn.grad(lambda x: (x[x > 0] * 2).sum())(x).tolist() == [2, 0, 2]
    assert gn.grad(lambda x: x.at[x < 0].set(0.0).sum())(x).tolist() == [1, 0, 1]


def test_at_is_indexed_not_called() -> None:
    with pytest.raises(TypeError, match=r"x\.at\[index\]\.set"):
        X.at(0)
    assert repr(X.at[0]).startswith("IndexUpdateRef(Array([0.")


def test_apply_needs_an_elementwise_function() -> None:
    with pytest.raises(TypeError, match="elementwise"):
        X.at[0].apply(lambda v: v[:2])


# ----------------------------------------------------------------------------------------- compiled


def test_compiled() -> None:
    x = gnp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    i, j = gnp.asarray(np.array([2, 7, -1])), gnp.asarray(np.array(-2))

    def function(x: Any, i: Any, j: Any) -> Any:
        return (
            x[i],
            x[j, ::-2],
            x.at[i, 1].add(10.0),
            x.at[j].set(x[0]),
            x.at[1, 1:3].multiply(2.0),
            x.at[:, i].get(mode="fill", fill_value=-1),
            lax.sub(x, x)[:, None, j],
        )

    for compiled, expected in zip(gn.jit(function)(x, i, j), function(x, i, j), strict=True):
        np.testing.assert_array_equal(np.asarray(compiled), np.asarray(expected))


def test_one_hot_reads_zeros_and_writes_nothing_out_of_bounds() -> None:
    """Reads give zeros, as products with one-hot vectors do; in JAX only in ``take_along_axis``."""
    x = wrap(np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3))
    columns = wrap(np.array([[1, 9, -1]], np.int32))
    theirs = jnp.take_along_axis(np.asarray(x), np.asarray(columns), 1, mode="one_hot")
    assert gnp.take_along_axis(x, columns, 1, mode="one_hot").tolist() == theirs.tolist()
    mode = gn.lax.GatherScatterMode.ONE_HOT
    assert gn.lax.GatherScatterMode.from_any("one_hot") is mode
    assert x.at[wrap(np.array([1, 5]))].get(mode=mode).tolist() == [[4.0, 5.0, 6.0], [0.0] * 3]
    assert x.at[wrap(np.array([1, 5]))].set(0, mode=mode).tolist() == [[1.0, 2.0, 3.0], [0.0] * 3]
    with pytest.raises(ValueError, match="one_hot"):
        gnp.take(x, columns, mode="one_hot")


def test_wrapping_is_not_a_mode_of_indexing() -> None:
    """As in JAX, only `take` supports this mode."""
    x = wrap(np.arange(3.0, dtype=np.float32))
    places = wrap(np.array([3, -4]))
    for array in (x, jnp.asarray(np.asarray(x))):
        with pytest.raises(ValueError, match="wrap"):
            array.at[np.asarray(places)].get(mode="wrap")
    assert gnp.take(x, places, mode="wrap").tolist() == [0.0, 2.0]


INDICES_OF_SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "tril": lambda m, x: m.tril_indices(3),
    "triu": lambda m, x: m.triu_indices(3, 1, 4),
    "tril of an array": lambda m, x: m.tril_indices_from(x, -1),
    "triu of an array": lambda m, x: m.triu_indices_from(x),
    "mask": lambda m, x: m.mask_indices(3, m.triu, 1),
    "mask of a size": lambda m, x: m.mask_indices(3, m.tril, size=7),
    "diagonal": lambda m, x: m.diag_indices(3),
    "grid": lambda m, x: m.ix_(np.array([0, 2]), np.array([1])),
}


def test_indices_of_shapes_are_known_while_tracing() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    read = {
        name: lambda x, indices=indices: x[indices(gnp, x)]
        for name, indices in INDICES_OF_SHAPES.items()
    }

    @gn.jit
    def program(x: Any) -> Any:
        return {
            name: (f(x), gn.grad(lambda x: gnp.sum(f(x) ** 2))(x))  # noqa: B023
            for name, f in read.items()
        }

    for name, (found, doubled) in program(x).items():
        index = tuple(np.asarray(i) for i in INDICES_OF_SHAPES[name](jnp, jnp.asarray(x)))
        np.testing.assert_array_equal(found, x[index], err_msg=name)
        touched = np.zeros_like(x)
        np.add.at(touched, index, 1)
        np.testing.assert_array_equal(doubled, 2 * x * touched, err_msg=name)


def test_the_indices_of_a_traced_mask_need_a_size() -> None:
    with pytest.raises(TypeError, match="nonzero elements must be known: pass size"):
        gn.jit(lambda k: gnp.mask_indices(3, gnp.triu, k))(1)


def test_extrema_at_indices_have_jax_derivatives_at_nan() -> None:
    x = np.array([np.nan, 1, 2, np.nan, 5, np.nan], np.float32)  # no update reaches the last
    y = np.array([1, 1, np.nan, np.nan], np.float32)

    def gradients(m: Any, grad: Any, x: Any, y: Any) -> Any:
        def f(x: Any, y: Any) -> Any:
            at = x.at[m.array([0, 1, 2, 3])]
            return m.stack([at.max(y).sum(), at.min(y).sum()])

        return [grad(lambda *a: f(*a)[i], argnums=(0, 1))(x, y) for i in range(2)]  # noqa: B023

    expected = jax.jit(lambda x, y: gradients(jnp, jax.grad, x, y))(x, y)

    def ours(x: Any, y: Any) -> Any:
        return gradients(gnp, gn.grad, x, y)

    for found in (ours(gnp.asarray(x), gnp.asarray(y)), gn.jit(ours)(x, y)):
        for a, b in zip(gn.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: x.at[i].add(1.0),
        lambda x, i: gnp.take(x, i, axis=0),
        lambda x, i: x[gnp.argsort(x[:, 0])],
        lambda x, i: lax.fori_loop(0, 2, lambda k, c: c[i], x),
    ],
)
def test_bounds_of_indices_are_literals(read: Callable[[Any, Any], Any]) -> None:
    x, i = np.ones((40, 3), np.float32), np.arange(40, dtype=np.int32)
    memory = gn.jit(read).lower(x, i).compile().memory_analysis()
    assert memory.argument_size_in_bytes <= x.nbytes + i.nbytes
