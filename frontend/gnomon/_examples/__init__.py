"""Examples for the docstrings of functions that a factory makes: one table for each package.

A factory appends `example_section` to the docstring of each function that it makes. The tables hold
what the function prints, so ``tests/frontend/test_examples_in_docstrings.py`` runs them too.
"""

from __future__ import annotations

import re

from gnomon._examples.lax import LAX
from gnomon._examples.libraries import LIBRARIES
from gnomon._examples.nn import NN
from gnomon._examples.numpy import NUMPY
from gnomon._examples.scipy import SCIPY

_TABLES = {"numpy": NUMPY, "lax": LAX, "nn": NN, "scipy": SCIPY, "libraries": LIBRARIES}
_IMPORTS = {  # By the name that an example uses.
    "gnp": "import gnomon.numpy as gnp",
    "lax": "from gnomon import lax",
    "nn": "from gnomon import nn",
    "random": "from gnomon import random",
    "special": "from gnomon.scipy import special",
    "stax": "from gnomon.example_libraries import stax",
}


def example_section(package: str, name: str) -> str:
    """The section ``Example`` of a function's docstring; empty if the table has no entry.

    Args:
      package: the table: "numpy", "lax", "nn", "scipy" or "libraries".
      name: the function's name in the table.
    """
    text = _TABLES[package].get(name, "").strip()
    if not text:
        return ""
    used = set(re.findall(r"(?<![\w.])(\w+)\.", text))
    imports = [f">>> {line}" for module, line in _IMPORTS.items() if module in used]
    lines = "\n".join(f"      {line}" for line in [*imports, *text.splitlines()])
    return f"\n    Example:\n{lines}\n    "
