"""Calls of exported functions that have symbolic dimensions: one program runs for all sizes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.concrete import ConcreteArray, wrap_buffer
from gnomon._config.current import config
from gnomon._sharding.device import HOST, default_device
from gnomon.backends.errors import CompilationError, NotDynamic, UnsupportedOnTarget
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import Dimension, substituted

__all__ = ["ForAllSizes"]

_standalone: Any = Deferred("gnomon.backends.iree.standalone")
_log = logging.getLogger("gnomon.export")


class ForAllSizes:
    """The program of an exported function for all sizes of its arguments, on the CPU.

    The first sizes that a function is called with are compiled by themselves, which gives faster
    code. The program for all sizes is compiled when a call has other ones.

    Args:
      name: the function's name in messages.
      text: its program in gnomon's dialect, for the CPU.
      results: the types of the program's results.
      closed_over: the arrays that the function closes over.
    """

    def __init__(
        self,
        name: str,
        text: str,
        results: Sequence[ShapedArray],
        closed_over: Sequence[Any],
    ) -> None:
        self._name = name
        self._text = text
        self._results = results
        self._closed_over = closed_over
        self._lock = threading.Lock()
        self._first: Mapping[str, int] | None = None
        self._compiled: tuple[Any, list[Dimension]] | None = None
        self._refused = False

    def call(self, operands: Sequence[Any], sizes: Mapping[str, int]) -> list[Any] | None:
        """The results of a call; None if the program must be refined for its sizes.

        Args:
          operands: the program's operands.
          sizes: the values of the variables.
        """
        arrays = [*operands, *self._closed_over]
        checks = config.debug_nans or config.debug_infs or config.disable_jit
        on_host = all(type(x) is ConcreteArray for x in arrays) and default_device() is HOST
        if checks or not on_host or self._refused:
            return None
        with self._lock:
            if self._first is None:
                self._first = dict(sizes)
            if sizes == self._first:
                return None
            if self._compiled is None and not self._refused:
                self._compile()
        if self._compiled is None:
            return None
        executable, dimensions = self._compiled
        if not all(1 <= substituted(n.polynomial, sizes) <= LARGEST for n in dimensions):
            return None
        buffers = executable([x.numpy_value() for x in arrays])
        return [
            wrap_buffer(buffer, shaped_array(buffer.shape, aval.dtype, aval.weak_type))
            for buffer, aval in zip(buffers, self._results, strict=True)
        ]

    def _compile(self) -> None:
        ensure_context()
        program = Program(ir.Module.parse(self._text, context()))
        try:
            self._compiled = _standalone.load_for_all_sizes(program)
        except (NotDynamic, CompilationError, UnsupportedOnTarget) as error:
            self._refused = True
            _log.info("%s is compiled for the sizes of each call: %s", self._name, error)
