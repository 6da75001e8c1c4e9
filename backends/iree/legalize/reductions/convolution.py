"""Convolutions as products of matrices.

IREE 3.13 computes convolutions correctly unless their padding is negative, but slowly unless the
features are last: 3x3 kernels from 64 to 64 channels over 8 images of 32x32 take 60 ms with the
features last and 650 ms with the features first, and the gradient of the weights 600 to 1200 ms.
The forms below take 15 to 30 ms, as JAX does (12 to 30 ms).

- Taps over the kernel: one slice of the input for each position in the kernel; the slices,
  concatenated, are multiplied by the weights as one matrix. If the slices would need too much
  memory, the result is a sum of one product per slice. From one channel to one, it is a sum of
  slices times scalars: for an image of 1024 x 1024 and a kernel of 5 x 5 this takes 6 ns per
  element, where a matrix of 25 columns takes 290.
- Taps over the result: one product of a slice and the whole kernel for each position in the result,
  if the result has fewer positions than the kernel, as in the gradient of the weights. Where the
  library is used (`library_products`), one product of the transposed, concatenated slices.
- Grouped, but not depthwise, convolutions on a GPU are always products, since IREE's own give zeros
  in most positions.
- Depthwise and small convolutions, and those with very many taps, stay convolutions. Depthwise ones
  get their features last, which takes 0.5 ms instead of 50.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.blas import has_products
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.iree.legalize.library_products import windows_pay
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import Instance, params_of
from gnomon.dialects.convolution.geometry import Geometry
from gnomon.dialects.emit import broadcast_scalar, convert, full, ops, reshape, transpose, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import surely_at_most
from gnomon.dialects.types import TensorType, short_name, type_of
from gnomon.dialects.window_folds import dilated

__all__ = ["LEGALIZATIONS"]

Dims = tuple[int, ...]

# With more slices than this, compiling takes longer than running saves.
_MAX_TAPS = 64
# Fewer multiplications than this are not worth a rewrite.
_MIN_PRODUCTS = 1 << 15
# A convolution adds its products one by one; this many at most, if there are not many taps.
_FEW_TERMS = 256
# The most bytes that the concatenated slices may take.
_MAX_BYTES = 1 << 27


def _convolution(inst: Instance, takes_groups: bool, by_library: bool) -> Sequence[ir.Value]:
    dtype = inst.type.dtype
    if accumulator(dtype) != dtype:
        # Sums in 16 bits would lose terms that are small compared with the partial sum.
        wide = _in_dtype(inst, accumulator(dtype), takes_groups, by_library)
        return [rounded(wide, dtype)]
    g = Geometry.of(inst.params)
    lhs, rhs = inst.operands
    lhs_type, rhs_type = inst.operand_types
    if 0 in (inst.type.size, lhs_type.size, rhs_type.size):
        return [zeros(inst.type)]
    _, depth, *kernel = (rhs_type.shape[d] for d in g.rhs_spec)
    out = tuple(inst.type.shape[d] for d in g.out_spec[2:])
    taps = min(math.prod(kernel), math.prod(out))
    depthwise = g.feature_group_count > 1 and depth == 1
    terms = depth * math.prod(kernel)
    few = terms <= _FEW_TERMS and surely_at_most(inst.type.size * terms, _MIN_PRODUCTS - 1)
    grouped = g.feature_group_count > 1 or g.batch_group_count > 1
    if depthwise or ((few or taps > _MAX_TAPS) and (takes_groups or not grouped)):
        return [_native(inst, g, lhs, rhs, features_last=depthwise)]
    precision = inst.params["precision"]
    x = _spread(lhs, g.lhs_spec[2:], g.padding, g.lhs_dilation)
    product = _Product(g, tuple(kernel), out, inst.type.dtype, precision)
    if math.prod(out) < math.prod(kernel):
        if by_library and _library_pays(product, lhs_type, rhs_type):
            return [_windows_of_result(product, x, rhs)]
        return [_taps_of_result(product, x, rhs)]
    rhs, product.is_reversed = _unreversed(rhs, g.rhs_spec[2:])
    return [_taps_of_kernel(product, x, rhs)]


def _unreversed(kernel: ir.Value, dims: Sequence[int]) -> tuple[ir.Value, bool]:
    """A kernel without a reversal of its positions, and whether it had one.

    Gradients by the input have one. The positions can be taken in reverse order instead.
    """
    owner = kernel.owner
    if isinstance(owner, ir.Block) or owner.name != "gnomon.rev":
        return kernel, False
    if sorted(params_of(owner.operation)["dims"]) != sorted(dims):
        return kernel, False
    return owner.operation.operands[0], True


def _in_dtype(inst: Instance, dtype: np.dtype, takes_groups: bool, by_library: bool) -> ir.Value:
    """The convolution with operands and result of another dtype."""
    operands = [convert(x, dtype) for x in inst.operands]
    types = [t.with_dtype(dtype) for t in inst.operand_types]
    params = {**inst.params, "dtype": dtype}
    other = Instance(inst.op, operands, types, [inst.type.with_dtype(dtype)], params)
    (result,) = _convolution(other, takes_groups, by_library)
    return result


def _native(
    inst: Instance, g: Geometry, lhs: ir.Value, rhs: ir.Value, features_last: bool
) -> ir.Value:
    """A convolution without negative padding, and without elements after a single window."""
    params = dict(inst.params)
    dtype = inst.type.dtype
    lhs, rhs = convert(lhs, dtype), convert(rhs, dtype)
    padding = params["padding"] = _without_unused_padding(inst, g)
    if any(low < 0 or high < 0 for low, high in padding):
        lhs = _spread(lhs, g.lhs_spec[2:], padding, g.lhs_dilation)
        params |= {"padding": ((0, 0),) * g.rank, "lhs_dilation": (1,) * g.rank}
    if not features_last:
        return ops.conv_general_dilated(lhs, rhs, **params)
    space = tuple(range(1, 1 + g.rank))
    last = 1 + g.rank
    lhs = transpose(lhs, (g.lhs_spec[0], *g.lhs_spec[2:], g.lhs_spec[1]))
    rhs = transpose(rhs, (*g.rhs_spec[2:], g.rhs_spec[1], g.rhs_spec[0]))
    params["lhs_spec"] = params["out_spec"] = (0, last, *space)
    params["rhs_spec"] = (last, last - 1, *range(g.rank))
    result = ops.conv_general_dilated(lhs, rhs, **params)
    return transpose(result, _inverse((g.out_spec[0], *g.out_spec[2:], g.out_spec[1])))


def _without_unused_padding(inst: Instance, g: Geometry) -> tuple[tuple[int, int], ...]:
    """The padding, cut so that no input is left after the window in dimensions with one window.

    IREE drops such a dimension, assuming that the input is as large as the window: it rejects a
    kernel of 3 on 4 elements with a stride of 2.
    """
    lhs, rhs = (t.shape for t in inst.operand_types)
    padding = []
    for i, (low, high) in enumerate(g.padding):
        if inst.type.shape[g.out_spec[2 + i]] == 1:
            size = dilated(lhs[g.lhs_spec[2 + i]], g.lhs_dilation[i])
            high = dilated(rhs[g.rhs_spec[2 + i]], g.rhs_dilation[i]) - size - low
        padding.append((low, high))
    return tuple(padding)


def _inverse(order: Sequence[int]) -> Dims:
    return tuple(list(order).index(d) for d in range(len(order)))


def _spread(
    x: ir.Value, dims: Sequence[int], padding: Sequence[tuple[int, int]], dilation: Dims
) -> ir.Value:
    """``x`` dilated and padded with zeros; negative padding is cut off first."""
    type_ = type_of(x)
    start, limit = [0] * type_.rank, list(type_.shape)
    low, high, interior = [0] * type_.rank, [0] * type_.rank, [0] * type_.rank
    total = list(type_.shape)
    for d, (before, after), step in zip(dims, padding, dilation, strict=True):
        size = type_.shape[d]
        total[d] = (size - 1) * step + 1 + before + after
        start[d] = min(size, max(0, -(before // step)))
        limit[d] = max(start[d], min(size, (total[d] - 1 - before) // step + 1))
        kept = limit[d] - start[d]
        low[d] = before + start[d] * step
        high[d] = total[d] - low[d] - ((kept - 1) * step + 1)
        interior[d] = step - 1
    if any(first >= last for first, last in zip(start, limit, strict=True)):
        return zeros(type_.with_shape(tuple(total)))
    if tuple(limit) != type_.shape or any(start):
        x = ops.slice(x, start=tuple(start), limit=tuple(limit), strides=(1,) * type_.rank)
    if not (any(low) or any(high) or any(interior)):
        return x
    zero = full(TensorType((), type_.dtype), 0)
    return ops.pad(x, zero, low=tuple(low), high=tuple(high), interior=tuple(interior))


class _Product:
    """The steps that both forms share: splitting groups, multiplying, ordering the result."""

    def __init__(
        self, g: Geometry, kernel: Dims, out: Dims, dtype: np.dtype, precision: str
    ) -> None:
        self.geometry, self.kernel, self.out = g, kernel, out
        self.dtype, self.precision = dtype, precision
        # Whether the kernel has the positions in reverse order.
        self.is_reversed = False

    def grouped(self, x: ir.Value, spec: Dims, split: int) -> ir.Value:
        """``x`` in the order of ``spec``, with dimension ``split`` split and its groups first."""
        shape = tuple(type_of(x).shape[d] for d in spec)
        groups = self.geometry.groups
        x = transpose(x, spec)
        if groups == 1:
            return reshape(x, (1, *shape))
        parted = (*shape[:split], groups, shape[split] // groups, *shape[split + 1 :])
        order = [split, *(d for d in range(len(parted)) if d != split)]
        return transpose(reshape(x, parted), order)

    def multiply(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The product of ``[group, rows, depth]`` and ``[group, depth, columns]``."""
        params = {"dtype": self.dtype, "precision": self.precision}
        (groups, rows, depth), columns = type_of(a).shape, type_of(b).shape[2]
        if groups > 1:
            return ops.dot_general(
                a, b, lhs_contracting=(2,), rhs_contracting=(1,), lhs_batch=(0,), rhs_batch=(0,),
                **params,
            )  # fmt: skip
        product = ops.dot_general(
            reshape(a, (rows, depth)), reshape(b, (depth, columns)),
            lhs_contracting=(1,), rhs_contracting=(0,), lhs_batch=(), rhs_batch=(), **params,
        )  # fmt: skip
        return reshape(product, (1, rows, columns))

    def ordered(self, result: ir.Value, order: Sequence[str]) -> ir.Value:
        """A result in the convolution's order, from dimensions named as "group", "batch", "0"."""
        wanted = ["batch", "group", "feature", *map(str, range(self.geometry.rank))]
        moved = transpose(result, [list(order).index(name) for name in wanted])
        batch, groups, features, *space = type_of(moved).shape
        canonical = reshape(moved, (batch, groups * features, *space))
        return transpose(canonical, _inverse(self.geometry.out_spec))

    def slice(
        self, x: ir.Value, dims: Sequence[int], start: Dims, count: Dims, step: Dims
    ) -> ir.Value:
        """``count`` elements from ``start`` on, in steps of ``step``, along some dimensions."""
        shape = type_of(x).shape
        starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
        for d, at, size, stride in zip(dims, start, count, step, strict=True):
            starts[d], limits[d], strides[d] = at, at + (size - 1) * stride + 1, stride
        return ops.slice(x, start=tuple(starts), limit=tuple(limits), strides=tuple(strides))


