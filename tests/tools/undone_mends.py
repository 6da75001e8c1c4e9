"""Whether the default suite catches a mend that is undone.

python -m tests.tools.undone_mends COMMIT...

Each commit's changes outside of tests and documents are undone in this checkout, which must be
clean, and done again after the tests that the commit touched have run. A commit whose lines have
changed since then cannot be undone. C++ is not built again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NO_CODE = (":!tests", ":!docs", ":!*.md", ":!*.json")


def _git(*arguments: str, patch: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, input=patch, capture_output=True, text=True, check=False
    )


def caught_by(tests: list[str]) -> str:
    """The first test that fails, or that none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed is None and done.returncode:
        return f"pytest ended with {done.returncode}"
    return "not caught" if failed is None else failed[1]


def row(commit: str) -> str:
    """A line of the table: the commit, what catches it, and the seconds."""
    subject = _git("show", "-s", "--format=%h %s", commit).stdout.strip()
    patch = _git("show", "--format=", commit, "--", ".", *_NO_CODE).stdout
    touched = _git("show", "--format=", "--name-only", commit, "--", "tests").stdout.split()
    tests = [t for t in touched if Path(t).name.startswith("test_") and (ROOT / t).exists()]
    if not patch or not tests:
        return f"{subject} | changes no code, or no test | "
    if _git("apply", "-R", patch=patch).returncode:
        return f"{subject} | cannot be undone | "
    start = time.monotonic()
    try:
        found = caught_by(tests)
    finally:
        restored = _git("apply", patch=patch)
    if restored.returncode:
        raise RuntimeError(f"{commit} was not restored: {restored.stderr}")
    return f"{subject} | {found} | {time.monotonic() - start:.0f}"


if __name__ == "__main__":
    if _git("status", "--porcelain", "--untracked-files=no").stdout:
        sys.exit("the checkout has changes: commit them first")
    for name in sys.argv[1:]:
        print(row(name), flush=True)
