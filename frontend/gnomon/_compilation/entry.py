"""Entries: compiled programs with the conversion of their arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, placed_buffer, wrap_buffer
from gnomon._arrays.sharded import sharded_buffer
from gnomon._compilation.arguments import Call
from gnomon._config.current import Config, config
from gnomon._native import DirectEntry
from gnomon._sharding.device import HOST, Device, in_host_memory
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.sharding import Sharding
from gnomon._tracing import on_device
from gnomon._tracing.bind import as_operand
from gnomon._tracing.evaluation import invalid_value
from gnomon._tracing.function import Traced, name_of
from gnomon._tracing.partitioned import mesh_buffer
from gnomon._tracing.stack import outside_of_traces
from gnomon.backends.interface import Buffer, Executable

__all__ = ["CheckedEntry", "Entry", "MeshEntry", "PlacedEntry", "ShardedEntry", "check_donated"]


def _buffer_of(leaf: Any) -> Buffer:
    """The buffer in host memory, created on first use, of an array or a value that becomes one."""
    array: Any = leaf if type(leaf) is ConcreteArray else as_operand(leaf)
    if array._buffer is None:
        array._buffer = HOST.backend.put(array.numpy_value(), HOST)
    buffer: Buffer = array._buffer
    return buffer


def _host_buffer(leaf: Any) -> Buffer:
    """The buffer of an array in host memory; an array on another device is copied there."""
    array: Any = leaf if isinstance(leaf, ConcreteArray) else as_operand(leaf)
    if isinstance(array, PlacedArray):
        if Config.guards_somewhere:
            on_device.guard_operands([array], HOST)
        return on_device.input_buffer(array, HOST)
    return _buffer_of(array)


class Entry:
    """A compiled program with the conversion of its arguments and results."""

    __slots__ = ("_avals", "_captures", "_donated", "_executable", "_single", "_tree")

    def __init__(self, executable: Executable, traced: Traced, donated: tuple[int, ...]) -> None:
        self._executable = executable
        self._avals = traced.avals
        self._tree = traced.tree
        self._captures = self._buffers_of(traced.captures)
        self._donated = donated
        self._single = traced.tree == tree_util.tree_structure(0)

    def _buffers_of(self, captures: Sequence[Array]) -> list[Any]:
        """Buffers of the captured arrays that no later call deletes."""
        return [HOST.backend.put(c.numpy_value(), HOST) for c in captures]

    def direct(self) -> Callable[[list[Any]], Any]:
        """The entry for a cache: one that makes common calls without Python code, if possible."""
        launcher = getattr(self._executable, "launcher", None)
        if launcher is None or type(self) is not Entry:
            return self
        return DirectEntry(
            launcher,
            ConcreteArray,
            self,
            _host_buffer,
            self._captures,
            self._avals,
            self._donated,
            None if self._single else self._tree.maker(),
        )

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        if self._donated:
            check_donated(leaves, self._donated)
        inputs: list[Any] = [
            leaf._buffer if type(leaf) is ConcreteArray and leaf._buffer else _host_buffer(leaf)
            for leaf in leaves
        ]
        inputs += self._captures
        # No check of number, shapes and dtypes: they are in the signature that found this entry.
        buffers = self._executable.run(inputs)
        for i in self._donated:
            leaf = leaves[i]
            if isinstance(leaf, ConcreteArray):
                leaf.delete()
        if self._single:
            return wrap_buffer(buffers[0], self._avals[0])
        return tree_util.tree_unflatten(
            self._tree, [wrap_buffer(b, a) for b, a in zip(buffers, self._avals, strict=True)]
        )


def check_donated(leaves: Sequence[Any], donated: tuple[int, ...]) -> None:
    """Raise if a donated array is also passed as another argument of the same call."""
    arrays = [leaf for leaf in leaves if isinstance(leaf, ConcreteArray)]
    if len({id(a) for a in arrays}) == len(arrays):
        return
    for i in donated:
        if isinstance(leaves[i], ConcreteArray) and sum(a is leaves[i] for a in arrays) > 1:
            raise RuntimeError(
                f"an array of {leaves[i].aval} is donated, but it is also another argument of the "
                "call, so its memory cannot be reused while it is read. Donate a copy, or do not "
                "donate it"
            )


class PlacedEntry(Entry):
    """An entry for a device other than the host, or whose results are committed to their device."""

    __slots__ = ("_committed", "_device")

    def __init__(
        self,
        executable: Executable,
        traced: Traced,
        donated: tuple[int, ...],
        device: Device,
        committed: bool,
    ) -> None:
        self._device = device
        self._committed = committed
        super().__init__(executable, traced, donated)

    def _buffers_of(self, captures: Sequence[Array]) -> list[Any]:
        if in_host_memory(self._device):
            return super()._buffers_of(captures)
        return [on_device.input_buffer(c, self._device) for c in captures]

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        device, donated = self._device, self._donated
        if donated:
            check_donated(leaves, donated)
        arguments = [as_operand(leaf) for leaf in leaves]
        if Config.guards_somewhere:
            on_device.guard_operands([x for x in leaves if isinstance(x, Array)], device)
        inputs: list[Any] = [
            self._input(i, leaf, fresh=i in donated) for i, leaf in enumerate(arguments)
        ]
        buffers = self._executable.run([*inputs, *self._captures])
        for i in donated:
            if isinstance(leaves[i], ConcreteArray):
                leaves[i].delete()
        results = self._wrapped(buffers)
        return results[0] if self._single else tree_util.tree_unflatten(self._tree, results)

    def _input(self, number: int, leaf: Any, *, fresh: bool) -> Buffer:
        """The buffer of a leaf of the call; if ``fresh``, the call may take over its memory."""
        return on_device.input_buffer(leaf, self._device, fresh=fresh)

    def _wrapped(self, buffers: Sequence[Buffer]) -> Sequence[Array]:
        """The results as arrays."""
        return [
            placed_buffer(buffer, aval, self._device, self._committed)
            for buffer, aval in zip(buffers, self._avals, strict=True)
        ]


class ShardedEntry(PlacedEntry):
    """An entry whose results are spread over the devices of a mesh."""

    __slots__ = ("_shardings",)

    def __init__(
        self,
        executable: Executable,
        traced: Traced,
        donated: tuple[int, ...],
        device: Device,
        shardings: Sequence[Sharding],
    ) -> None:
        super().__init__(executable, traced, donated, device, True)
        self._shardings = shardings

    def _wrapped(self, buffers: Sequence[Buffer]) -> Sequence[Array]:
        """The results as arrays."""
        return [
            sharded_buffer(buffer, aval, sharding)
            if isinstance(sharding, NamedSharding)
            else placed_buffer(buffer, aval, self._device, True)
            for buffer, aval, sharding in zip(buffers, self._avals, self._shardings, strict=True)
        ]


class MeshEntry(ShardedEntry):
    """An entry whose program runs on devices of a mesh that do not share memory."""

    __slots__ = ("_ins",)

    def __init__(
        self,
        executable: Executable,
        traced: Traced,
        donated: tuple[int, ...],
        device: Device,
        ins: Sequence[NamedSharding],
        outs: Sequence[Sharding],
    ) -> None:
        self._ins = ins
        super().__init__(executable, traced, donated, device, outs)

    def _buffers_of(self, captures: Sequence[Array]) -> list[Any]:
        ins = self._ins[len(self._ins) - len(captures) :]
        return [mesh_buffer(c, s, fresh=True) for c, s in zip(captures, ins, strict=True)]

    def _input(self, number: int, leaf: Any, *, fresh: bool) -> Buffer:
        return mesh_buffer(leaf, self._ins[number], fresh=fresh)


class CheckedEntry:
    """An entry for `debug_nans` or `debug_infs`: finds the op that produces an invalid value."""

    def __init__(
        self, entry: Callable[[list[Any]], Any], fun: Callable[..., Any], call: Call
    ) -> None:
        self._entry = entry
        self._fun = fun
        self._call = call

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        args, kwargs = self._call.arguments([as_operand(leaf) for leaf in leaves])
        out = self._entry(leaves)
        kind = invalid_value([leaf.numpy_value() for leaf in tree_util.tree_leaves(out)])
        if kind is not None:
            what = f"invalid value ({kind}) encountered in jit of {name_of(self._fun)}"
            if self._call.donated:
                raise FloatingPointError(
                    f"{what}; it donates arguments, so it cannot be run again to find the op"
                )
            with config.override("gnomon_disable_jit", True), outside_of_traces():
                self._fun(*args, **kwargs)
            raise FloatingPointError(f"{what}; run op by op, no op gives one")
        return out
