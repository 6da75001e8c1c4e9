"""The compiler's own representation of a program, read and changed between two of its phases.

This uses MLIR's C interface, which the compiler's library exports, since `iree.compiler.ir` never
frees a context that it has seen: 3 MB for each program. Operations, blocks, values, types and
modules are MLIR's handles. A handle is a structure of one pointer, which is passed like a pointer,
so here it is an integer. Two handles of one value are equal.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["CompilerIR"]

_POINTER, _INDEX = ctypes.c_void_p, ctypes.c_ssize_t


class _String(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _OperationState(ctypes.Structure):
    _fields_ = (
        ("name", _String),
        ("location", ctypes.c_void_p),
        # Counts and pointers, which functions of the library fill in.
        ("lists", ctypes.c_void_p * 10),
        ("infer_results", ctypes.c_bool),
    )


_STATE = ctypes.POINTER(_OperationState)
_PRINTER = ctypes.CFUNCTYPE(None, _String, ctypes.c_void_p)

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ireeCompilerInvocationExportStealModule": (_POINTER, (_POINTER,)),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, (_POINTER, _POINTER)),
    "ireeCompilerInvocationRunPassPipeline": (ctypes.c_bool, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerInvocationSetCompileFromPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerInvocationSetCompileToPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerInvocationSetVerifyIR": (None, (_POINTER, ctypes.c_bool)),
    "ireeCompilerSessionBorrowContext": (_POINTER, (_POINTER,)),
    "mlirArrayAttrGetElement": (_POINTER, (_POINTER, _INDEX)),
    "mlirArrayAttrGetNumElements": (_INDEX, (_POINTER,)),
    "mlirAttributeGetType": (_POINTER, (_POINTER,)),
    "mlirAttributeParseGet": (_POINTER, (_POINTER, _String)),
    "mlirAttributePrint": (None, (_POINTER, _PRINTER, ctypes.c_void_p)),
    "mlirBlockAppendOwnedOperation": (None, (_POINTER, _POINTER)),
    "mlirBlockGetFirstOperation": (_POINTER, (_POINTER,)),
    "mlirBlockGetNextInRegion": (_POINTER, (_POINTER,)),
    "mlirBlockGetParentOperation": (_POINTER, (_POINTER,)),
    "mlirBlockGetTerminator": (_POINTER, (_POINTER,)),
    "mlirBlockInsertOwnedOperation": (None, (_POINTER, _INDEX, _POINTER)),
    "mlirBlockInsertOwnedOperationBefore": (None, (_POINTER, _POINTER, _POINTER)),
    "mlirBlockArgumentGetArgNumber": (_INDEX, (_POINTER,)),
    "mlirBlockArgumentGetOwner": (_POINTER, (_POINTER,)),
    "mlirBlockGetArgument": (_POINTER, (_POINTER, _INDEX)),
    "mlirBlockGetNumArguments": (_INDEX, (_POINTER,)),
    "mlirContextEnableMultithreading": (None, (_POINTER, ctypes.c_bool)),
    "mlirAttributeIsADenseElements": (ctypes.c_bool, (_POINTER,)),
    "mlirDenseElementsAttrIsSplat": (ctypes.c_bool, (_POINTER,)),
    "mlirDenseI32ArrayGetElement": (ctypes.c_int32, (_POINTER, _INDEX)),
    "mlirIdentifierGet": (_POINTER, (_POINTER, _String)),
    "mlirIdentifierStr": (_String, (_POINTER,)),
    "mlirIntegerAttrGet": (_POINTER, (_POINTER, ctypes.c_int64)),
    "mlirIntegerAttrGetValueInt": (ctypes.c_int64, (_POINTER,)),
    "mlirModuleCreateParse": (_POINTER, (_POINTER, _String)),
    "mlirModuleDestroy": (None, (_POINTER,)),
    "mlirModuleGetOperation": (_POINTER, (_POINTER,)),
    "mlirOpPrintingFlagsAssumeVerified": (None, (_POINTER,)),
    "mlirOpPrintingFlagsCreate": (_POINTER, ()),
    "mlirOpPrintingFlagsDestroy": (None, (_POINTER,)),
    "mlirOpPrintingFlagsUseLocalScope": (None, (_POINTER,)),
    "mlirOpOperandGetNextUse": (_POINTER, (_POINTER,)),
    "mlirOpOperandGetOperandNumber": (ctypes.c_uint, (_POINTER,)),
    "mlirOpOperandGetOwner": (_POINTER, (_POINTER,)),
    "mlirOpResultGetOwner": (_POINTER, (_POINTER,)),
    "mlirOpResultGetResultNumber": (_INDEX, (_POINTER,)),
    "mlirOperationClone": (_POINTER, (_POINTER,)),
    "mlirOperationCreate": (_POINTER, (_STATE,)),
    "mlirOperationDestroy": (None, (_POINTER,)),
    "mlirOperationGetAttributeByName": (_POINTER, (_POINTER, _String)),
    "mlirOperationGetBlock": (_POINTER, (_POINTER,)),
    "mlirOperationGetLocation": (_POINTER, (_POINTER,)),
    "mlirOperationGetName": (_POINTER, (_POINTER,)),
    "mlirOperationGetNextInBlock": (_POINTER, (_POINTER,)),
    "mlirOperationGetNumOperands": (_INDEX, (_POINTER,)),
    "mlirOperationGetNumRegions": (_INDEX, (_POINTER,)),
    "mlirOperationGetNumResults": (_INDEX, (_POINTER,)),
    "mlirOperationGetOperand": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetNumSuccessors": (_INDEX, (_POINTER,)),
    "mlirOperationGetRegion": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetResult": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetSuccessor": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationPrintWithFlags": (None, (_POINTER, _POINTER, _PRINTER, ctypes.c_void_p)),
    "mlirOperationRemoveFromParent": (None, (_POINTER,)),
    "mlirOperationSetAttributeByName": (None, (_POINTER, _String, _POINTER)),
    "mlirOperationSetOperand": (None, (_POINTER, _INDEX, _POINTER)),
    "mlirOperationStateAddAttributes": (None, (_STATE, _INDEX, _POINTER)),
    "mlirOperationStateAddOperands": (None, (_STATE, _INDEX, _POINTER)),
    "mlirOperationStateAddResults": (None, (_STATE, _INDEX, _POINTER)),
    "mlirOperationVerify": (ctypes.c_bool, (_POINTER,)),
    "mlirRegionGetFirstBlock": (_POINTER, (_POINTER,)),
    "mlirStringAttrGetValue": (_String, (_POINTER,)),
    "mlirTypePrint": (None, (_POINTER, _PRINTER, ctypes.c_void_p)),
    "mlirValueGetFirstUse": (_POINTER, (_POINTER,)),
    "mlirValueGetType": (_POINTER, (_POINTER,)),
    "mlirValueIsABlockArgument": (ctypes.c_bool, (_POINTER,)),
    "mlirValueReplaceAllUsesOfWith": (None, (_POINTER, _POINTER)),
}


class _Text(ctypes.Structure):
    """The memory for a text, as `backends/native/text.cpp` declares it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("capacity", ctypes.c_size_t),
        ("size", ctypes.c_size_t),
    )


