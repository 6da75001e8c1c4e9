"""Executables whose results have sizes that each call determines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._native import IreeLauncher
from gnomon.backends.iree.buffer import Buffer
from gnomon.backends.iree.executable import Executable

__all__ = ["SizedExecutable"]


class SizedExecutable(Executable):
    """A program that was compiled for all sizes of its symbolic dimensions.

    The caller checks the shapes and dtypes of the arguments.
    """

    def __call__(self, args: Sequence[np.ndarray[Any, Any] | Buffer]) -> list[Buffer]:
        """Run the program; see `Executable`."""
        return self.run([x if isinstance(x, Buffer) else self._given(x) for x in args])

    def _new_launcher(self) -> IreeLauncher | None:
        return None  # A launcher makes results of fixed shapes.

    def _shape(self, index: int, view: Any) -> tuple[int, ...]:
        return tuple(view.shape)
