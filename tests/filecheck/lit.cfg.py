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
opt, driver, filecheck = (
    f"{python} -m {module}" for module in ("gnomon.tools.opt", "gnomon.tools.driver", "filecheck")
)
if prepared := os.environ.get("GNOMON_LIT_TOOLS"):
    opt, driver, filecheck = (
        f"{prepared} {tool}" for tool in ("gnomon-opt", "gnomon", "filecheck")
    )
config.substitutions += [  # noqa: F821
    ("%gnomon-opt", opt),
    ("%gnomon", driver),
    ("%filecheck", filecheck),
    ("%not", f"{python} {Path(__file__).parent / 'expect_failure.py'}"),
]