class _Printer:
    """Collects what the library prints through callbacks.

    Args:
      native: the library with our callback.
    """

    def __init__(self, native: Any) -> None:
        self._callback = _PRINTER(("gnomon_append_text", native))
        self._memory = ctypes.create_string_buffer(1 << 16)

    def printed(self, print_: Callable[[Any, Any], object]) -> str:
        """The text that a function prints, given a callback and its data."""
        while True:
            memory = self._memory
            text = _Text(ctypes.addressof(memory), len(memory), 0)
            print_(self._callback, ctypes.byref(text))
            if text.size <= len(memory):
                return ctypes.string_at(memory, text.size).decode()
            self._memory = ctypes.create_string_buffer(2 * text.size)


def _string(text: str) -> _String:
    data = text.encode()
    return _String(data, len(data))


def _handles(*handles: int) -> Any:
    return (ctypes.c_void_p * len(handles))(*handles)


class CompilerIR:
    """Access to the programs of one session of the compiler.

    Args:
      library: the compiler's library, as ctypes loads it.
      session: the session's handle.
      native: our own library, as ctypes loads it.
    """

    def __init__(self, library: Any, session: int, native: Any) -> None:
        self._library = library
        self._printed = _Printer(native).printed
        self._functions: dict[str, Any] = {}
        self._types: dict[int, str] = {}
        self._context = self.c("ireeCompilerSessionBorrowContext")(session)

    def c(self, name: str) -> Any:
        """A function of the library; a private copy, since others may set other types on theirs."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._library[name]
            function.restype, function.argtypes = _FUNCTIONS[name]
        return function

    # ------------------------------------------------------------------------------- the session

    def set_threads(self, on: bool) -> None:
        """Choose whether passes over several functions or kernels run at the same time."""
        self.c("mlirContextEnableMultithreading")(self._context, on)

    def run_phases(self, invocation: Any, first: bytes, last: bytes) -> bool:
        """Run an invocation from the end of one phase to the end of another; False if that fails.

        The program is verified at the end. By default the compiler verifies it after each of
        several hundred passes, which takes 30 % of a compilation.
        """
        handle = invocation._inv_p
        self.c("ireeCompilerInvocationSetVerifyIR")(handle, False)
        self.c("ireeCompilerInvocationSetCompileFromPhase")(handle, first)
        self.c("ireeCompilerInvocationSetCompileToPhase")(handle, last)
        if not invocation.execute():
            return False
        with self.module_of(invocation) as module:
            return bool(self.c("mlirOperationVerify")(module))

    def run_passes(self, invocation: Any, pipeline: bytes) -> bool:
        """Run passes on the module of an invocation; False if one fails."""
        return bool(self.c("ireeCompilerInvocationRunPassPipeline")(invocation._inv_p, pipeline))

    @contextlib.contextmanager
    def module_of(self, invocation: Any) -> Iterator[int]:
        """Take the module of an invocation, and give it back afterwards."""
        handle = invocation._inv_p
        module = self.c("ireeCompilerInvocationExportStealModule")(handle)
        try:
            yield module
        finally:
            if not self.c("ireeCompilerInvocationImportStealModule")(handle, module):
                raise RuntimeError("the compiler does not take back its own module")

    # ---------------------------------------------------------------------------------- reading

    def blocks(self, op: int) -> Iterator[int]:
        """The blocks of all regions of an operation."""
        for i in range(self.c("mlirOperationGetNumRegions")(op)):
            block = self.c("mlirRegionGetFirstBlock")(self.c("mlirOperationGetRegion")(op, i))
            while block:
                yield block
                block = self.c("mlirBlockGetNextInRegion")(block)

    def operations(self, block: int) -> Iterator[int]:
        """The operations of a block; the last yielded one may be erased or moved."""
        op = self.c("mlirBlockGetFirstOperation")(block)
        while op:
            following = self.c("mlirOperationGetNextInBlock")(op)
            yield op
            op = following

    def name(self, op: int) -> str:
        """An operation's name, with its dialect."""
        text = self.c("mlirIdentifierStr")(self.c("mlirOperationGetName")(op))
        return ctypes.string_at(text.data, text.length).decode()

    def operands(self, op: int) -> list[int]:
        """The operands of an operation."""
        get = self.c("mlirOperationGetOperand")
        return [get(op, i) for i in range(self.c("mlirOperationGetNumOperands")(op))]

    def results(self, op: int) -> list[int]:
        """The results of an operation."""
        get = self.c("mlirOperationGetResult")
        return [get(op, i) for i in range(self.c("mlirOperationGetNumResults")(op))]

    def block_of(self, op: int) -> int:
        """The block that contains an operation; 0 for the outermost operation."""
        return self.c("mlirOperationGetBlock")(op) or 0

    def parent(self, block: int) -> int:
        """The operation that contains a block."""
        return int(self.c("mlirBlockGetParentOperation")(block))

    def terminator(self, block: int) -> int:
        """The last operation of a block."""
        return int(self.c("mlirBlockGetTerminator")(block))

    def successors(self, block: int) -> list[int]:
        """The blocks to which control may pass at the end of a block."""
        last, get = self.terminator(block), self.c("mlirOperationGetSuccessor")
        return [get(last, i) for i in range(self.c("mlirOperationGetNumSuccessors")(last))]

    def argument(self, block: int, index: int) -> int:
        """An argument of a block."""
        return int(self.c("mlirBlockGetArgument")(block, index))

    def arguments(self, block: int) -> list[int]:
        """The arguments of a block."""
        return [self.argument(block, i) for i in range(self.c("mlirBlockGetNumArguments")(block))]

    def definition(self, value: int) -> int:
        """The operation that a value is a result of; 0 for an argument of a block."""
        if self.c("mlirValueIsABlockArgument")(value):
            return 0
        return int(self.c("mlirOpResultGetOwner")(value))

    def number(self, value: int) -> int:
        """The index of a value among the results or block arguments."""
        if self.c("mlirValueIsABlockArgument")(value):
            return int(self.c("mlirBlockArgumentGetArgNumber")(value))
        return int(self.c("mlirOpResultGetResultNumber")(value))

    def block_of_value(self, value: int) -> int:
        """The block that defines a value."""
        if self.c("mlirValueIsABlockArgument")(value):
            return int(self.c("mlirBlockArgumentGetOwner")(value))
        return self.block_of(self.definition(value))

    def uses(self, value: int) -> Iterator[tuple[int, int]]:
        """The uses of a value: operations, and the index of the operand."""
        use = self.c("mlirValueGetFirstUse")(value)
        while use:
            owner = self.c("mlirOpOperandGetOwner")(use)
            yield owner, self.c("mlirOpOperandGetOperandNumber")(use)
            use = self.c("mlirOpOperandGetNextUse")(use)

    def type_text(self, value: int) -> str:
        """The type of a value, as text."""
        type_ = self.c("mlirValueGetType")(value)
        if type_ not in self._types:
            self._types[type_] = self._printed(
                lambda out, data: self.c("mlirTypePrint")(type_, out, data)
            )
        return self._types[type_]

    def text(self, op: int) -> str:
        """An operation as text, without locations and without aliases of attributes."""
        flags = self.c("mlirOpPrintingFlagsCreate")()
        self.c("mlirOpPrintingFlagsUseLocalScope")(flags)
        self.c("mlirOpPrintingFlagsAssumeVerified")(flags)
        print_ = self.c("mlirOperationPrintWithFlags")
        text = self._printed(lambda out, data: print_(op, flags, out, data))
        self.c("mlirOpPrintingFlagsDestroy")(flags)
        return text

    def attribute_text(self, attribute: int) -> str:
        """An attribute as text."""
        return self._printed(lambda out, data: self.c("mlirAttributePrint")(attribute, out, data))

    def integer(self, op: int, name: str) -> int:
        """An attribute of an operation that is an integer."""
        return int(self.c("mlirIntegerAttrGetValueInt")(self.attribute(op, name)))

    def symbol(self, op: int) -> str:
        """The symbol that an operation defines."""
        text = self.c("mlirStringAttrGetValue")(self.attribute(op, "sym_name"))
        return ctypes.string_at(text.data, text.length).decode()

    def nested(self, op: int) -> Iterator[int]:
        """All operations nested in an operation, in preorder."""
        for block in self.blocks(op):
            for inner in self.operations(block):
                yield inner
                yield from self.nested(inner)

    def attribute(self, op: int, name: str) -> int:
        """An attribute of an operation; 0 if it has none of that name."""
        return self.c("mlirOperationGetAttributeByName")(op, _string(name)) or 0

    def is_splat(self, op: int) -> bool:
        """Whether an operation is a splat literal."""
        value = self.attribute(op, "value")
        if not value or not self.c("mlirAttributeIsADenseElements")(value):
            return False
        return bool(self.c("mlirDenseElementsAttrIsSplat")(value))

    def int_array(self, op: int, name: str) -> list[int]:
        """An attribute that is an array of integers; empty where the operation has none."""
        attribute = self.attribute(op, name)
        if not attribute:
            return []
        get, value = self.c("mlirArrayAttrGetElement"), self.c("mlirIntegerAttrGetValueInt")
        size = self.c("mlirArrayAttrGetNumElements")(attribute)
        return [value(get(attribute, i)) for i in range(size)]

    def segment_size(self, op: int, index: int) -> int:
        """The number of operands in a group of an operation's operands."""
        sizes = self.attribute(op, "operandSegmentSizes")
        return int(self.c("mlirDenseI32ArrayGetElement")(sizes, index))

    # --------------------------------------------------------------------------------- changing

    def parse(self, text: str) -> int:
        """A module from text.

        Raises:
          ValueError: the compiler rejects it, after printing the reason.
        """
        module = self.c("mlirModuleCreateParse")(self._context, _string(text))
        if not module:
            raise ValueError("the compiler does not take a program that is written for it")
        return int(module)

    def create(
        self,
        name: str,
        like: Sequence[int],
        operands: Sequence[int],
        attributes: dict[str, int],
        *,
        location_of: int,
    ) -> int:
        """Create an operation, in no block.

        Args:
          name: the operation's name.
          like: values of the types of its results.
          operands: its operands.
          attributes: its attributes, by name.
          location_of: an operation with the location for the new one.
        """
        text = _string(name)
        location = self.c("mlirOperationGetLocation")(location_of)
        state = _OperationState(name=text, location=location)
        types = map(self.c("mlirValueGetType"), like)
        self.c("mlirOperationStateAddResults")(state, len(like), _handles(*types))
        self.c("mlirOperationStateAddOperands")(state, len(operands), _handles(*operands))
        for key, value in attributes.items():
            named = _handles(self.c("mlirIdentifierGet")(self._context, _string(key)), value)
            self.c("mlirOperationStateAddAttributes")(state, 1, named)
        return int(self.c("mlirOperationCreate")(state))

    def parse_attribute(self, text: str) -> int:
        """An attribute from text.

        Raises:
          ValueError: the compiler rejects it.
        """
        attribute = self.c("mlirAttributeParseGet")(self._context, _string(text))
        if not attribute:
            raise ValueError(f"the compiler does not take the attribute {text}")
        return int(attribute)

    def set_attribute(self, op: int, name: str, attribute: int) -> None:
        """Set an attribute of an operation."""
        self.c("mlirOperationSetAttributeByName")(op, _string(name), attribute)

    def operation_of(self, module: int) -> int:
        """A module as an operation."""
        return int(self.c("mlirModuleGetOperation")(module))

    def append(self, block: int, op: int) -> None:
        """Append an operation that is in no block to a block."""
        self.c("mlirBlockAppendOwnedOperation")(block, op)

    def body(self, module: int) -> int:
        """The block of a module."""
        return next(self.blocks(self.c("mlirModuleGetOperation")(module)))

    def destroy_module(self, module: int) -> None:
        """Free a module that `parse` returned."""
        self.c("mlirModuleDestroy")(module)

    def erase(self, op: int) -> None:
        """Erase an operation whose results are unused."""
        self.c("mlirOperationDestroy")(op)

    def clone(self, op: int) -> int:
        """A copy of an operation, in no block."""
        return int(self.c("mlirOperationClone")(op))

    def remove(self, op: int) -> None:
        """Take an operation out of its block."""
        self.c("mlirOperationRemoveFromParent")(op)

    def prepend(self, block: int, op: int) -> None:
        """Move an operation to the start of a block."""
        self.remove(op)
        self.c("mlirBlockInsertOwnedOperation")(block, 0, op)

    def insert_before(self, op: int, new: int) -> None:
        """Insert an operation that is in no block before another one."""
        self.c("mlirBlockInsertOwnedOperationBefore")(self.block_of(op), op, new)

    def set_operand(self, op: int, index: int, value: int) -> None:
        """Replace an operand of an operation."""
        self.c("mlirOperationSetOperand")(op, index, value)

    def set_int_attribute(self, op: int, name: str, number: int) -> None:
        """Set an integer attribute of an operation, keeping its type."""
        old = self.attribute(op, name)
        new = self.c("mlirIntegerAttrGet")(self.c("mlirAttributeGetType")(old), number)
        self.c("mlirOperationSetAttributeByName")(op, _string(name), new)

    def replace(self, value: int, by: int) -> None:
        """Replace all uses of a value."""
        self.c("mlirValueReplaceAllUsesOfWith")(value, by)
