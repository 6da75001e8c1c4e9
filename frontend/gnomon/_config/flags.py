"""Options as flags of the command line: ``--gnomon_enable_x64=true``, ``--jax_enable_x64``."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from gnomon._config.options import OPTIONS, PREFIXES, Option

__all__ = ["define_absl_flags", "options_in"]

_FLAGS = {f"{prefix}{name}": option for name, option in OPTIONS.items() for prefix in PREFIXES}


def options_in(arguments: Sequence[str]) -> Iterator[tuple[Option, Any]]:
    """The options that are among the arguments of a command, and their values.

    Flags of other names and arguments after ``--`` are skipped: they belong to the program.
    """
    for argument in itertools.takewhile(lambda a: a != "--", arguments):
        flag, separator, text = argument.partition("=")
        option = _FLAGS.get(flag.removeprefix("--")) if flag.startswith("--") else None
        if option is None:
            continue
        if not separator:
            if not option.is_boolean:
                raise ValueError(f"the flag {flag} needs a value: {flag}=...")
            text = "true"
        yield option, option.parse_text(flag, text, source="the flag")


def define_absl_flags() -> None:
    """Define the options as flags of absl, if it is installed, so that ``app.run`` takes them."""
    try:
        flags = importlib.import_module("absl.flags")
    except ImportError:
        return
    for name, option in _FLAGS.items():
        if name not in flags.FLAGS:  # JAX, if it is imported too, may have defined it.
            define = flags.DEFINE_boolean if option.is_boolean else flags.DEFINE_string
            define(name, None, option.doc)
