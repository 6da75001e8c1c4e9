"""Whole programs in C: they are built, linked and run, here and for other machines."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.backends.standalone_c import archive
from gnomon.tools.driver import main
from tests.tolerance import assert_each_near

Capture = pytest.CaptureFixture[str]

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror"]

PROGRAM = """
#include <stdio.h>
#include "loss.h"

int main(void) {
  float b[LOSS_SIZE_params_b] = {0}, w[LOSS_SIZE_params_w], x[LOSS_SIZE_x], y[LOSS_SIZE_y] = {0};
  float b_out[LOSS_SIZE_out_b], w_out[LOSS_SIZE_out_w];
  static char workspace[LOSS_WORKSPACE + 1];
  for (int i = 0; i < LOSS_SIZE_params_w; ++i) w[i] = 1;
  for (int i = 0; i < LOSS_SIZE_x; ++i) x[i] = 0.5f + 0.125f * i;
  /* With memory of its own, and with memory that is given. */
  for (int call = 0; call < 2; ++call) {
    if (loss(b, w, x, y, b_out, w_out, call ? workspace : 0) != 0) return 1;
    for (int i = 0; i < LOSS_SIZE_out_w; ++i) printf("%.9g ", w_out[i]);
  }
  return 0;
}
"""


@pytest.fixture
def expected(model: Path) -> np.ndarray:
    """The gradient that the C program prints, twice."""
    sys.path.insert(0, str(Path.cwd()))
    loss = __import__("driver_model").loss
    x = (0.5 + 0.125 * np.arange(12, dtype=np.float32)).reshape(4, 3)
    params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    gradient = np.asarray(gnomon.grad(loss)(params, x, np.zeros((4, 2), np.float32))["w"])
    return np.tile(gradient.reshape(-1), 2)


def check(run: list[str], expected: np.ndarray) -> None:
    found = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert_each_near(np.array(found.split(), np.float32), expected, 64, scale=1.0)


@needs_cc
def test_a_library_is_linked_into_a_c_program(model: Path, expected: np.ndarray) -> None:
    assert main(["compile", f"{model}:loss", "--grad", "-o", "libloss.a"]) == 0
    Path("program.c").write_text(PROGRAM)
    build = ["cc", *WARNINGS, "program.c", "libloss.a", "-lm", "-o", "program"]
    subprocess.run(build, check=True)
    check(["./program"], expected)


@needs_cc
def test_no_access_outside_of_arrays_and_no_leaks(model: Path, expected: np.ndarray) -> None:
    assert main(["compile", f"{model}:loss", "--grad", "--emit=c"]) == 0
    Path("program.c").write_text(PROGRAM)
    checks = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    build = ["cc", *WARNINGS, *checks, "program.c", "loss.c", "-lm", "-o", "program"]
    if subprocess.run(build, check=False).returncode:
        pytest.skip("the compiler has no sanitizers")
    check(["./program"], expected)


@needs_cc
def test_a_header_is_for_cpp_too(model: Path) -> None:
    assert main(["compile", f"{model}:predict", "--args", "{w: f32[3,2], b: f32[2]} f32[3]",
                 "-o", "p.c"]) == 0  # fmt: skip
    Path("main.cpp").write_text('#include "predict.h"\nint main() { return PREDICT_SIZE_x - 3; }\n')
    subprocess.run(["c++", "-Wall", "-Werror", "-c", "main.cpp"], check=True)
    assert "params_w: float[3][2], 6 in all" in Path("predict.h").read_text()


@needs_cc
def test_several_functions_in_one_library(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:scaled,nothing", "-o", "both.a"]) == 0
    capsys.readouterr()
    assert Path("scaled.h").exists()
    assert Path("nothing.h").exists()
    listed = subprocess.run(["nm", "both.a"], check=True, capture_output=True, text=True).stdout
    assert " T scaled" in listed
    assert " T nothing" in listed


def test_the_source_goes_to_standard_output(model: Path, capsys: Capture) -> None:
    assert main(["compile", f"{model}:scaled", "--emit=c", "-o", "-"]) == 0
    assert "int scaled(const float *restrict x," in capsys.readouterr().out
    assert not Path("scaled.h").exists()
    assert main(["compile", f"{model}:scaled,nothing", "--emit=c", "-o", "-"]) == 2


def test_without_a_compiler_the_error_says_what_to_install(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(archive, "_zig", lambda: None)
    assert main(["compile", f"{model}:scaled", "-o", "s.a"]) == 4
    assert "needs a C compiler" in capsys.readouterr().err
    assert main(["compile", f"{model}:scaled", "--target=riscv64-linux", "-o", "s.a"]) == 4
    assert "riscv64-linux-gnu-gcc or zig (pip install ziglang)" in capsys.readouterr().err


@needs_cc
def test_complex_numbers_are_pairs_in_c(model: Path) -> None:
    Path("c.py").write_text(
        "import gnomon.numpy as gnp\ndef f(z):\n    return gnp.fft.ifft(gnp.fft.fft(z)) * 2j\n"
    )
    assert main(["compile", "c.py:f", "--args", "c64[3]", "-o", "c.a"]) == 0
    Path("main.c").write_text(
        '#include <complex.h>\n#include <stdio.h>\n#include "f.h"\nint main(void) {\n'
        "  gnomon_complex_float z[F_SIZE_z] = {{1, 2}, {3, 4}, {5, 6}};\n"
        "  float complex out[F_SIZE_out_result];\n"
        "  if (f(z, (gnomon_complex_float *)out, NULL)) return 1;\n"
        '  for (int i = 0; i < 3; ++i) printf("%.6g %.6g ", crealf(out[i]), cimagf(out[i]));\n}\n'
    )
    subprocess.run(["cc", *WARNINGS, "main.c", "c.a", "-lm", "-o", "c"], check=True)
    check(["./c"], np.array([-4, 2, -8, 6, -12, 10], np.float32))


@needs_cc
def test_names_of_the_c_library_are_not_hidden(model: Path) -> None:
    Path("c.py").write_text(
        "import gnomon.numpy as gnp\ndef log(exp, free, sqrtf):\n"
        "    return gnp.exp(exp) + gnp.sqrt(gnp.cumsum(free) * sqrtf)\n"
    )
    shapes = "f64[4] f64[4] f64[4]"
    assert main(["compile", "c.py:log", "--args", shapes, "--x64", "-o", "c.a"]) == 0
    header = Path("log_.h").read_text()
    assert "int log_(const double *" in header
    assert "exp_" in header
    assert "sqrtf_" in header


def test_what_is_not_for_c_is_named_with_its_line(model: Path, capsys: Capture) -> None:
    Path("c.py").write_text(
        "import gnomon.numpy as gnp\ndef f(x):\n    return gnp.linalg.eigvals(x).real\n"
    )
    assert main(["compile", "c.py:f", "--args", "f32[8,8]", "--emit=c"]) == 1
    error = capsys.readouterr().err
    assert "c.py:3: error: UnsupportedOnTarget: gnomon." in error
    assert "it needs LAPACK" in error
    assert main(["compile", "c.py:f", "--args", "f32[8,8]", "--emit=c", "--target=vulkan"]) == 1
    assert "'vulkan' has no c" in capsys.readouterr().err


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_other_processors_under_an_emulator(
    model: Path, expected: np.ndarray, machine: str
) -> None:
    compiler, emulator = f"{machine}-linux-gnu-gcc", f"qemu-{machine}-static"
    for needed, package in ((compiler, f"gcc-{machine}-linux-gnu"), (emulator, "qemu-user-static")):
        if shutil.which(needed) is None:
            pytest.skip(f"needs {needed} (Debian's {package})")
    target = f"--target={machine}-linux"
    assert main(["compile", f"{model}:loss", "--grad", target, "-o", "libloss.a"]) == 0
    Path("program.c").write_text(PROGRAM)
    build = [compiler, "-static", *WARNINGS, "program.c", "libloss.a", "-lm", "-o", "program"]
    subprocess.run(build, check=True)
    check([emulator, "./program"], expected)
