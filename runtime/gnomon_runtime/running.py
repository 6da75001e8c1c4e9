"""Loading modules into IREE's virtual machine, and calling them.

A module has one function, ``main``. It takes the leaves of the arguments and then the weights, and
gives the leaves of the results. Modules that run ``"sync"`` compute in the calling thread, those
that run ``"blocking"`` on a pool of threads or a device; both return when they are done.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import iree.runtime as rt
import numpy as np
from iree.runtime import version as runtime_version

from gnomon_runtime import artifact as artifacts
from gnomon_runtime.artifact import Artifact, Entry, Module, TensorType
from gnomon_runtime.booleans import zero_or_one
from gnomon_runtime.devices import Array, Device, device_of, forks
from gnomon_runtime.dtypes import FLOAT0, dtype_named
from gnomon_runtime.errors import (
    ArtifactDamagedError,
    ArtifactError,
    ArtifactIncompatibleError,
    ProgramError,
)
from gnomon_runtime.host import HostModule
from gnomon_runtime.machine import choose_module, drivers
from gnomon_runtime.sizes import check_sizes

__all__ = ["Function", "LoadedArtifact", "load"]

_VIEWS = rt.HalBufferView

ModuleSource = Callable[[Artifact, Entry, "str | None"], "tuple[Module, bytes]"]
"""Finds or makes the module to run: from an artifact, an entry and the name of a platform."""


def _own_module(artifact: Artifact, entry: Entry, platform: str | None) -> tuple[Module, bytes]:
    module = choose_module(artifact, entry, platform)
    return module, artifact.module(entry.name, module.target)


def load(
    path: str | os.PathLike[str],
    *,
    platform: str | None = None,
    device: int = 0,
    digest: str | None = None,
) -> LoadedArtifact:
    """Load an artifact; its modules are loaded when they are first called.

    Args:
      path: the path of the file.
      platform: ``"cpu"``, ``"vulkan"``, ``"cuda"``, ...: where to run. By default the CPU if the
        artifact has a module for it, else the first platform with a module.
      device: the number of the device of that platform.
      digest: the file's digest, if it is known: any other file is refused.

    Raises:
      NotAnArtifactError, ArtifactVersionError, ArtifactDamagedError: as their names say.

    Example:
      >>> model = load("digits.gnm")  # doctest: +SKIP
      >>> model["predict"](images)  # doctest: +SKIP
    """
    read = artifacts.read(path)
    check_digest(read, digest)
    return LoadedArtifact(read, platform=platform, device=device)


def check_digest(artifact: Artifact, digest: str | None) -> None:
    """Raise `ArtifactDamagedError` unless an artifact has the digest that is expected."""
    if digest is not None and artifact.digest != digest.lower():
        raise ArtifactDamagedError(
            f"{artifact.name}: its digest is {artifact.digest}, but {digest} is expected"
        )


class LoadedArtifact(Mapping[str, "Function"]):
    """The functions of an artifact by name; calling it calls the only one, or ``main``.

    Args:
      artifact: the artifact.
      platform, device: see `load`.
      modules: the source of modules.
      function: makes the function of an entry; by default one that runs on IREE's devices.

    Attributes:
      artifact: the artifact.
    """

    def __init__(
        self,
        artifact: Artifact,
        *,
        platform: str | None = None,
        device: int = 0,
        modules: ModuleSource = _own_module,
        function: Callable[[LoadedArtifact, Entry], Function] | None = None,
    ) -> None:
        self.artifact = artifact
        if function is None:

            def function(owner: LoadedArtifact, entry: Entry) -> Function:
                return Function(owner, entry, platform, device, modules)

        self._weights: dict[tuple[str, Device], Any] = {}
        self._functions = {name: function(self, entry) for name, entry in artifact.entries.items()}

    def __getitem__(self, name: str) -> Function:
        self.artifact.entry(name)
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the only function, or the one named ``main``."""
        return self._functions[self.artifact.entry().name](*args, **kwargs)

    def weight_on(self, name: str, device: Device) -> tuple[Any, Any]:
        """A weight's view on a device, and the owner of its memory; all functions share them."""
        key = name, device
        if key not in self._weights:
            self._weights[key] = device.view_of(self.artifact.weight(name))
        return self._weights[key]

    def __repr__(self) -> str:
        return f"LoadedArtifact({self.artifact.name!r}, {', '.join(self._functions)})"


class _Loaded:
    """A module in IREE's virtual machine, in one process."""

    def __init__(
        self, function: Function, device: Device, description: Module, vmfb: bytes
    ) -> None:
        self.device = device
        self.forks = forks()
        # IREE does not allow concurrent calls of one context.
        self.lock = threading.Lock()
        try:
            module = rt.VmModule.copy_buffer(device.instance, vmfb)
            main = module.lookup_function("main")
            self._host = HostModule(description.host, device) if description.host else None
            extra_modules = [self._host.module] if self._host else []
            self._context = rt.VmContext(device.instance, [device.module, *extra_modules, module])
        except Exception as error:
            raise function.error("cannot be loaded", error) from error
        if main is None:
            raise function.error("has no function `main`", None)
        self._main = main

    def __call__(self, arguments: Any, results: Any) -> None:
        with self.lock:
            try:
                self._context.invoke(self._main, arguments, results)
            except Exception:
                cause = self._host.take_error() if self._host else None
                if cause is not None:
                    raise cause from None
                raise


