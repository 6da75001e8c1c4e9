"""What makes programs of loops: LLVM in this process, and the C compiler."""

from __future__ import annotations

import shutil

import pytest

from tests.backends.kernels.in_process import InProcess
from tests.backends.standalone_c.compiled import CompiledC

__all__ = ["EMITTERS", "QUICK_EMITTERS"]

_has_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

QUICK_EMITTERS = (InProcess, pytest.param(CompiledC, marks=_has_compiler))
# Rules run in the default tests by LLVM, and slowly by C too: it differs in its printer only.
EMITTERS = (InProcess, pytest.param(CompiledC, marks=[pytest.mark.slow, _has_compiler]))
