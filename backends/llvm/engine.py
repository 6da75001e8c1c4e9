"""Functions of MLIR compiled in this process, by MLIR's execution engine.

The engine is called through its C interface: Python's class holds the interpreter's lock while it
compiles.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from gnomon._native import ObjectCode
from gnomon.backends.compilation import is_verifying
from gnomon.backends.llvm.outlining import outline_loops
from gnomon.dialects.mlir import c_interface, ir, passmanager, pointer_of

__all__ = [
    "Code",
    "Compiled",
    "Engine",
    "bind_functions",
    "call_function",
    "compile_module",
    "entry_of",
]

logger = logging.getLogger(__name__)

# Functions that MLIR would compute from others inaccurately are calls of libm: see `_call_libm`.
_PIPELINE = ",".join(
    (
        "convert-scf-to-cf",
        "expand-strided-metadata",
        "convert-math-to-llvm{approximate-log1p=false}",
        "convert-math-to-libm",
        "arith-expand{include-bf16=true}",
        "convert-to-llvm{filter-dialects=arith,cf,index,memref,vector}",
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
    library.mlirExecutionEngineLookup.restype = pointer
    library.mlirExecutionEngineLookup.argtypes = [pointer, text, size]
    library.mlirExecutionEngineDumpToObjectFile.restype = None
    library.mlirExecutionEngineDumpToObjectFile.argtypes = [pointer, text, size]
    library.mlirExecutionEngineDestroy.argtypes = [pointer]
    return library


class Code(Protocol):
    """Compiled code, which stays in memory as long as the object is referenced."""

    def symbol(self, name: str) -> int:
        """The address of a function or of a variable.

        Raises:
          KeyError: there is no such symbol.
        """


def entry_of(code: Code, name: str) -> int:
    """The address of a form of a function that takes an array of pointers to its arguments.

    Raises:
      KeyError: there is no such function.
    """
    # MLIR's name for this form.
    return code.symbol(f"_mlir_{name}")


class Engine:
    """MLIR's execution engine for one module; its memory is freed when it is no longer used.

    Args:
      module: a module in the LLVM dialect.
      level: the level of LLVM's optimization, 0 to 3.
      keep: whether to keep the code for `object_code`.
    """

    def __init__(self, module: ir.Module, level: int, *, keep: bool) -> None:
        library = _library()
        self._engine = library.mlirExecutionEngineCreate(
            pointer_of(module), level, 0, None, keep, False
        )
        if not self._engine:
            raise RuntimeError("LLVM could not compile the module")
        weakref.finalize(self, library.mlirExecutionEngineDestroy, self._engine)

    def symbol(self, name: str) -> int:
        """See `Code`; the first call compiles the module."""
        symbol = name.encode()
        address = _library().mlirExecutionEngineLookup(self._engine, symbol, len(symbol))
        if not address:
            raise KeyError(f"the program has no function {name}")
        return int(address)

    def object_code(self) -> bytes:
        """The content of an object file, once a symbol was looked up."""
        with tempfile.NamedTemporaryFile(prefix="gnomon-", suffix=".o") as file:
            name = os.fsencode(file.name)
            _library().mlirExecutionEngineDumpToObjectFile(self._engine, name, len(name))
            return Path(file.name).read_bytes()


# A function that takes an array of pointers to its arguments.
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))


def call_function(address: int, arguments: Sequence[int]) -> None:
    """Call a function of `entry_of`, without the interpreter's lock.

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


# The variable with the addresses of the functions that a module calls outside of it.
_FUNCTIONS = "gnomon_functions"


def _call_by_address(module: ir.Module, names: Sequence[str]) -> None:
    """Define declared functions as calls of functions whose addresses are in a variable.

    So the code is the same in each process, and `bind_functions` gives it the functions of one.
    """
    declared = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body
        if op.operation.name == "func.func"
    }
    array = f"!llvm.array<{len(names)} x ptr>"
    lines = [
        f"llvm.mlir.global external @{_FUNCTIONS}() : {array} {{",
        f"  %none = llvm.mlir.zero : {array}",
        f"  llvm.return %none : {array}",
        "}",
    ]
    for number, name in enumerate(names):
        function = declared[name]
        inputs = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
        given = ", ".join(f"%p{k}" for k in range(len(inputs)))
        types = ", ".join("!llvm.ptr" for _ in inputs)
        parameters = ", ".join(f"%{k}: {type_}" for k, type_ in enumerate(inputs))
        lines.append(f"func.func private @{name}({parameters}) -> i1 {{")
        for k, type_ in enumerate(inputs):
            lines += [
                f"  %i{k} = memref.extract_aligned_pointer_as_index %{k} : {type_} -> index",
                f"  %j{k} = arith.index_cast %i{k} : index to i64",
                f"  %p{k} = llvm.inttoptr %j{k} : i64 to !llvm.ptr",
            ]
        lines += [
            f"  %table = llvm.mlir.addressof @{_FUNCTIONS} : !llvm.ptr",
            f"  %place = llvm.getelementptr %table[{number}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr",
            "  %function = llvm.load %place : !llvm.ptr -> !llvm.ptr",
            f"  %failed = llvm.call %function({given}) : !llvm.ptr, ({types}) -> i1",
            "  return %failed : i1",
            "}",
        ]
        function.erase()
    for op in ir.Module.parse("\n".join(lines), module.context).body:
        op.operation.clone(ip=ir.InsertionPoint(module.body))


def bind_functions(code: Code, addresses: Sequence[int]) -> None:
    """Give compiled code the functions that it calls; see `compile_module`.

    Args:
      code: the code.
      addresses: the functions, in the order of their names.
    """
    table = (ctypes.c_void_p * len(addresses)).from_address(code.symbol(_FUNCTIONS))
    table[:] = list(addresses)


class Compiled(NamedTuple):
    """A compiled module.

    Attributes:
      code: the code in this process.
      content: the content of an object file, for `ObjectCode`; None on systems where it cannot be
        loaded.
    """

    code: Code
    content: bytes | None


def compile_module(module: ir.Module, functions: Sequence[str] = (), level: int = 2) -> Compiled:
    """Compile a module of loops over scalars, which is changed.

    Args:
      module: the module, whose function ``main`` is called.
      functions: the names of functions that it declares and calls. They take pointers and return
        whether they failed. `bind_functions` must give their addresses before the first call.
      level: the level of LLVM's optimization, 0 to 3.
    """
    if functions:
        _call_by_address(module, functions)
    _call_libm(module)
    outline_loops(module)
    passes = passmanager.PassManager.parse(f"builtin.module({_PIPELINE})", module.context)
    # It takes longer than the passes.
    passes.enable_verifier(is_verifying())
    passes.run(module.operation)
    loads = ObjectCode.is_supported()
    engine = Engine(module, level, keep=loads)
    entry_of(engine, "main")
    if not loads:
        return Compiled(engine, None)
    # An engine keeps 800 kB of the compiler's data, and the code itself takes a few pages.
    try:
        content = engine.object_code()
        return Compiled(ObjectCode(content), content)
    except (OSError, RuntimeError) as error:
        logger.warning("%s; the program stays in LLVM's engine and is not stored", error)
        return Compiled(engine, None)
