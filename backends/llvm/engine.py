"""Functions of MLIR compiled in this process, by MLIR's execution engine.

The engine is called through its C interface: Python's class holds the interpreter's lock while it
compiles.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping, Sequence

from gnomon.backends.llvm.outlining import outline_loops
from gnomon.dialects.mlir import c_interface, ir, passmanager, pointer_of

__all__ = ["Compiled", "call_function", "compile_module"]

# Functions that MLIR would compute from others inaccurately are calls of libm: see `_call_libm`.
_PIPELINE = ",".join(
    (
        "convert-scf-to-cf",
        "expand-strided-metadata",
        "finalize-memref-to-llvm",
        "convert-vector-to-llvm",
        "convert-math-to-llvm{approximate-log1p=false}",
        "convert-math-to-libm",
        "arith-expand{include-bf16=true}",
        "convert-arith-to-llvm",
        "convert-index-to-llvm",
        "convert-cf-to-llvm",
        "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1}",
        "reconcile-unrealized-casts",
    )
)


@functools.cache
def _library() -> ctypes.CDLL:
    library = c_interface()
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    create = library.mlirExecutionEngineCreate
    create.restype = pointer
    create.argtypes = [pointer, ctypes.c_int, ctypes.c_int, pointer, ctypes.c_bool, ctypes.c_bool]
    library.mlirExecutionEngineRegisterSymbol.restype = None
    library.mlirExecutionEngineRegisterSymbol.argtypes = [pointer, text, size, pointer]
    library.mlirExecutionEngineLookupPacked.restype = pointer
    library.mlirExecutionEngineLookupPacked.argtypes = [pointer, text, size]
    library.mlirExecutionEngineDestroy.argtypes = [pointer]
    return library


class Compiled:
    """A compiled module, whose memory is freed when it is no longer used.

    Args:
      module: a module in the LLVM dialect.
      functions: the addresses of functions that the module declares, by name.
      level: the level of LLVM's optimization, 0 to 3.
    """

    def __init__(
        self, module: ir.Module, functions: Mapping[str, int] | None = None, level: int = 2
    ) -> None:
        library = _library()
        self._engine = library.mlirExecutionEngineCreate(
            pointer_of(module), level, 0, None, False, False
        )
        if not self._engine:
            raise RuntimeError("LLVM could not compile the module")
        weakref.finalize(self, library.mlirExecutionEngineDestroy, self._engine)
        for name, address in (functions or {}).items():
            symbol = name.encode()
            library.mlirExecutionEngineRegisterSymbol(self._engine, symbol, len(symbol), address)

    def address(self, name: str) -> int:
        """The address of a function that takes an array of pointers to its arguments.

        Raises:
          KeyError: the module has no such function.
        """
        address = _library().mlirExecutionEngineLookupPacked(self._engine, name.encode(), len(name))
        if not address:
            raise KeyError(f"the module has no function {name!r}")
        return int(address)


# A function that takes an array of pointers to its arguments.
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))


def call_function(address: int, arguments: Sequence[int]) -> None:
    """Call a function of `Compiled.address`, without the interpreter's lock.

    Args:
      address: the function.
      arguments: the addresses that are its arguments.
    """
    count, step = len(arguments), ctypes.sizeof(ctypes.c_void_p)
    values = (ctypes.c_void_p * count)(*arguments)
    first = ctypes.addressof(values)
    _FUNCTION(address)((ctypes.c_void_p * count)(*range(first, first + count * step, step)))


# MLIR would write them as exp(x) - 1, which loses digits.
_OF_LIBM = {"math.expm1": "expm1"}


def _call_libm(module: ir.Module) -> None:
    """Make calls of operations that MLIR would expand inaccurately."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _OF_LIBM:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    declared: set[str] = set()
    for op in found:
        type_ = op.results[0].type
        name = _OF_LIBM[op.name] + ("f" if str(type_) == "f32" else "")
        if name not in declared:
            declared.add(name)
            declaration = ir.Operation.parse(
                f"func.func private @{name}({type_}) -> {type_}", context=module.context
            )
            module.body.append(declaration)
        call = ir.Operation.create(
            "func.call",
            results=[type_],
            operands=list(op.operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(name, module.context)},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        op.results[0].replace_all_uses_with(call.results[0])
        op.erase()


def compile_module(
    module: ir.Module, functions: Mapping[str, int] | None = None, level: int = 2
) -> Compiled:
    """Compile a module of loops over scalars, which is changed; see `Compiled`."""
    _call_libm(module)
    outline_loops(module)
    passmanager.PassManager.parse(f"builtin.module({_PIPELINE})", module.context).run(
        module.operation
    )
    return Compiled(module, functions, level)