class Function:
    """A function of an artifact: call it with arrays in the structure that it was exported for.

    Arguments are NumPy arrays, Python numbers, or results of other calls, which stay on their
    device. Results are `Array`.

    Attributes:
      entry: its description in the artifact.
    """

    def __init__(
        self,
        owner: LoadedArtifact,
        entry: Entry,
        platform: str | None,
        device: int,
        modules: ModuleSource,
    ) -> None:
        self.entry = entry
        self._owner = owner
        self._platform = platform
        self._number = device
        self._source = modules
        self._module: tuple[Module, bytes] | None = None
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()
        self._input_dtypes: list[np.dtype[Any]] | None = None
        self._output_types: list[tuple[tuple[int, ...], np.dtype[Any]]] = []

    @property
    def name(self) -> str:
        """Its name in the artifact."""
        return self.entry.name

    @property
    def module(self) -> Module:
        """A description of the module that runs here; it is chosen at the first call.

        Raises:
          MissingModuleError: there is none.
        """
        return self._chosen()[0]

    def _chosen(self) -> tuple[Module, bytes]:
        if self._module is None:
            if self.entry.is_symbolic and "sizes" not in self.entry.notes:
                raise ArtifactIncompatibleError(
                    f"{self._owner.artifact.name}: the function {self.name!r} has symbolic "
                    "dimensions, so it has no compiled module; call it through "
                    "gnomon.export.load_exported"
                )
            if self.entry.nr_devices > 1:
                raise ArtifactIncompatibleError(
                    f"{self._owner.artifact.name}: the function {self.name!r} is for "
                    f"{self.entry.nr_devices} devices, but the modules of a file run on one; call "
                    "it through gnomon.export.load_exported"
                )
            self._module = self._source(self._owner.artifact, self.entry, self._platform)
        return self._module

    def _load(self) -> _Loaded:
        loaded = self._loaded
        if loaded is None or loaded.forks != forks():
            with self._lock:
                module, vmfb = self._chosen()
                if self._input_dtypes is None:
                    entry = self.entry
                    self._output_types = [(t.shape, dtype_named(t.dtype)) for t in entry.outputs]
                    self._input_dtypes = [dtype_named(t.dtype) for t in entry.inputs]
                device = device_of(drivers(module), self._number)
                loaded = self._loaded = _Loaded(self, device, module, vmfb)
        return loaded

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function.

        Raises:
          TypeError: structure, shapes or dtypes are not those that it was exported for.
          ValueError: sizes do not fit the symbolic dimensions, or an array to be donated is passed
            twice.
          MissingModuleError: the artifact has no module for this machine.
          ArtifactIncompatibleError: the function is for several devices, or has symbolic dimensions
            and no compiled module.
          ProgramError: the program failed.
        """
        entry = self.entry
        leaves = entry.in_tree.flatten((args, kwargs), f"the arguments of {entry.name}")
        return entry.out_tree.unflatten(self.call_flat(leaves))

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Run the function on the leaves of its arguments; returns those of its results."""
        loaded, entry = self._load(), self.entry
        device = loaded.device
        arguments = rt.VmVariantList(len(leaves) + len(entry.weights))
        keep_alive: list[Any] = []
        assert self._input_dtypes is not None
        if len(leaves) != len(entry.inputs):
            raise TypeError(f"{entry.name} takes {len(entry.inputs)} arrays, got {len(leaves)}")
        for index, leaf in enumerate(leaves):
            if self._input_dtypes[index] == FLOAT0:
                continue
            view, kept = self._view(index, leaf, device)
            arguments.push_ref(view)
            keep_alive.append(kept)
        self._check_donated(leaves)
        self._check_sizes(leaves)
        for name in entry.weights:
            view, kept = self._owner.weight_on(name, device)
            arguments.push_ref(view)
            keep_alive.append(kept)
        results = rt.VmVariantList(len(entry.outputs))
        try:
            loaded(arguments, results)
        except Exception as error:
            raise self.error("failed", error) from error
        given = sum(dtype != FLOAT0 for _, dtype in self._output_types)
        if results.size != given:
            raise self.error(f"returned {results.size} results, not {given}", None)
        borrowed = any(kept is not None for kept in keep_alive)
        views = (results.get_as_object(index, _VIEWS) for index in range(given))
        outputs = [
            np.zeros(shape, dtype)
            if dtype == FLOAT0
            else self._result(next(views), shape, dtype, device, borrowed)
            for shape, dtype in self._output_types
        ]
        for index in entry.donated:
            if isinstance(leaves[index], Array):
                leaves[index].delete()
        return outputs

    def _result(
        self,
        view: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
        borrowed: bool,
    ) -> Array:
        # A module that contradicts its signature must not be read beyond its end.
        if any(isinstance(n, str) for n in shape):
            found = tuple(view.shape)
            if not _fits(found, shape):
                raise self.error(f"returned a result of shape {found}, not {shape}", None)
            shape = found
        size = math.prod(shape) * dtype.itemsize
        if view.byte_length != size:
            raise self.error(f"returned a result of {view.byte_length} bytes, not {size}", None)
        if borrowed:
            view = device.without_borrowed_memory(view, shape, dtype)
        return Array(view, shape, dtype, device)

    def _view(self, index: int, leaf: Any, device: Device) -> tuple[Any, Any]:
        """IREE's view of an argument, and the owner of its memory, to be kept alive."""
        if isinstance(leaf, Array) and leaf.is_usable_on(device):
            assert self._input_dtypes is not None
            shape, dtype = self.entry.inputs[index].shape, self._input_dtypes[index]
            if _fits(leaf.shape, shape) and leaf.dtype == dtype:
                return leaf.view(), None
            raise self._mismatch(index, leaf)
        return device.view_of(self._checked(index, leaf))

    def _checked(self, index: int, leaf: Any) -> np.ndarray[Any, Any]:
        """An argument as an array of its type."""
        type_ = self.entry.inputs[index]
        assert self._input_dtypes is not None
        dtype = self._input_dtypes[index]
        array = _as_array(leaf, dtype)
        if array is None or not _fits(array.shape, type_.shape) or array.dtype != dtype:
            raise self._mismatch(index, leaf)
        return array

    def _check_donated(self, leaves: Sequence[Any]) -> None:
        for index in self.entry.donated:
            leaf = leaves[index]
            if isinstance(leaf, Array) and sum(leaf is other for other in leaves) > 1:
                raise ValueError(
                    f"{self._name_of(index)} of {self.name} is donated, but it is also another "
                    "argument of the call; pass a copy (numpy.array) of one of them"
                )

    def _check_sizes(self, leaves: Sequence[Any]) -> None:
        if self.entry.is_symbolic:
            shapes = [np.shape(leaf) for leaf in leaves]
            file = self._owner.artifact.name
            check_sizes(self.entry.notes["sizes"], shapes, self._name_of, file)

    def _name_of(self, index: int) -> str:
        path = self.entry.in_tree.paths()[index]
        # The root is the pair of positional arguments and of those given by name.
        head, _, rest = path.partition("]")
        if head not in ("[0", "[1") or not rest:
            return f"argument {index}"
        number, _, inner = rest.removeprefix("[").partition("]")
        names = self.entry.parameters
        if head == "[0" and number.isdigit() and int(number) < len(names) and names[int(number)]:
            return f"the argument {names[int(number)]!r}{inner}"
        return f"argument {rest}"

    def _mismatch(self, index: int, leaf: Any) -> TypeError:
        type_: TensorType = self.entry.inputs[index]
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            given = f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
        else:
            given = f"{leaf!r} of type {type(leaf).__name__}"
        return TypeError(
            f"{self._name_of(index)} of {self.name} must be {type_}, got {given}; the function was "
            "exported for these types, and nothing is converted"
        )

    def error(self, what: str, cause: BaseException | None) -> ArtifactError:
        """The error of the module that runs here."""
        module = self._chosen()[0]
        text = f"{self._owner.artifact.name}: the module of {self.name} for {module.target} {what}"
        if cause is not None:
            text += f": {cause}"
        here, there = _runtime_version(), module.versions.get("iree-base-compiler", "")
        if there and not _agree(here, there):
            text += (
                f"\nIt was compiled by IREE {there}, and the runtime here is {here}: install "
                f"iree-base-runtime {there}, or export it again"
            )
        return ProgramError(text)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.entry.inputs))
        outputs = ", ".join(map(str, self.entry.outputs))
        return f"<{self.name} of {self._owner.artifact.name}: ({inputs}) -> ({outputs})>"


def _fits(shape: tuple[int, ...], expected: tuple[Any, ...]) -> bool:
    """Whether a shape matches the expected one; any size matches a symbolic dimension."""
    if shape == expected:
        return True
    return len(shape) == len(expected) and all(
        isinstance(n, str) or m == n for m, n in zip(shape, expected, strict=True)
    )


def _as_array(leaf: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """An argument as an array; a Python number gets the dtype of the parameter if that holds it."""
    if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
        kinds = "biufc"  # each type represents the values of those before it
        wanted = dtype.kind if dtype.kind in kinds else "f"
        given = np.asarray(leaf).dtype.kind
        if kinds.index(given) > kinds.index("i" if wanted == "u" else wanted):
            return None
        try:
            return np.asarray(leaf, dtype)
        except OverflowError:
            return None
    if not hasattr(leaf, "__array__") and not hasattr(leaf, "__dlpack__"):
        return None
    array: np.ndarray[Any, Any] = np.asarray(leaf)
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return zero_or_one(native)


def _runtime_version() -> str:
    return str(getattr(runtime_version, "VERSION", "of an unknown version"))


def _agree(one: str, other: str) -> bool:
    return one.split(".")[:2] == other.split(".")[:2]
