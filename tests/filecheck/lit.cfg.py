"""lit's configuration: IR tests are ``.mlir`` files with RUN and CHECK lines."""

import os
import sys
from pathlib import Path

import lit.formats

python = sys.executable
scripts = Path(python).parent

config.name = "gnomon"  # noqa: F821 - lit gives this name
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = os.environ.get("GNOMON_LIT_OUTPUT", str(Path(__file__).parent / "Output"))  # noqa: F821
for name in ("PYTHONPATH", "GNOMON_CACHE_DIR", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%gnomon-opt", f"{python} -m gnomon.tools.opt"),
    ("%gnomon", f"{python} -m gnomon.tools.driver"),
    ("%filecheck", f"{python} -m filecheck"),
    ("%not", f"{python} {Path(__file__).parent / 'expect_failure.py'}"),
]
