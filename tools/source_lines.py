"""Lines of source in messages, with carets under the places that the messages are about."""

from __future__ import annotations

import re

__all__ = ["describe_parse_error", "quoted"]

# MLIR's parser calls its input "-".
_PARSED = re.compile(r'"-":(\d+):(\d+): (.*)')
_HEADLINE = "Unable to parse module assembly"


def quoted(line: str, column: int = 0, end: int = 0) -> list[str]:
    """A line without its indentation, and carets under a place in it; nothing if it is blank.

    Args:
      line: the line.
      column, end: the first column, and the column after the last. Columns count from 1, and column
        0 means the whole line.
    """
    text = line.rstrip("\n")
    if not text.strip():
        return []
    indent = len(text) - len(text.lstrip())
    first = max(column - 1, indent) if column else indent
    last = max(end - 1, first + 1) if column else len(text.rstrip())
    first, last = min(first, len(text)), min(last, len(text))
    width = max(last - first, 1)
    # Tabs stay tabs, so that the caret is under its column.
    pad = "".join("\t" if c == "\t" else " " for c in text[indent:first])
    return [f"    {text[indent:]}", f"    {pad}{'^' * width}"]


def describe_parse_error(message: str, path: str, text: str) -> str:
    """The messages of MLIR's parser about a text, each with the line that it refers to.

    Args:
      message: the parser's message.
      path: the name of the text in the result.
      text: the text; empty if it is not text.
    """
    source = text.split("\n")
    described: list[str] = []
    for line in message.splitlines():
        found = _PARSED.search(line)
        if found is None:
            described.append(line.rstrip(":"))
            continue
        number, column = int(found[1]), int(found[2])
        described.append(f"{path}:{number}:{column}: {found[3]}")
        if number <= len(source):
            described += quoted(source[number - 1], column)
    if _PARSED.search(message):
        # A place says more than the headline, which is that the text cannot be parsed.
        described = [line for line in described if line != _HEADLINE]
    return "\n".join(described)
