"""The one module that names the package of the MLIR Python bindings.

All other modules import ``ir``, ``func``, ``irdl``, ``passmanager`` and ``stablehlo`` from here, so
that changing to another build of the bindings means changing this file only. The first use checks
that the installed build has what gnomon uses.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.dialects.deferred import Deferred

if TYPE_CHECKING:
    from torch_mlir import ir, passmanager
    from torch_mlir._mlir_libs import _mlirDialectsIRDL as irdl
    from torch_mlir._mlir_libs import _stablehlo as stablehlo
    from torch_mlir.dialects import func
else:
    # Eager code does not need the bindings, and they would take a third of `import gnomon`'s time.
    ir = Deferred("torch_mlir.ir")
    passmanager = Deferred("torch_mlir.passmanager")
    stablehlo = Deferred("torch_mlir._mlir_libs._stablehlo")
    func = Deferred("torch_mlir.dialects.func")
    irdl = Deferred("torch_mlir._mlir_libs._mlirDialectsIRDL")

__all__ = [
    "bindings_file",
    "c_interface",
    "context",
    "ensure_context",
    "func",
    "ir",
    "irdl",
    "other_dialects",
    "passmanager",
    "pointer_of",
    "stablehlo",
    "when_loaded",
    "without_locations",
]

_BINDINGS = "torch_mlir"
_PACKAGE, _TESTED = "torch-mlir", "20261001"
# What is used of the bindings besides what has been in every release of MLIR for years.
_USED = (
    (
        ir,
        (
            "_globals._check_dialect_module_loaded",
            "ConditionallySpeculatable",
            "DynamicOpTrait",
            "MemoryEffectsOpInterface",
            "Module._CAPIPtr",
        ),
    ),
    (irdl, ("load_dialects",)),
    (func, ("FuncOp",)),
    (passmanager, ("PassManager",)),
    (
        stablehlo,
        (
            "deserialize_portable_artifact",
            "get_current_version",
            "register_dialect",
            "register_stablehlo_passes",
            "serialize_portable_artifact_str",
        ),
    ),
)


def _missing(module: types.ModuleType, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        try:
            operator.attrgetter(name)(module)
        except (AttributeError, ImportError):
            yield f"{module.__name__}.{name}"


def _check_bindings() -> None:
    """Refuse bindings without the interface that is used.

    Raises:
      ImportError: they are not installed, or lack something; the message says what to install.
    """
    _refuse_without([name for module, names in _USED for name in _missing(module, names)])


def _refuse_without(missing: Sequence[str]) -> None:
    if missing:
        raise ImportError(
            f"gnomon needs {', '.join(missing)}, which the installed {_PACKAGE} lacks: "
            f"`pip install {_PACKAGE}=={_TESTED}` installs the version that it was tested with"
        )


# The dialects whose ops are built in Python; those of parsed programs are loaded by the parser.
_BUILT = ("func", "arith", "math", "scf", "tensor", "linalg", "memref", "vector")
# Dialects whose ops need no generated classes here: those that have none, and those of emitted
# kernels, whose classes take 6 ms to import. Their ops are plain instances of `ir.OpView`.
_WITHOUT_CLASSES = ("gnomon", "stablehlo", "chlo", "flow", "stream", *_BUILT[1:])


def _leave_out_classes(namespace: str) -> None:
    """Tell the bindings not to import the Python module of a dialect.

    They ask for the module when Python first sees an op of the dialect as an ``OpView``. If there
    is none, they ask at each op, which takes about fifty microseconds. The module that is put in
    its place is removed at once, so that others can still import the dialect's own.
    """
    name = f"{_BINDINGS}.dialects.{namespace}"
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
        ir._globals._check_dialect_module_loaded(namespace)
        del sys.modules[name]


_lock = threading.RLock()
_contexts: list[ir.Context] = []
_loaders: list[Callable[[], None]] = []
_thread = threading.local()
# Not empty once the exit handlers run.
_exiting: list[bool] = []


def when_loaded(loader: Callable[[], None]) -> None:
    """Register a function that loads a dialect into the context once the context is created."""
    _loaders.append(loader)


def context() -> ir.Context:
    """The process's only MLIR context, created at the first use."""
    return _contexts[0] if _contexts and not _loaders else _make_context()


