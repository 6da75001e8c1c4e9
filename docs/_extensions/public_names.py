"""The directive ``public-names``: the reference of every public name of a module.

    .. public-names:: gnomon.numpy

Each name of the module's ``__all__`` gets an entry from its docstring. The build fails if a public
name of the package has no entry.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from public_api import public_modules, public_names
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", None)).partition(".")[0] == "gnomon"


@functools.cache
def _first_exports() -> dict[type, str]:
    """The first public name of every class: the one whose entry describes it."""
    first: dict[type, str] = {}
    for module in public_modules():
        names = public_names(module)
        # In a module, the class's own name goes before an alias.
        for name in sorted(names, key=lambda n: n != getattr(getattr(module, n), "__name__", "")):
            value = getattr(module, name)
            if isinstance(value, type):
                first.setdefault(value, f"{module.__name__}.{name}")
    return first


def _entry(module: str, name: str, value: Any) -> list[str]:
    """The lines that describe one name."""
    full = f"{module}.{name}"
    own_name = getattr(value, "__name__", None)
    origin = f"{getattr(value, '__module__', '')}.{own_name}".removeprefix("builtins.")
    if isinstance(value, type):
        if _is_ours(value):
            origin = _first_exports()[value]
        if origin == full:
            return [f".. autoclass:: {full}", "   :members:", ""]
        return [f".. py:class:: {name}", "", f"   The same class as ``{origin}``.", ""]
    if callable(value) and own_name:
        if _is_ours(value):
            return [f".. autofunction:: {full}", ""]
        return [f".. py:function:: {name}", "", f"   The same function as ``{origin}``.", ""]
    doc = "" if isinstance(value, (int, float, frozenset)) else type(value).__doc__ or ""
    text = doc.strip().splitlines()[:1] if _is_ours(type(value)) else []
    lines = [f".. py:data:: {name}"]
    if not text:
        lines.append(f"   :value: {value!r}")
    return [*lines, "", *(f"   {line}" for line in text), ""]


class PublicNames(SphinxDirective):
    """Entries of all public names of a module, in alphabetical order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the entries."""
        module = importlib.import_module(self.arguments[0])
        lines = [f".. py:module:: {module.__name__}", ""]
        for name in public_names(module):
            lines += _entry(module.__name__, name, getattr(module, name))
        # Parsed as the page is: pages in Markdown hold the directive in an `eval-rst` block.
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, module.__name__), 0, parent)
        return parent.children


def adapt_docstring(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Turn two idioms of plain text into reStructuredText: `` `Array`s `` and ``|x|``."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        pieces = re.split(r"(``.*?``|`[^`]*`)", line)
        for k, piece in enumerate(pieces):
            if not piece.startswith("`"):
                pieces[k] = re.sub(r"\|(\w+)\|", r"\\|\1\\|", piece)
            elif re.match(r"\w", "".join(pieces[k + 1 : k + 2])):
                pieces[k] += "\\ "
        lines[i] = "".join(pieces)


def check_complete(app: Sphinx, error: Exception | None) -> None:
    """Fail a build whose reference leaves out a public name."""
    if error is not None or app.builder.name != "html":
        return
    described = {name for name, *_ in app.env.get_domain("py").get_objects()}
    public = {f"{m.__name__}.{name}" for m in public_modules() for name in public_names(m)}
    if missing := sorted(public - described):
        raise ExtensionError(f"no page of docs/reference describes {', '.join(missing)}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the check."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", adapt_docstring)
    app.connect("build-finished", check_complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
