"""Functions compiled for a target that this machine may lack: `Lowered.compile(target=...)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon._arrays.array import Array
from gnomon._sharding.device import HOST, Device
from gnomon.backends import platforms
from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.interface import Executable
from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir

__all__ = ["CompiledForTarget", "closed_program"]


class CompiledForTarget:
    """A function compiled for a target, for one signature.

    The compiled program contains the arrays that the function closes over.

    Args:
      target: the target's name.
      text: the traced program.
      captures: the values of the program's last arguments.
      donated: positions of the arguments whose memory a call takes over.
      bind: turns a loaded program and its device into a function of pytrees.
      shardings: the shardings of the arguments, and those of the results.

    Attributes:
      target: the target's name.
      executable: the backend's executable.
      input_shardings, output_shardings: the shardings of the arguments (a pair of a tuple for
        the positional arguments and a dict for the keyword arguments) and of the results; None
        if the program is for a single device that is not known at compile time.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> lowered = gn.jit(lambda x: gnp.exp(x) + 1).lower(gnp.zeros(4))
      >>> compiled = lowered.compile(target="cuda:sm_90")
      >>> ".target sm_90" in compiled.as_text()
      True
      >>> len(compiled.serialize()) > 1000
      True
    """

    def __init__(
        self,
        target: str,
        text: str,
        captures: Sequence[Array],
        donated: tuple[int, ...],
        bind: Callable[[Executable, Device], Callable[..., Any]],
        shardings: tuple[Any, Any] = (None, None),
    ) -> None:
        backend, rest = platforms.compiler_for(target)
        self.target = target
        self._bind = bind
        self.input_shardings, self.output_shardings = shardings
        self._loaded: Callable[..., Any] | None = None
        self._artifact: Artifact = backend.lower(closed_program(text, captures), keep_stages=True)
        self.executable = backend.compile_for(self._artifact, rest, donate=donated)

    def serialize(self) -> bytes:
        """The compiled program: for IREE's targets a ``.vmfb``, which its runtime loads."""
        return bytes(self.executable.serialize())

    def as_text(self, dialect: str = "code", *, debug_info: bool = False) -> str:
        """The program as text.

        Args:
          dialect: ``"code"`` for the compiler's output, if that is text (PTX for CUDA, Metal's
            language, HLO for a TPU), or the name of an earlier stage: ``"traced"``,
            ``"gnomon"``, ``"legalized"`` (rewritten for the target), ``"stablehlo"``.
          debug_info: whether the text of a stage includes the user's source locations.
        Raises:
          ValueError: there is no such stage, or the code is binary.
        """
        if dialect == "code":
            return str(self.executable.as_text())
        stage = {"gnomon": "expanded"}.get(dialect, dialect)
        stages = vars(self._artifact.stages)
        if stage not in stages:
            raise ValueError(
                f"as_text: there is no stage {dialect!r}; the stages are 'code', 'traced', "
                "'gnomon', 'legalized', 'stablehlo'"
            )
        return str(stages[stage].located if debug_info else stages[stage].plain)

    def cost_analysis(self) -> dict[str, float]:
        """The cost of a call: the compiler's own figures, or an estimate before fusion.

        See `Lowered.cost_analysis`.
        """
        if hasattr(self.executable, "cost_analysis"):
            return dict(self.executable.cost_analysis())
        return self._artifact.cost.analysis()

    def memory_analysis(self) -> Any:
        """The memory that the program needs; see `Compiled.memory_analysis`.

        Raises:
          NotImplementedError: the compiler does not report it.
        """
        if hasattr(self.executable, "memory_analysis"):
            return self.executable.memory_analysis()
        raise NotImplementedError(f"the compiler for {self.target!r} reports no memory statistics")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, on the first device of the target's platform.

        Raises:
          BackendUnavailable: the program cannot be loaded in this process.
          TypeError: structure, shapes or dtypes are not those it was compiled for.
        """
        if self._loaded is None:
            if not hasattr(self.executable, "load"):
                raise BackendUnavailable(
                    f"the function was compiled ahead of time for {self.target!r} and cannot run "
                    "in this process; without target=, it is compiled for a device of this machine"
                )
            loaded = self.executable.load()
            self._loaded = self._bind(loaded, getattr(loaded, "device", HOST))
        return self._loaded(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<compiled for {self.target}>"


# The attributes of a function op that hold one entry per argument or per result.
_PER_VALUE = ("arg_attrs", "res_attrs")


def closed_program(text: str, captures: Sequence[Array]) -> Program:
    """Parse a traced program; ``captures``, the values of its last arguments, become constants."""
    program = Program(ir.Module.parse(text, context()))
    if captures:
        _close_over(program, captures)
    return program


def _close_over(program: Program, captures: Sequence[Array]) -> None:
    """Replace the last arguments of ``main`` by constants."""
    body = program.body("main")
    function = program.function("main")
    kept = {name: function.attributes[name] for name in _PER_VALUE if name in function.attributes}
    types = body.argument_types[: -len(captures)]
    values = [c.numpy_value() for c in captures]
    closed = Body.build(types, lambda *arguments: body.inline([*arguments, *map(constant, values)]))
    program.erase("main")
    program.add("main", closed, public=True)
    for name, attribute in kept.items():
        each = list(ir.ArrayAttr(attribute))
        program.function("main").attributes[name] = ir.ArrayAttr.get(
            each[: len(types)] if name == "arg_attrs" else each, context()
        )
