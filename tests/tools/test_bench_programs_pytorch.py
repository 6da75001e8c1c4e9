"""The benchmark's programs in PyTorch: each has a port, whose results are gnomon's."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gnomon
from gnomon.tools.bench.frameworks import load_frameworks
from gnomon.tools.bench.measure import difference
from gnomon.tools.bench.programs import PROGRAMS, __main__, measure, pytorch
from gnomon.tools.bench.programs.__main__ import as_markdown, main
from gnomon.tools.bench.programs.measure import PYTORCH_FIGURES, Outcome, run_program

LAYER_NORM = next(p for p in PROGRAMS if p.name == "kernel/layer_norm")


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    # Its threads wait for each other without sleeping, for milliseconds where cores are shared.
    torch.set_num_threads(1)
    yield load_frameworks(["torch"])[0][0]
    torch.set_num_threads(threads)


def test_every_program_has_a_port_and_every_port_a_program():
    for family, module in pytorch.MODULES.items():
        file = find_spec(f"{pytorch.__name__}.{module}").origin
        parsed = ast.parse(Path(file).read_text(encoding="utf-8")).body
        ports = {
            node.name
            for node in parsed
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        }
        assert {f"{family}/{name}" for name in ports} == {
            p.name for p in PROGRAMS if p.name.startswith(f"{family}/")
        }
    assert {p.name.split("/")[0] for p in PROGRAMS} == set(pytorch.MODULES)


def test_arguments_that_differ_are_those_of_programs():
    assert set(pytorch.ADAPTED) <= {p.name for p in PROGRAMS}


def test_pytorch_is_not_imported_before_a_port_is_asked_for():
    code = (
        "import sys, gnomon.tools.bench.programs.process, gnomon.tools.bench.programs.__main__\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_the_port_agrees(program, torch):
    (gnomon_framework,), _ = load_frameworks(["gnomon"])
    function, given = program.build(gnomon_framework)
    if program.name == "simulation/mandelbrot":
        # Eager products of complex numbers are NumPy's, which round once less: 4 counts differ.
        function = gnomon.jit(function)
    expected = gnomon_framework.arrays(function(*given))
    arrays = pytorch.numpy_arguments(program, gnomon_framework)
    tensors = gnomon.tree.map(torch.from_numpy, arrays)
    port = pytorch.load_port(program)
    results = torch.arrays(port(*tensors))
    assert difference(results, expected, program.tolerance) is None
    # A call leaves its arguments as they are: calls are repeated.
    assert difference(torch.arrays(tensors), torch.arrays(arrays), 0.0) is None


def test_narrow_arrays_come_back_from_pytorch(torch):
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    tensor = torch.from_numpy(array)
    assert tensor.dtype == torch.module.bfloat16
    (back,) = torch.arrays(tensor)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_pytorch_takes_turns_with_the_others(torch):
    pytest.importorskip("jax")
    outcome = run_program(LAYER_NORM, colds=1, turns=1, turn_s=0.01, warm=False, pytorch=True)
    assert not outcome.errors
    assert outcome.ratio("call", "torch")
    assert outcome.ratio("call")


def test_results_that_differ_leave_the_figures_of_the_others(torch, monkeypatch):
    pytest.importorskip("jax")
    problems = iter([None, "array 0 differs"])  # of gnomon and JAX, then of PyTorch
    monkeypatch.setattr(measure, "difference", lambda *_: next(problems))
    outcome = run_program(LAYER_NORM, colds=1, turns=1, turn_s=0.01, warm=False, pytorch=True)
    assert outcome.errors == {"torch": "other results than JAX: array 0 differs"}
    assert outcome.ratio("call")
    assert outcome.ratio("call", "torch") is None
    assert "`kernel/layer_norm`, torch: other results" in as_markdown([outcome], pytorch=True)


def test_the_table_has_columns_of_pytorch_on_request():
    figures = {"call": {"gnomon": 1.0, "jax": 2.0, "torch": 4.0}, "memory": {"gnomon": 2.0**20}}
    both = [Outcome(LAYER_NORM, figures), Outcome(PROGRAMS[0], {"call": {"gnomon": 1.0}})]
    plain, wide = (as_markdown(both, pytorch).splitlines() for pytorch in (False, True))
    assert "PyTorch" not in plain[0]
    assert wide[0].count("PyTorch") == len(PYTORCH_FIGURES)
    # The columns of gnomon and JAX stay as they are.
    assert all(line.startswith(short) for short, line in zip(plain[:5], wide[:5], strict=True))
    assert wide[2].endswith("| 4.00 s | 0.25 | – | – |")
    assert wide[4].endswith("|  | **0.25** |  | – |")


def test_without_pytorch_the_flag_is_an_error(monkeypatch, capsys):
    missing = {"torch": "PyTorch is not installed (No module named 'torch')"}
    monkeypatch.setattr(__main__, "load_frameworks", lambda names: ([], missing))
    monkeypatch.setattr(__main__, "use_platform", lambda platform: None)
    assert main(["--pytorch", "--only", "kernel/layer_norm"]) == 2
    assert capsys.readouterr().err.startswith("bench: PyTorch is not installed")
