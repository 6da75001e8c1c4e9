"""The C source and header of a program."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.backends.compilation import Artifact
from gnomon.backends.kernels.lowering import KernelBackend
from gnomon.backends.kernels.program import Kernels, kernels
from gnomon.backends.kernels.types import of_type
from gnomon.backends.kernels.workspace import ALIGNMENT
from gnomon.backends.standalone_c.prelude import prelude
from gnomon.backends.standalone_c.printer import Printer
from gnomon.backends.standalone_c.types import C_TYPES, COMPLEX_TYPES, parameter_type
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import TensorType, is_complex, short_name

__all__ = ["CBackend", "CSource", "c_source"]

# Keywords, and names that the code uses.
_RESERVED = frozenset(
    {
        *("auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "do"),
        *("double", "else", "enum", "extern", "false", "float", "for", "goto", "if", "inline"),
        *("int", "long", "main", "new", "register", "restrict", "return", "short", "signed"),
        *("sizeof", "static", "struct", "switch", "this", "true", "typedef", "union", "unsigned"),
        *("void", "volatile", "while", "workspace", "allocated"),
        # Functions of <stdlib.h> and <string.h>.
        *("abort", "abs", "atexit", "atof", "atoi", "atol", "atoll", "bsearch", "calloc", "div"),
        *("exit", "free", "getenv", "labs", "ldiv", "llabs", "lldiv", "malloc", "mblen"),
        *("mbstowcs", "mbtowc", "memchr", "memcmp", "memcpy", "memmove", "memset", "qsort", "rand"),
        *("realloc", "srand", "strcat", "strchr", "strcmp", "strcoll", "strcpy", "strcspn"),
        *("strerror", "strlen", "strncat", "strncmp", "strncpy", "strpbrk", "strrchr", "strspn"),
        *("strstr", "strtod", "strtof", "strtok", "strtol", "strtold", "strtoll", "strtoul"),
        *("strtoull", "strxfrm", "system", "wcstombs", "wctomb"),
    }
)
# Functions of <math.h>, without the suffix of their type.
_MATH = frozenset(
    {
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign"),
        *("cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma"),
        *("fmax", "fmin", "fmod", "frexp", "gamma", "hypot", "ilogb", "ldexp", "lgamma", "llrint"),
        *("llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround", "modf", "nan"),
        *("nearbyint", "nextafter", "nexttoward", "pow", "remainder", "remquo", "rint", "round"),
        *("scalbln", "scalbn", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
        *("j0", "j1", "jn", "y0", "y1", "yn"),
    }
)


class CBackend(KernelBackend):
    """Lowers programs to StableHLO, which `c_source` writes in C."""

    platform = "c"
    written = "be written in C"


@dataclass(frozen=True)
class CSource:
    """A program in C.

    Attributes:
      name: the name of the function.
      code: the source, which includes the header ``<name>.h``.
      header: the header.
      workspace: the size in bytes of the memory that a call needs for intermediate values.
    """

    name: str
    code: str
    header: str
    workspace: int


def _identifier(text: str) -> str:
    name = re.sub(r"\W", "_", text).strip("_") or "x"
    if name[0].isdigit():
        name = f"x_{name}"
    # Variables of the code are a letter and a number, such as t12.
    reserved = (
        name in _RESERVED
        or name in _MATH
        or (name[-1] in "fl" and name[:-1] in _MATH)
        or re.fullmatch(r"([a-z]|lanes)\d+", name)
    )
    return f"{name}_" if reserved else name


def _parameters(names: Sequence[str], taken: set[str], prefix: str = "") -> list[str]:
    """Distinct names for parameters in C."""
    chosen = []
    for text in names:
        name = _identifier(prefix + text)
        base, number = name, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        chosen.append(name)
    return chosen


def c_source(
    artifact: Artifact,
    name: str,
    arguments: Sequence[str],
    results: Sequence[str],
) -> CSource:
    """Write in C a program that `CBackend` has lowered.

    Args:
      artifact: the program.
      name: the name of the function.
      arguments, results: the names from which those of the parameters are made.

    Raises:
      UnsupportedOnTarget: an operation or a dtype has no C code.
    """
    name = _identifier(name)
    program = kernels(artifact)
    taken: set[str] = {name}
    inputs = _parameters(arguments, taken)
    outputs = _parameters(results, taken, "out_")
    signature = _signature(name, program, inputs, outputs)
    pointers: list[str] = []
    aliases: dict[str, list[str]] = {}
    for number, (parameter, type_) in enumerate(
        zip([*inputs, *outputs], [*program.inputs, *program.outputs], strict=True)
    ):
        pointer, alias = _pointer(parameter, type_, number, constant=number < len(inputs))
        pointers.append(pointer)
        aliases[pointer] = alias
    printer = Printer([*pointers, "gnomon_memory"])
    with context():
        printer.write(ir.Module.parse(program.text))
    text = "\n".join(printer.lines)
    defined = [
        line for p, alias in aliases.items() if re.search(rf"\b{p}\b", text) for line in alias
    ]
    function = _function(
        signature, name, [*inputs, *outputs], [*defined, *printer.lines], program.workspace
    )
    body = "\n".join([*printer.constants, function])
    code = "\n".join(
        [
            f"/* {name}: a program of gnomon, in C. Build it with optimization (-O3). */",
            f'#include "{name}.h"',
            "",
            prelude(body),
            body,
        ]
    )
    # The function aligns the start of the workspace.
    workspace = program.workspace + ALIGNMENT if program.workspace else 0
    header = _header(name, signature, artifact, program, inputs, outputs, workspace)
    return CSource(name, code, header, workspace)


def _pointer(
    parameter: str, type_: TensorType, number: int, *, constant: bool
) -> tuple[str, list[str]]:
    """The pointer by which a function's body accesses a parameter, and its definition if it is new.

    The body knows signed integers and the parts of complex numbers.
    """
    element = C_TYPES[of_type(type_).stored]
    if element == parameter_type(type_):
        return parameter, []
    kind = f"const {element}" if constant else element
    return f"p{number}", [f"  {kind} *const p{number} = ({kind} *){parameter};"]


def _signature(name: str, program: Kernels, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    parameters = [
        f"const {parameter_type(t)} *restrict {n}"
        for n, t in zip(inputs, program.inputs, strict=True)
    ]
    parameters += [
        f"{parameter_type(t)} *restrict {n}" for n, t in zip(outputs, program.outputs, strict=True)
    ]
    separator = ",\n" + " " * len(f"int {name}(")
    return f"int {name}({separator.join([*parameters, 'void *workspace'])})"


def _function(
    signature: str, name: str, parameters: Sequence[str], body: Sequence[str], workspace: int
) -> str:
    lines, text = [signature, "{"], "\n".join(body)
    lines += [f"  (void){p};" for p in parameters if not re.search(rf"\b{p}\b", text)]
    if workspace:
        lines += [
            "  void *allocated = NULL;",
            "  if (workspace == NULL) {",
            f"    workspace = allocated = malloc({name.upper()}_WORKSPACE);",
            f"    if (workspace == NULL) return {name.upper()}_OUT_OF_MEMORY;",
            "  }",
            f"  char *const gnomon_memory = (char *)workspace + ({ALIGNMENT} - "
            f"(uintptr_t)workspace % {ALIGNMENT}) % {ALIGNMENT};",
        ]
    else:
        lines.append("  (void)workspace;")
    lines += body
    if workspace:
        lines.append("  free(allocated);")
    return "\n".join([*lines, "  return 0;", "}", ""])


def _header(
    name: str,
    signature: str,
    artifact: Artifact,
    program: Kernels,
    inputs: Sequence[str],
    outputs: Sequence[str],
    workspace: int,
) -> str:
    upper = name.upper()
    taken = zip(inputs, artifact.input_types, program.inputs, strict=True)
    given = zip(outputs, artifact.output_types, program.outputs, strict=True)
    described = [f"   takes  {n}: {_described(*types)}" for n, *types in taken]
    described += [f"   gives  {n}: {_described(*types)}" for n, *types in given]
    types_ = (*artifact.input_types, *artifact.output_types)
    sizes = [
        f"#define {upper}_SIZE_{n} {t.size}"
        for n, t in zip((*inputs, *outputs), types_, strict=True)
    ]
    declared = signature.replace("restrict ", f"{upper}_RESTRICT ")
    types = [COMPLEX_TYPES] if any(is_complex(t.dtype) for t in types_) else []
    return "\n".join(
        [
            f"/* {name}: a program of gnomon. Arrays are in row-major order.",
            "",
            *described,
            "",
            "   Arrays of results must overlap neither each other nor arguments. workspace is",
            f"   {upper}_WORKSPACE bytes of memory, or NULL: then the function allocates and frees",
            f"   as much. The result is 0, or {upper}_OUT_OF_MEMORY. Several threads may call the",
            "   function at the same time, each with its own results and workspace. */",
            f"#ifndef GNOMON_{upper}_H",
            f"#define GNOMON_{upper}_H",
            "#include <stdint.h>",
            "",
            *types,
            *sizes,
            f"#define {upper}_WORKSPACE {workspace}",
            f"#define {upper}_OUT_OF_MEMORY 1",
            "",
            "#ifdef __cplusplus",
            f"#define {upper}_RESTRICT",
            'extern "C" {',
            "#else",
            f"#define {upper}_RESTRICT restrict",
            "#endif",
            f"{declared};",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _described(type_: TensorType, stored: TensorType) -> str:
    """The words on an argument or result, given its type and that of its memory."""
    element = parameter_type(stored)
    shape = "".join(f"[{n}]" for n in type_.shape) or " (one element)"
    has_bits = of_type(stored).is_half or stored.dtype != type_.dtype
    bits = f", the bits of {short_name(type_.dtype)}" if has_bits else ""
    return f"{element}{shape}, {math.prod(type_.shape)} in all{bits}"
