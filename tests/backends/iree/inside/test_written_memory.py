"""The check `written_memory` on programs whose memory is planned."""

from __future__ import annotations

import pytest

from gnomon.backends.iree.inside import written_memory
from tests.backends.iree.inside.test_in_place_pass import parsed

R = "!stream.resource<external>"
PROGRAM = f"""
stream.executable private @k {{
  stream.executable.export public @k
}}
util.func public @main(%n: i1, %in: {R}, %bytes: !util.buffer) -> !hal.buffer_view {{
  %size = arith.constant 16 : index
  %none = arith.constant 0 : index
  %start = arith.constant 0 : i64
  %zero = arith.constant 0 : i32
  %x, %t = stream.resource.alloca uninitialized : {R}{{%size}} => !stream.timepoint
  %y, %u = stream.resource.alloca uninitialized : {R}{{%size}} => !stream.timepoint
  {{lines}}
}}
"""
LIST = f"(%x as %a: {R}{{%size}}, %y as %b: {R}{{%size}}, %in as %i: {R}{{%size}})"
FILL = f"stream.cmd.fill %zero, {{}}[%none for %size] : i32 -> {R}{{{{%size}}}}"
COPY = f"stream.cmd.copy {{}}[%none], {{}}[%none], %size : {R}{{{{%size}}}} -> {R}{{{{%size}}}}"
END = "util.return %view : !hal.buffer_view"


def execute(*ops: str, lists: str = LIST) -> str:
    body = "\n".join(ops)
    return f"%w = stream.cmd.execute await(%t) => with{lists} {{ {body} }} => !stream.timepoint"


def kernel(*accesses: str) -> str:
    arrays = ", ".join(f"{access}[%none for %size] : {R}{{%size}}" for access in accesses)
    return f"stream.cmd.dispatch @k::@k {{ {arrays} }}"


def wait(value: str) -> str:
    return f"%ready = stream.timepoint.await %w => {value} : {R}{{%size}}"


def read(value: str) -> str:
    return (
        f"%view = stream.tensor.export {value} : tensor<4xf32> in {R}{{%size}} -> !hal.buffer_view"
    )


ONLY_X = f"(%x as %a: {R}{{%size}})"
X_FROM_Y = f"(%x as %a: {R}{{%size}}, %y as %b: {R}{{%size}})"

# Whether the program reads what it has written, and the program.
PROGRAMS = {
    "filled": (True, [execute(FILL.format("%a"), lists=ONLY_X), wait("%x"), read("%ready"), END]),
    "never written": (False, [read("%x"), END]),
    "of constants": (
        True,
        [
            "%file = stream.file.constant %bytes[%none for %size] : !util.buffer{%size} -> "
            "!stream.file",
            f"%w = stream.file.read await(%t) => %file[%start], %x[%none], %size : !stream.file -> "
            f"{R}{{%size}} => !stream.timepoint",
            wait("%x"),
            read("%ready"),
            END,
        ],
    ),
    "another is written": (
        False,
        [execute(FILL.format("%a"), lists=ONLY_X), wait("%x"), read("%y"), END],
    ),
    "copied": (
        True,
        [
            execute(COPY.format("%i", "%b"), COPY.format("%b", "%a")),
            wait("%x"),
            read("%ready"),
            END,
        ],
    ),
    "copied from what nothing wrote": (
        False,
        [execute(COPY.format("%b", "%a"), lists=X_FROM_Y), wait("%x"), read("%ready"), END],
    ),
    "of a kernel": (
        True,
        [execute(kernel("ro %i", "wo %a", "wo %b")), wait("%x"), read("%ready"), END],
    ),
    "updated by a kernel": (
        True,
        [execute(kernel("rw %a"), lists=ONLY_X), wait("%x"), read("%ready"), END],
    ),
    "read by a kernel before": (
        False,
        [
            execute(kernel("ro %b", "wo %a"), lists=X_FROM_Y),
            wait("%x"),
            read("%ready"),
            END,
        ],
    ),
    "written in one branch": (
        False,
        [
            "cf.cond_br %n, ^one, ^end",
            "^one:",
            execute(FILL.format("%a"), lists=ONLY_X),
            "cf.br ^end",
            "^end:",
            read("%x"),
            END,
        ],
    ),
    "passed to a loop": (
        False,
        [
            f"cf.br ^again(%x : {R})",
            f"^again(%c: {R}):",
            read("%c"),
            f"cf.cond_br %n, ^again(%in : {R}), ^end",
            "^end:",
            END,
        ],
    ),
    "passed to the next iteration": (
        False,
        [
            f"cf.br ^again(%in : {R})",
            f"^again(%c: {R}):",
            read("%c"),
            f"cf.cond_br %n, ^again(%x : {R}), ^end",
            "^end:",
            END,
        ],
    ),
    "written before the loop": (
        True,
        [
            execute(FILL.format("%a"), lists=ONLY_X),
            wait("%x"),
            f"cf.br ^again(%ready : {R})",
            f"^again(%c: {R}):",
            read("%c"),
            f"cf.cond_br %n, ^again(%in : {R}), ^end",
            "^end:",
            END,
        ],
    ),
    "empty": (
        True,
        [
            f"%e, %v = stream.resource.alloca uninitialized : {R}{{%none}} => !stream.timepoint",
            f"%view = stream.tensor.export %e : tensor<0xf32> in {R}{{%none}} -> !hal.buffer_view",
            END,
        ],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_written_before_it_is_read(name: str) -> None:
    right, lines = PROGRAMS[name]
    with parsed(PROGRAM.replace("{lines}", "\n".join(lines))) as (ir, module, _):
        if right:
            written_memory.check(ir, module)
            return
        with pytest.raises(written_memory.UnwrittenMemoryError, match="before it is written"):
            written_memory.check(ir, module)