def _make_context() -> ir.Context:
    with _lock:
        if not _contexts:
            _check_bindings()
            # By default a context loads all dialects that the bindings know, which takes 6 ms.
            made = ir.Context(load_on_create_dialects=[])
            for namespace in _BUILT:
                made.get_dialect_descriptor(namespace)
            for namespace in _WITHOUT_CLASSES:
                _leave_out_classes(namespace)
            # Verifiers and passes written in Python need the GIL, which a thread that waits for
            # MLIR's worker threads would hold.
            made.enable_multithreading(False)
            stablehlo.register_dialect(made)
            _contexts.append(made)
            # The bindings are loaded by now, so this runs before their exit handler.
            atexit.register(_exiting.append, True)
            loaders = list(_loaders)
            for loader in loaders:
                loader()
            _loaders.clear()
        return _contexts[0]


class _Entered:
    """A context that is current on a thread, with an unknown location, until the thread ends.

    The bindings keep what a thread has entered in a `thread_local` variable of C++. Its destructor
    would release the Python objects when the system's thread ends, without the GIL, while other
    threads use them. Python deletes the values of a `threading.local` before that, with the GIL.
    """

    def __init__(self, context: ir.Context) -> None:
        self._thread = threading.get_ident()
        self._context = context
        self._location = ir.Location.unknown(context)
        self._context.__enter__()
        self._location.__enter__()

    def is_lost(self) -> bool:
        """Whether the bindings' exit handler has left the context."""
        lost = ir.Context.current is None
        if lost:
            self._thread = 0
        return lost

    def __del__(self) -> None:
        # A process that ends or was forked deletes the values of all threads, on one thread.
        if threading.get_ident() == self._thread and not sys.is_finalizing():
            self._location.__exit__(None, None, None)
            self._context.__exit__(None, None, None)


def ensure_context() -> None:
    """Make the process's MLIR context current on this thread, for the thread's lifetime."""
    if not hasattr(_thread, "entered") or (_exiting and _thread.entered.is_lost()):
        _thread.entered = _Entered(context())


_users_of_other_dialects: list[None] = []


@contextmanager
def other_dialects(context: ir.Context) -> Iterator[None]:
    """Allow ops and attributes of dialects that the bindings do not know, such as the compiler's.

    Threads share the context, so the dialects stay allowed until the last thread leaves.
    """
    with _lock:
        _users_of_other_dialects.append(None)
        context.allow_unregistered_dialects = True
    try:
        yield
    finally:
        with _lock:
            _users_of_other_dialects.pop()
            context.allow_unregistered_dialects = bool(_users_of_other_dialects)


def bindings_file() -> str:
    """The file of the bindings' library, which contains MLIR."""
    return str(importlib.import_module(f"{_BINDINGS}._mlir_libs._mlir").__file__)


# The functions of MLIR's C interface that are called by ctypes.
_C_FUNCTIONS = (
    "mlirExecutionEngineCreate",
    "mlirExecutionEngineDestroy",
    "mlirExecutionEngineLookup",
    "mlirExecutionEngineRegisterSymbol",
)


@functools.cache
def c_interface() -> ctypes.CDLL:
    """The library with MLIR's C interface, whose functions release the interpreter's lock.

    Raises:
      ImportError: the bindings have no such library, or it lacks a function.
    """
    files = sorted(Path(bindings_file()).parent.glob("*AggregateCAPI*"))
    library = ctypes.CDLL(str(files[0])) if files else None
    _refuse_without([name for name in _C_FUNCTIONS if not hasattr(library, name)])
    assert library is not None
    return library


def pointer_of(module: ir.Module) -> int:
    """The pointer by which the C interface knows a module."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    pointer: int = get(module._CAPIPtr, f"{_BINDINGS}.ir.Module._CAPIPtr".encode())
    return pointer


def without_locations(module: ir.Module) -> ir.Operation:
    """A copy of a module without locations."""
    copy = module.operation.clone(ip=False)
    manager = passmanager.PassManager.parse("builtin.module(strip-debuginfo)", module.context)
    manager.enable_verifier(False)
    manager.run(copy)
    return copy
