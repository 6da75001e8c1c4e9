"""Sphinx builds the documentation site from docs/ and the docstrings: `.ci/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import gnomon

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "gnomon"
author = "The gnomon authors"
copyright = "2026, the gnomon authors"
version = release = gnomon.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "examples",
    "mlir_lexer",
    "public_names",
]
exclude_patterns = ["_extensions"]
html_theme = "furo"
html_title = f"gnomon {release}"
html_show_sphinx = False

# Backticks in docstrings hold code, not references.
default_role = "code"
add_module_names = False
napoleon_use_ivar = True
autodoc_typehints = "signature"
# Signatures show defaults as they are written; their values may be arrays.
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
suppress_warnings = [
    # Signatures name types by short names, such as `shape`, that several classes define.
    "ref.python",
]
