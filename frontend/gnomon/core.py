"""What a function can ask about the values that it is given.

Inside of a function that is being transformed, arguments are tracers, which have a shape and a
dtype but no elements::

  if not isinstance(x, gnomon.core.Tracer):
      print(float(x.max()))

`gnomon.typeof` returns the type of an array or tracer.
"""

from gnomon._tracing.stack import ensure_compile_time_eval
from gnomon._tracing.trace import Tracer

__all__ = ["Tracer", "ensure_compile_time_eval"]
