"""The driver on functions of Python: types, transformations, stages, errors at the user's line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.tools.driver import main
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.specifications import parse_arguments

Capture = pytest.CaptureFixture[str]


def test_arguments_are_written_as_types_and_literals() -> None:
    given = parse_arguments("f32[2,3] {w: f32[], 'b c': (i32, [bool[1]])}, 0.5 -3 x=None y='a'")
    struct = gnomon.ShapeDtypeStruct
    assert given.positional == (
        struct((2, 3), "float32"),
        {"w": struct((), "float32"), "b c": (struct((), "int32"), [struct((1,), "bool")])},
        0.5,
        -3,
    )
    assert given.by_name == {"x": None, "y": "a"}


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("f33[3]", "'f33' is not a dtype", 0),
        ("f32[3] (f32", "expected a type", 11),
        ("f32[3] ?", "neither a type", 7),
        ("{w f32}", "expected ':'", 3),
        ("x=f32 f32", "follows one by name", 6),
        ("x=f32 x=f32", "given twice", 6),
        ("f64[3]", "needs the option --x64", 0),
    ],
)
def test_a_wrong_specification_is_shown_with_a_caret(text: str, message: str, column: int) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        parse_arguments(text)
    assert str(raised.value).splitlines()[-1] == f"    {' ' * column}^"


def emitted(capsys: Capture, *arguments: str) -> str:
    assert main(["compile", *arguments]) == 0
    return capsys.readouterr().out


def test_types_come_from_the_option_or_from_the_file(model: Path, capsys: Capture) -> None:
    text = emitted(capsys, f"{model}:loss", "--emit=traced")
    assert "(%arg0: tensor<2xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<4x3xf32>" in text
    args = "{w: f32[3,2], b: f32[2]} f32[7,3] f32[7,2]"
    assert "tensor<7x3xf32>" in emitted(capsys, f"{model}:loss", "--args", args, "--emit=traced")
    assert main(["compile", f"{model}:power"]) == 2
    assert "power_example_args" in capsys.readouterr().err
    assert "tensor<2xf32>" in emitted(capsys, f"{model}:nothing", "--emit=traced")
    text = emitted(
        capsys, f"{model}:power", "--args=f64[2] 3", "--x64", "--static=1", "--emit=gnomon"
    )
    assert "integer_pow" in text and "main(%arg0: tensor<2xf64>) -> tensor<2xf64>" in text


@pytest.mark.smoke
def test_transformations_are_applied_in_order(model: Path, capsys: Capture) -> None:
    def signature(*options: str) -> str:
        text = emitted(capsys, f"{model}:scaled", "--emit=gnomon", *options)
        return next(line for line in text.splitlines() if "@main" in line).strip(" {")

    vector, matrix = "tensor<3xf32>", "tensor<5x3xf32>"
    assert signature("--grad") == f"func.func @main(%arg0: {vector}) -> {vector}"
    assert signature("--value-and-grad=0") == (
        f"func.func @main(%arg0: {vector}) -> (tensor<f32>, {vector})"
    )
    assert signature("--grad", "--vmap=0", "--batch-size=5") == (
        f"func.func @main(%arg0: {matrix}) -> {matrix}"
    )
    assert signature("--grad", "0", "--jacrev") == (
        f"func.func @main(%arg0: {vector}) -> tensor<3x3xf32>"
    )
    # The result of a mapped function is not a single number to differentiate.
    assert main(["compile", f"{model}:scaled", "--vmap=0", "--grad", "--batch-size=5"]) == 1
    assert "scalar" in capsys.readouterr().err
    for options in (["--vmap=0"], ["--batch-size=5"], ["--batch-size=5", "--args=f32[3]"]):
        assert main(["compile", f"{model}:scaled", *options]) == 2
        assert "--batch-size" in capsys.readouterr().err


def test_a_value_does_not_swallow_the_program(model: Path, capsys: Capture) -> None:
    assert "@main" in emitted(capsys, "--grad", f"{model}:scaled", "--emit=gnomon")


def test_every_stage_is_emitted(model: Path, capsys: Capture) -> None:
    marks = {
        "traced": "gnomon.vjp",
        "gnomon": "gnomon.mul",
        "legalized": "gnomon.mul",
        "stablehlo": "stablehlo.multiply",
        "kernels": "hal.executable",
        "llvm": "define internal",
        "asm": ".text",
    }
    for kind, mark in marks.items():
        assert mark in emitted(capsys, f"{model}:scaled", "--grad", "--emit", kind), kind
    assert "scaled" in emitted(capsys, f"{model}:scaled", "--emit=gnomon", "--debug-info")
    for output, start in (("a.o", b"\x7fELF"), ("a.so", b"\x7fELF"), ("a.mlirbc", b"ML\xefR")):
        assert main(["compile", f"{model}:scaled", "-o", output]) == 0
        assert Path(output).read_bytes().startswith(start)


@pytest.mark.slow
def test_code_for_machines_that_are_not_here(model: Path, capsys: Capture) -> None:
    scaled = f"{model}:scaled"
    assert ".target sm_90" in emitted(capsys, scaled, "--target=cuda:sm_90", "--emit=ptx")
    # One file for each kernel, in a folder.
    assert main(["compile", scaled, "--target=vulkan", "--emit=spirv", "-o", "kernels"]) == 0
    kernels = list(Path("kernels").iterdir())
    assert kernels
    for path in kernels:
        assert path.suffix == ".spv" and path.read_bytes().startswith(b"\x03\x02\x23\x07")
    targets = "--target=aarch64-linux,riscv64-linux"
    assert main(["compile", scaled, targets, "-o", "a.o"]) == 0
    machines = {"aarch64-linux": 183, "riscv64-linux": 243}
    for name, machine in machines.items():
        data = Path(f"a.{name}.o").read_bytes()
        assert data.startswith(b"\x7fELF") and data[18] == machine
    assert (
        main(["compile", scaled, "--target=wasm32", "--emit=iree-static-library", "-o", "lib"]) == 0
    )
    assert Path("lib/kernels.o").read_bytes().startswith(b"\0asm")
    header = Path("lib/kernels.h").read_text()
    assert "library_query(" in header
    assert Path("lib/program.vmfb").stat().st_size > 1000


def test_unsupported_ops_of_a_target_are_named(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:scaled", "--target=cuda", "--emit=asm"]) == 1
    assert "'cuda' has no asm; --emit takes traced, gnomon" in capsys.readouterr().err
    assert main(["compile", f"{model}:scaled", "--target=cdua"]) == 2
    assert "did you mean 'cuda'?" in capsys.readouterr().err


def test_functions_and_files_are_looked_for(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:scale"]) == 1
    assert "did you mean 'scaled'?" in capsys.readouterr().err
    assert main(["compile", str(model)]) == 2
    assert f"{model}:NAME; it has predict, loss" in capsys.readouterr().err
    assert main(["compile", f"{model}:SCALE"]) == 1
    assert "is not a function" in capsys.readouterr().err
    assert main(["compile", "absent.py:f"]) == 1
    assert main(["compile", "absent.module:f"]) == 1
    assert "no module 'absent.module'" in capsys.readouterr().err
    assert "gnomon.sin" in emitted(capsys, "gnomon.numpy:sin", "--args=f32[2]", "--emit=gnomon")


def lines_of_error(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["compile", *arguments]) == 1
    return capsys.readouterr().err.splitlines()


def line_of(model: Path, text: str) -> int:
    lines = model.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip() == text)


def caret_fits(line: str, caret: str, part: str) -> bool:
    return line[caret.index("^") : caret.rindex("^") + 1] == part


def test_an_error_in_the_function_is_at_its_line(model: Path, capsys: Capture) -> None:
    args = "{w: f32[3,2], b: f32[2]} f32[4,4] f32[4,2]"
    first, line, caret, caller, called, _ = lines_of_error(capsys, f"{model}:loss", "--args", args)
    inner = 'return gnp.tanh(x @ params["w"] + params["b"])'
    assert first.startswith(f"{model}:{line_of(model, inner)}")
    assert "error: TypeError: " in first
    assert line.strip() == inner
    outer = "return gnp.mean((predict(params, x) - y) ** 2)"
    assert caller == f"{model}:{line_of(model, outer)}: called from here"
    assert called.strip() == outer
    if hasattr(__import__("types").CodeType, "co_positions"):
        assert caret_fits(line, caret, 'x @ params["w"]')


def test_a_long_message_follows_the_line(model: Path, capsys: Capture) -> None:
    first, line, caret, *rest = lines_of_error(capsys, f"{model}:branches", "--args=f32")
    assert "TracerBoolConversionError" in first
    assert line.strip() == "if x > 0:" and "^" in caret
    assert any("lax.cond" in text for text in rest)


def test_an_error_of_a_pass_is_at_the_users_line(model: Path, capsys: Capture) -> None:
    arguments = (f"{model}:factor", "--args=f32[9,9]", "--target=wasm32")
    first, line, caret = lines_of_error(capsys, *arguments)
    text = "return gnp.linalg.cholesky(y)"
    assert first.startswith(f"{model}:{line_of(model, text)}: error: UnsupportedOnTarget: ")
    assert "loc(" not in first
    assert caret_fits(line, caret, text)


def test_a_syntax_error_is_at_its_line(model: Path, capsys: Capture) -> None:
    model.write_text("def f(x):\n    return x +* 2\n")
    first, line, caret = lines_of_error(capsys, f"{model}:f", "--args=f32")
    assert first == f"{model}:2:15: error: SyntaxError: invalid syntax"
    assert caret_fits(line, caret, "*")


def test_an_error_while_the_file_is_loaded(model: Path, capsys: Capture) -> None:
    model.write_text("import nothing_of_that_name\n")
    first, line, _ = lines_of_error(capsys, f"{model}:f", "--args=f32")
    assert first.startswith(f"{model}:1") and "ModuleNotFoundError" in first
    assert line.strip() == "import nothing_of_that_name"


def test_inspection_counts_ops_by_line(model: Path, capsys: Capture) -> None:
    assert main(["inspect", f"{model}:scaled", "--grad"]) == 0
    out = capsys.readouterr().out
    assert "x  f32[3]" in out and "result  f32[3]" in out
    text = "return gnp.sum(SCALE * x**2)"
    assert f"{model}:{line_of(model, text)}" in out and text in out


def test_a_closed_over_array_is_part_of_the_program(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:scaled", "-o", "a.mlirbc"]) == 0
    assert main(["run", "a.mlirbc", "--input=1,2,3", "--output=o.npy"]) == 0
    np.testing.assert_allclose(np.load("o.npy"), 36.0, rtol=1e-6)
