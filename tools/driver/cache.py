"""``gnomon cache``: the executables kept on disk."""

from __future__ import annotations

import argparse
import json
import re
import time
from datetime import datetime, timezone

from gnomon.backends.cache import ExecutableCache, default_cache
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.tables import columns, size

__all__ = ["cache_command", "parse_age", "parse_size"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_size(text: str) -> int:
    """A number of bytes: ``500M``, ``2GiB``."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500M")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def parse_age(text: str) -> float:
    """A number of seconds: ``30d``, ``12h``."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 30d")
    return float(found[1]) * _SECONDS[found[2].lower()]


def cache_command(options: argparse.Namespace) -> None:
    """Run ``gnomon cache``."""
    cache = default_cache()
    if cache is None:
        print(json.dumps(None) if options.json else "the cache is off (GNOMON_CACHE)")
        return
    {"list": _list, "size": _size, "prune": _prune, "clear": _clear}[options.action](cache, options)


def _list(cache: ExecutableCache, options: argparse.Namespace) -> None:
    entries = cache.entries()
    if options.json:
        print(json.dumps([entry._asdict() for entry in entries], indent=2))
        return
    for entry in entries:
        when = datetime.fromtimestamp(entry.last_used, timezone.utc).isoformat(" ", "seconds")
        print(f"{entry.key[:16]}  {entry.size_bytes:>10}  {when.removesuffix('+00:00')}")


def _size(cache: ExecutableCache, options: argparse.Namespace) -> None:
    entries = cache.entries()
    total = sum(entry.size_bytes for entry in entries)
    if options.json:
        facts = {
            "directory": str(cache.directory),
            "executables": len(entries),
            "bytes": total,
            "max_bytes": cache.max_bytes,
        }
        print(json.dumps(facts, indent=2))
        return
    rows = [
        ("folder", str(cache.directory)),
        ("executables", str(len(entries))),
        ("size", f"{size(total)} of {size(cache.max_bytes)}"),
    ]
    print(columns(rows))


def _prune(cache: ExecutableCache, options: argparse.Namespace) -> None:
    if options.max_size is None and options.older_than is None:
        raise UsageError(
            "cache prune: give --max-size or --older-than, or run `gnomon cache clear`"
        )
    entries = cache.entries()  # the least recently used first
    total = sum(entry.size_bytes for entry in entries)
    now = time.time()
    removed = freed = 0
    for entry in entries:
        old = options.older_than is not None and now - entry.last_used > options.older_than
        over = options.max_size is not None and total - freed > options.max_size
        if old or over:
            cache.remove(entry.key)
            removed += 1
            freed += entry.size_bytes
    _report(options, removed, freed)


def _clear(cache: ExecutableCache, options: argparse.Namespace) -> None:
    total = cache.size_bytes()
    _report(options, cache.clear(), total)


def _report(options: argparse.Namespace, removed: int, freed: int) -> None:
    if options.json:
        print(json.dumps({"removed": removed, "bytes": freed}, indent=2))
    else:
        print(f"removed {removed} executables, {size(freed)}")
