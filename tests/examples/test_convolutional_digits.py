"""The convolutional example learns, and its numbers are JAX's."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "convolutional_digits.py"
# The example's imports, and those that make it a program of JAX.
IMPORTS = {
    "import gnomon.numpy as gnp": "import jax.numpy as gnp",
    "import gnomon\n": "import jax as gnomon\n",
    "from gnomon.example_libraries": "from jax.example_libraries",
}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn (the extra 'examples')"
)


def output_of(source: str, epochs: int, capsys: pytest.CaptureFixture[str]) -> list[float]:
    """The losses and accuracies that the example prints."""
    module = ModuleType("convolutional_digits")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(EXAMPLE), "exec"), module.__dict__)
        module.__dict__["EPOCHS"] = epochs
        module.__dict__["main"]()
    finally:
        del sys.modules[module.__name__]
    return [float(number) for number in re.findall(r"\d+\.\d+", capsys.readouterr().out)]


@pytest.mark.slow
def test_the_network_learns_as_in_jax(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    source = EXAMPLE.read_text(encoding="utf-8")
    other = source
    for ours, theirs in IMPORTS.items():
        assert ours in other
        other = other.replace(ours, theirs)
    found, expected = output_of(source, 2, capsys), output_of(other, 2, capsys)
    assert len(found) == 4
    # A loss has four digits after the point, and a percentage one.
    assert found[0::2] == pytest.approx(expected[0::2], abs=1e-3)
    assert found[1::2] == pytest.approx(expected[1::2], abs=1.0)
    assert found[3] >= 80.0