def _taps_of_kernel(product: _Product, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    g, rank = product.geometry, product.geometry.rank
    x = product.grouped(
        lhs,
        (g.lhs_spec[0], *g.lhs_spec[2:], g.lhs_spec[1]),
        0 if g.batch_group_count > 1 else rank + 1,
    )  # [group, batch, *space, feature]
    w = product.grouped(rhs, (*g.rhs_spec[2:], g.rhs_spec[1], g.rhs_spec[0]), rank + 1)
    groups, batch, *_, depth = type_of(x).shape
    features = type_of(w).shape[-1]
    rows, places = batch * math.prod(product.out), math.prod(product.kernel)
    space = range(2, 2 + rank)
    taps = []
    orders = (range(n)[:: -1 if product.is_reversed else 1] for n in product.kernel)
    for place in itertools.product(*orders):
        start = tuple(k * step for k, step in zip(place, g.rhs_dilation, strict=True))
        tap = product.slice(x, space, start, product.out, g.window_strides)
        taps.append(reshape(tap, (groups, rows, depth)))
    w = reshape(w, (groups, places, depth, features))
    if groups * depth * features == 1 and all(step == 1 for step in g.window_strides):
        result = _sum_of_multiples(taps, reshape(w, (places,)))
    elif places == 1 or surely_at_most(
        groups * rows * places * depth * type_of(x).dtype.itemsize, _MAX_BYTES
    ):
        columns = taps[0] if places == 1 else ops.concatenate(*taps, dimension=2)
        result = product.multiply(columns, reshape(w, (groups, places * depth, features)))
    else:
        result = _sum_of_products(product, taps, w)
    result = reshape(result, (groups, batch, *product.out, features))
    return product.ordered(result, ("group", "batch", *map(str, range(rank)), "feature"))


def _sum_of_products(product: _Product, taps: Sequence[ir.Value], w: ir.Value) -> ir.Value:
    groups, _, depth, features = type_of(w).shape
    total: ir.Value | None = None
    for k, tap in enumerate(taps):
        weights = product.slice(w, (1,), (k,), (1,), (1,))
        term = product.multiply(tap, reshape(weights, (groups, depth, features)))
        total = term if total is None else ops.add(total, term)
    return total


def _sum_of_multiples(taps: Sequence[ir.Value], w: ir.Value) -> ir.Value:
    """The sum of the taps of one channel times scalars: one kernel, which reads shifted rows."""
    total: ir.Value | None = None
    for k, tap in enumerate(taps):
        number = reshape(ops.slice(w, start=(k,), limit=(k + 1,), strides=(1,)), ())
        term = ops.mul(tap, broadcast_scalar(number, type_of(tap).shape))
        total = term if total is None else ops.add(total, term)
    return total


def _taps_of_result(product: _Product, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    g, rank = product.geometry, product.geometry.rank
    # The contracted dimensions keep their order in rhs, so that rhs needs no transpose.
    summed = sorted(range(1, rank + 2), key=lambda i: g.rhs_spec[i])
    x = product.grouped(
        lhs, (g.lhs_spec[0], *(g.lhs_spec[i] for i in summed)),
        0 if g.batch_group_count > 1 else 1 + summed.index(1),
    )  # fmt: skip
    w = product.grouped(rhs, (*(g.rhs_spec[i] for i in summed), g.rhs_spec[0]), rank + 1)
    groups, batch = type_of(x).shape[:2]
    features = type_of(w).shape[-1]
    space = [2 + summed.index(i) for i in range(2, rank + 2)]
    w = reshape(w, (groups, math.prod(type_of(w).shape[1:-1]), features))
    depth = type_of(w).shape[1]
    parts = []
    for place in itertools.product(*map(range, product.out)):
        start = tuple(p * step for p, step in zip(place, g.window_strides, strict=True))
        window = product.slice(x, space, start, product.kernel, g.rhs_dilation)
        part = product.multiply(reshape(window, (groups, batch, depth)), w)
        parts.append(reshape(part, (groups, 1, batch, features)))
    result = parts[0] if len(parts) == 1 else ops.concatenate(*parts, dimension=1)
    result = reshape(result, (groups, *product.out, batch, features))
    return product.ordered(result, ("group", *map(str, range(rank)), "batch", "feature"))


def _library_pays(product: _Product, lhs: TensorType, rhs: TensorType) -> bool:
    """Whether the library computes the product of `_windows_of_result`."""
    g, places = product.geometry, math.prod(product.out)
    features, terms = rhs.shape[g.rhs_spec[0]], rhs.shape[g.rhs_spec[1]] * math.prod(product.kernel)
    sizes = (places * lhs.shape[g.lhs_spec[0]], features, terms)
    if not all(isinstance(n, int) for n in sizes) or g.groups > 1 or g.rank > 3:
        return False
    return places > 1 and windows_pay(sizes, short_name(product.dtype), transposed=True)


def _windows_of_result(product: _Product, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """One product; the library copies a few rows of the concatenated slices at a time."""
    g, rank = product.geometry, product.geometry.rank
    # The contracted dimensions keep their order in rhs, so that rhs needs no transpose.
    summed = sorted(range(1, rank + 2), key=lambda i: g.rhs_spec[i])
    x = transpose(lhs, (*(g.lhs_spec[i] for i in summed), g.lhs_spec[0]))
    w = transpose(rhs, (*(g.rhs_spec[i] for i in summed), g.rhs_spec[0]))
    space = [summed.index(i) for i in range(2, rank + 2)]
    windows = []
    for place in itertools.product(*map(range, product.out)):
        start = tuple(p * step for p, step in zip(place, g.window_strides, strict=True))
        windows.append(product.slice(x, space, start, product.kernel, g.rhs_dilation))
    columns = windows[0] if len(windows) == 1 else ops.concatenate(*windows, dimension=rank + 1)
    terms = tuple(range(rank + 1))
    result = ops.dot_general(
        columns, w, lhs_contracting=terms, rhs_contracting=terms, lhs_batch=(), rhs_batch=(),
        dtype=product.dtype, precision=product.precision,
    )  # fmt: skip
    batch, features = type_of(x).shape[-1], type_of(w).shape[-1]
    result = reshape(result, (1, *product.out, batch, features))
    return product.ordered(result, ("group", *map(str, range(rank)), "batch", "feature"))


LEGALIZATIONS = (
    Legalization(
        name="convolutions",
        stage=Stage.REWRITE,
        kind=Kind.SLOW,
        doc="write convolutions as products of matrices, except small and depthwise ones",
        upstream="IREE 3.13 takes 4 to 40 times as long where features are not last, and rejects "
        "convolutions with elements after their only window",
        texts=("convolutions_with_one_window",),
        reproducer="a convolution of f32[2,16,32,32] takes over four times the processor time",
        targets=Targets.where(host_memory=True),
        rules=lambda target: {
            "gnomon.conv_general_dilated": lambda inst: _convolution(
                inst, takes_groups=True, by_library=target.is_host and has_products()
            )
        },
    ),
    Legalization(
        name="convolutions-in-groups",
        stage=Stage.REWRITE,
        kind=Kind.MISCOMPILED,
        doc="write convolutions as products of matrices, small ones too if they are in groups",
        upstream="IREE 3.13 gives zeros for most elements of grouped convolutions on a GPU",
        texts=("convolutions_in_groups_on_vulkan",),
        reproducer="a convolution in two groups on `vulkan:portable` gives zeros",
        targets=Targets.where(host_memory=False),
        rules=always(
            {
                "gnomon.conv_general_dilated": lambda inst: _convolution(
                    inst, takes_groups=False, by_library=False
                )
            }
        ),
    ),
)
