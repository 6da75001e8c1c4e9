"""The benchmark's programs: they trace, and their figures come from processes that agree."""

import dataclasses
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from gnomon.tools.bench.frameworks import load_frameworks
from gnomon.tools.bench.measure import difference
from gnomon.tools.bench.programs import PROGRAMS, kernels
from gnomon.tools.bench.programs.__main__ import as_markdown, select
from gnomon.tools.bench.programs.measure import FIGURES, Outcome, run_program
from gnomon.tools.bench.programs.picture import as_picture
from gnomon.tools.bench.programs.process import load_results, save_results


def test_names_are_different():
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS)


@pytest.mark.slow
@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_the_program_has_the_types_of_jax(program):
    pytest.importorskip("jax")
    types = []
    for framework in load_frameworks(["gnomon", "jax"])[0]:
        function, arguments = program.build(framework)
        leaves = framework.module.tree.leaves(framework.module.eval_shape(function, *arguments))
        types.append([(tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves])
    assert types[0] == types[1]


@pytest.mark.slow
def test_a_program_is_measured_in_both_frameworks():
    pytest.importorskip("jax")
    program = next(p for p in kernels.PROGRAMS if p.name == "kernel/layer_norm")
    outcome = run_program(program, colds=1, turns=1, turn_s=0.01)
    assert not outcome.errors
    assert all(outcome.ratio(figure) for figure in FIGURES if figure != "memory")
    assert "**" in as_markdown([outcome])


@pytest.mark.slow
def test_results_that_differ_are_reported():
    pytest.importorskip("jax")
    program = next(p for p in kernels.PROGRAMS if p.name == "kernel/layer_norm")
    # No difference is within a negative tolerance.
    outcome = run_program(
        dataclasses.replace(program, tolerance=-1.0), colds=1, turns=1, turn_s=0.01
    )
    assert "agreement" in outcome.errors
    assert not outcome.figures
    assert "Not measured" in as_markdown([outcome])


def test_ratio_needs_both_frameworks():
    outcome = Outcome(PROGRAMS[0], {"call": {"gnomon": 2.0}})
    assert outcome.ratio("call") is None
    assert "–" in as_markdown([outcome])


def test_programs_are_selected_by_name_family_and_pattern():
    assert [p.name for p in select(["kernel/fft2"])] == ["kernel/fft2"]
    assert select(["kernel"]) == list(kernels.PROGRAMS)
    assert select(["kernel/*"]) == list(kernels.PROGRAMS)
    assert select([]) == list(PROGRAMS)
    with pytest.raises(ValueError, match="no program is called 'cernel'"):
        select(["cernel"])


def test_narrow_results_keep_their_dtype_and_tolerance(tmp_path):
    a = np.linspace(1, 100, 50).astype(ml_dtypes.bfloat16)
    b = (a.astype(np.float32) * 1.002).astype(ml_dtypes.bfloat16)
    file = str(tmp_path / "results.npz")
    save_results(file, [a, b, np.arange(3)])
    first, second, third = load_results(file)
    assert (first.dtype, second.dtype, third.dtype) == (a.dtype, b.dtype, np.arange(3).dtype)
    np.testing.assert_array_equal(first, a)
    assert difference([first], [second], 1.0) is None
    assert "differs" in str(difference([first], [second], 1e-3))


def test_a_picture_has_a_bar_for_each_program():
    ratios = {"a/fast": 0.25, "a/same": 1.0, "b/slow & large": 40.0}
    root = ElementTree.fromstring(as_picture(ratios, "calls"))
    svg = "{http://www.w3.org/2000/svg}"
    fast, same, slow = (r for r in root.iter(f"{svg}rect") if r.get("class") == "bar")
    assert float(fast.get("x", 0)) + float(fast.get("width", 0)) == pytest.approx(
        float(same.get("x", 0)), abs=0.2
    )
    assert float(same.get("width", 1)) == 0.0
    assert float(slow.get("x", 0)) == pytest.approx(float(same.get("x", 0)), abs=0.2)
    texts = [t.text for t in root.iter(f"{svg}text")]
    assert {"calls", "b/slow & large", "0.25", "40.00"} <= set(texts)
