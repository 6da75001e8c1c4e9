"""The stages of ahead-of-time compilation: a wrapped function, traced, lowered, compiled.

Example:
  >>> import gnomon as gn
  >>> f = gn.jit(lambda x: 2 * x)
  >>> isinstance(f, Wrapped), isinstance(f.trace(1.0), Traced)
  (True, True)
  >>> f.trace(1.0).lower().compile()(3.0)
  Array(6., dtype=float32, weak_type=True)
"""

from gnomon._compilation.lowered import Compiled, Lowered
from gnomon._compilation.stages import ArgInfo, CompilerOptions, Wrapped
from gnomon._compilation.stages import TracedFunction as Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
