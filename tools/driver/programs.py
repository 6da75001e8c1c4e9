"""Python functions as programs, and the parts that all kinds of programs share.

`opening` lists the kinds of programs; MLIR is in `mlir`, and artifacts are in `artifacts`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gnomon
from gnomon import tree_util
from gnomon._compilation.ahead_of_time import closed_program
from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import CompilationError
from gnomon.backends.platforms import compiler_for
from gnomon.dialects.types import TensorType
from gnomon.tools.driver.errors import DriverError, UsageError
from gnomon.tools.driver.specifications import Arguments, parse_arguments
from gnomon.tools.driver.transformations import Transformation, add_batch_dimensions, apply

__all__ = [
    "EXAMPLE_SUFFIX",
    "Leaf",
    "LoweredProgram",
    "PythonProgram",
    "Request",
    "compiler_of",
    "functions_of_file",
    "remembering",
]

# `loss_example_args` in the file of `loss` is a tuple of arguments, or a function that returns one.
EXAMPLE_SUFFIX = "_example_args"


class Leaf(NamedTuple):
    """An array among the arguments or the results.

    Attributes:
      name: its path, such as ``params.0.w``.
      type: its shape and dtype.
    """

    name: str
    type: TensorType


@dataclass(frozen=True)
class Request:
    """A program as the command line describes it.

    Attributes:
      path: a file, ``FILE.py:FUNCTION``, or ``-``.
      args: the specification of the arguments, or None for the example in the file.
      transformations: the transformations, in the order in which they are applied.
      batch_size: the size of the mapped axes, which the example lacks.
      static: the positions of arguments that are Python values.
    """

    path: str
    args: str | None = None
    transformations: tuple[Transformation, ...] = ()
    batch_size: int | None = None
    static: tuple[int, ...] = ()


@dataclass
class LoweredProgram:
    """A program lowered for a target.

    Attributes:
      target: the name of the target.
      backend: the backend that compiles for the target.
      rest: the part of the name after the platform.
      artifact: the portable artifact, with the texts of the stages.
    """

    target: str
    backend: Any
    rest: str
    artifact: Artifact

    @functools.cached_property
    def executable(self) -> Any:
        """The compiled program."""
        with remembering(lambda: self):
            return self.backend.compile_for(self.artifact, self.rest)

    def emit(self, kind: str) -> dict[str, bytes]:
        """Files of the compiler's code; see `IreeBackend.emit`."""
        with remembering(lambda: self):
            return dict(self.backend.emit(self.artifact, kind))

    def text(self, stage: str, *, debug_info: bool = False) -> str:
        """A stage as text: ``traced``, ``gnomon``, ``legalized`` or ``stablehlo``."""
        text = getattr(self.artifact.stages, {"gnomon": "expanded"}.get(stage, stage))
        return str(text.located if debug_info else text.plain)


def compiler_of(target: str) -> tuple[Any, str]:
    """The backend that compiles for a target, and the part of the name after the platform.

    Raises:
      UsageError: there is no such target.
    """
    try:
        return compiler_for(target)
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def remembering(lower: Callable[[], LoweredProgram]) -> Iterator[None]:
    """Attach the program to an error of the compiler, so that its message names the user's line."""
    try:
        yield
    except CompilationError as error:
        if not hasattr(error, "lowered_program") and error.diagnostics:
            error.lowered_program = lower()  # type: ignore[attr-defined]
        raise


# ------------------------------------------------------------------------------------------ Python


