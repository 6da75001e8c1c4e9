"""Programs that LLVM compiled in earlier processes, as object code in the cache of executables."""

from __future__ import annotations

import json
from typing import NamedTuple

from gnomon._native import ObjectCode
from gnomon.backends.cache import cache_key, default_cache

__all__ = ["Facts", "find", "remember"]


class Facts(NamedTuple):
    """What loading a program takes besides its code and its types.

    Attributes:
      workspace: the size in bytes of the memory for intermediate values.
      slow: whether a call may take long.
      functions: the functions of Python that it calls, see `iree.host_functions.as_text`.
    """

    workspace: int
    slow: bool
    functions: str = ""


def remember(key: str, facts: Facts, code: bytes) -> None:
    """Store the object code of a program.

    Args:
      key: the program's key; see `iree.program_cache.key_of`.
      facts: what loading it takes.
      code: the content of an object file.
    """
    store = default_cache()
    if store is not None:
        store.put_all({_code_key(key): code, key: json.dumps(facts._asdict()).encode()})


def find(key: str) -> tuple[Facts, ObjectCode] | None:
    """A program that was compiled before; None if there is none, or if it cannot be loaded."""
    store = default_cache()
    entry = None if store is None else store.get(key)
    if store is None or entry is None:
        return None
    code = store.get(_code_key(key))
    if code is None:
        return None
    try:
        return Facts(**json.loads(entry)), ObjectCode(code)
    except (RuntimeError, TypeError, ValueError):
        return None


def _code_key(key: str) -> str:
    return cache_key("code", key)
