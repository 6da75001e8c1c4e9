"""Write docs/accuracy.md: the largest errors measured on this machine, and their bounds.

python -m gnomon.tools.accuracy > docs/accuracy.md
"""

from __future__ import annotations

import argparse
import sys

from gnomon.tools.accuracy.page import measured, page
from gnomon.tools.accuracy.sums import page_of_sums

COUNT = 200_000


def main() -> int:
    """The entry point; the exit status is 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m gnomon.tools.accuracy")
    parser.add_argument("--count", type=int, default=COUNT, help="points per function in f32")
    parser.add_argument("--only", default="", help="comma-separated names of functions")
    options = parser.parse_args()
    only = set(options.only.split(",")) if options.only else None
    found = measured(options.count, only)
    print(page(found, options.count), end="")
    if only is None:
        print(page_of_sums(), end="")
    beyond = [m for m in found if m.is_beyond]
    for m in beyond:
        print(f"beyond its bound: {m.function.name} {m.dtype} {m.errors}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    raise SystemExit(main())