class PythonProgram:
    """A Python function, transformed, with the types of its arguments.

    Attributes:
      path: the path as the user wrote it.
      name: the function's name.
      fun: the transformed function.
      arguments: a leaf for each array.

    Args:
      request: the request.
      name: the function's name.
      function: the function.
      given: its arguments.
    """

    def __init__(
        self, request: Request, name: str, function: Callable[..., Any], given: Arguments
    ) -> None:
        self.path = request.path
        self.name = name
        self.fun = apply(function, request.transformations)
        self.given = given
        self._static = request.static
        flat, self._tree = tree_util.tree_flatten_with_path(self._dynamic())
        self.leaves = [leaf for _, leaf in flat]
        names = _parameter_names(self.fun)
        dynamic = [i for i in range(len(given.positional)) if i not in self._static]
        self.arguments = [
            Leaf(_leaf_name(path, names, dynamic), _type_of(leaf)) for path, leaf in flat
        ]

    @classmethod
    def load(cls, request: Request, head: str, name: str) -> PythonProgram:
        """The function of a file, or of a module, by its name."""
        module = _load_module(head)
        function = _find_function(module, head, name)
        given = _arguments(request, module, function, name)
        return cls(request, name.rpartition(".")[2], function, given)

    def _dynamic(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = [a for i, a in enumerate(self.given.positional) if i not in self._static]
        return tuple(args), self.given.by_name

    @functools.cached_property
    def jitted(self) -> Any:
        """The function under `jit`."""
        return gnomon.jit(self.fun, static_argnums=self._static or None)

    @functools.cached_property
    def lowered(self) -> Any:
        """The traced function."""
        return self.jitted.lower(*self.given.positional, **self.given.by_name)

    def traced(self) -> tuple[str, Sequence[Any]]:
        """The traced program with locations, and the arrays that it takes after its arguments."""
        return self.lowered.stages.traced.located, self.lowered._traced.captures

    @property
    def results(self) -> list[Leaf]:
        """A leaf for each array among the results."""
        flat, _ = tree_util.tree_flatten_with_path(self.lowered.out_info)
        return [
            Leaf(_result_name(path), TensorType(tuple(leaf.shape), leaf.dtype))
            for path, leaf in flat
        ]

    def lower(self, target: str) -> LoweredProgram:
        """Lower the program for a target."""
        compiler, rest = compiler_of(target)
        return LoweredProgram(target, compiler, rest, self.artifact_for(compiler))

    def artifact_for(self, compiler: Any) -> Artifact:
        """The program lowered by a backend."""
        program = closed_program(self.lowered.stages.traced.located, self.lowered._traced.captures)
        artifact: Artifact = compiler.lower(program, keep_stages=True)
        return artifact

    def caller(self, device: str | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A function that runs the compiled program on arrays and returns the results in order."""

        def call(arrays: Sequence[Any]) -> list[Any]:
            args, kwargs = tree_util.tree_unflatten(self._tree, list(arrays))
            positional = list(args)
            for i in sorted(self._static):
                positional.insert(i, self.given.positional[i])
            with gnomon.default_device(device), remembering(lambda: self.lower(device or "cpu")):
                return list(tree_util.tree_leaves(self.jitted(*positional, **kwargs)))

        return call


def _load_module(path: str) -> Any:
    """The module of a file, or of a dotted name."""
    if not path.endswith(".py"):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name and (path == error.name or path.startswith(f"{error.name}.")):
                raise DriverError(f"there is no file and no module {path!r}") from None
            raise
    file = Path(path)
    if not file.is_file():
        raise DriverError(f"there is no file {path!r}")
    # Like `python FILE`, so that the file can import modules in its folder.
    sys.path.insert(0, str(file.resolve().parent))
    name = file.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if name not in sys.modules:
        # Dataclasses and pickle look up the module.
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def functions_of_file(path: str) -> list[str]:
    """The names of the public functions that a file defines."""
    return _functions(_load_module(path))


def _functions(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and not inspect.isclass(value)
        and getattr(value, "__module__", None) == module.__name__
    ]


def _find_function(module: Any, head: str, name: str) -> Callable[..., Any]:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = _functions(module)
            close = difflib.get_close_matches(name, known, n=1)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise DriverError(
                f"{head} has no function {name!r}{guess} (it has {', '.join(known) or 'none'})"
            )
        found = getattr(found, part)
    if not callable(found):
        raise DriverError(f"{head}:{name} is not a function but a {type(found).__name__}")
    return found


def _arguments(request: Request, module: Any, function: Callable[..., Any], name: str) -> Arguments:
    if request.args is not None:
        if request.batch_size is not None:
            raise UsageError("--batch-size is for the example in the file; --args has all sizes")
        return parse_arguments(request.args)
    given = getattr(module, f"{name.rpartition('.')[2]}{EXAMPLE_SUFFIX}", None)
    if given is None:
        parameters = _parameter_names(function)
        if parameters == []:
            return Arguments((), {})
        raise UsageError(
            f"{request.path}: the types of the arguments"
            + (f" ({', '.join(parameters)})" if parameters else "")
            + " are not known: give them with --args, such as --args 'f32[128,784] i32[128]', or "
            f"define {name}{EXAMPLE_SUFFIX} = (...) in the file, a tuple of example arguments"
        )
    given = given() if callable(given) else given
    if not isinstance(given, (tuple, list)):
        raise DriverError(
            f"{name}{EXAMPLE_SUFFIX} must be a tuple of arguments, or a function that returns one; "
            f"got {type(given).__name__}"
        )
    return Arguments(add_batch_dimensions(given, request.transformations, request.batch_size), {})


def _parameter_names(function: Callable[..., Any]) -> list[str] | None:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def _leaf_name(path: Any, names: list[str] | None, dynamic: list[int]) -> str:
    kind, head, *rest = path
    if kind.idx == 1:
        first = str(head.key)
    else:
        i = dynamic[head.idx]
        first = names[i] if names and i < len(names) else f"arg{i}"
    return ".".join((first, tree_util.keystr(tuple(rest), simple=True, separator="."))).rstrip(".")


def _result_name(path: Any) -> str:
    return tree_util.keystr(path, simple=True, separator=".") or "result"


def _type_of(leaf: Any) -> TensorType:
    struct = gnomon.eval_shape(lambda x: x, leaf)
    return TensorType(tuple(struct.shape), struct.dtype)
