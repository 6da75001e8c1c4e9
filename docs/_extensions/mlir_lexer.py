"""Colours for blocks of MLIR."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text
from sphinx.application import Sphinx


class MlirLexer(RegexLexer):
    """The textual form of MLIR, token by token."""

    name = "MLIR"
    aliases: ClassVar = ["mlir"]
    tokens: ClassVar = {
        "root": [
            (r"//.*", Comment.Single),
            (r'"[^"]*"', String),
            (r"%[\w#]+", Name.Variable),
            (r"@[\w.$]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"#\w[\w.]*", Name.Attribute),
            (r"\b(?:tensor|tuple|array|dense)\b|\b(?:bf|f|u?i)\d+\b", Keyword.Type),
            (r"\b(?:[a-z_]\w*\.)+\w+", Name.Builtin),
            (r"-?\b\d[\w.+-]*", Number),
            (r"\w+", Name),
            (r"->|[=:]", Operator),
            (r"\s+|.", Text),
        ]
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the lexer."""
    app.add_lexer("mlir", MlirLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
