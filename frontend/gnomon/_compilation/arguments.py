"""The arguments of a jitted function: which are static or donated, and the leaves of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import tree_util
from gnomon._compilation.static_data import copied
from gnomon._tracing.function import has_float0, name_of, without_float0
from gnomon._trees.flatten import flatten_one_level

__all__ = ["ArgumentRoles", "Call", "check_arguments", "flatten_argument"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(fun: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        return None


def _ints(value: Any, what: str) -> tuple[int, ...]:
    if value is None:
        return ()
    values = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(v, (int, np.integer)) for v in values):
        raise TypeError(f"jit: {what} must be an int or a sequence of ints, got {value!r}")
    return tuple(int(v) for v in values)


def _names(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    is_sequence = isinstance(value, Iterable) and not isinstance(value, str)
    values = tuple(value) if is_sequence else (value,)
    if not all(isinstance(v, str) for v in values):
        raise TypeError(f"jit: {what} must be a string or a sequence of strings, got {value!r}")
    return values


class ArgumentSet(NamedTuple):
    """The static or the donated arguments of a function, by position and by name."""

    nums: tuple[int, ...]
    names: tuple[str, ...]


def _argument_set(fun: Callable[..., Any], argnums: Any, argnames: Any, what: str) -> ArgumentSet:
    """Non-negative positions and names; if only one is given, the signature gives the other."""
    infer = argnums is None or argnames is None
    nums = _ints(argnums, f"{what}_argnums")
    names = _names(argnames, f"{what}_argnames")
    parameters = _parameters(fun)
    if parameters is None:
        if names and what == "donate":
            raise ValueError(
                f"jit: donate_argnames={names} needs the signature of {name_of(fun)}, which has "
                "none: pass donate_argnums"
            )
        return ArgumentSet(nums, names)
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    count = len(positional)
    for i in nums:
        if not variadic and not -count <= i < count:
            raise ValueError(
                f"jit: {what}_argnums={nums} names positional argument {i}, but "
                f"{name_of(fun)} takes {count}"
            )
    nums = tuple(i + count if i < 0 else i for i in nums)
    # A function with ``*args`` takes any number of arguments, so positions above ``count`` are
    # valid; those still negative here name no argument.
    nums = tuple(i for i in nums if i >= 0)
    named = {p.name for p in parameters if p.kind in _NAMED}
    for name in names:
        if not keywords and name not in named:
            raise ValueError(
                f"jit: {what}_argnames names {name!r}, which is not an argument of {name_of(fun)} "
                f"(it has {', '.join(sorted(named)) or 'none'})"
            )
    if infer and nums and not names:
        names = tuple(
            positional[i].name
            for i in nums
            if 0 <= i < count and positional[i].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    elif infer and names and not nums:
        nums = tuple(i for i, p in enumerate(positional) if p.name in names)
    return ArgumentSet(nums, names)


class ArgumentRoles(NamedTuple):
    """The static and the donated arguments of a function."""

    static: ArgumentSet
    donated: ArgumentSet

    @staticmethod
    def of(
        fun: Callable[..., Any],
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
    ) -> ArgumentRoles:
        """Make it from the arguments of `jit`.

        Raises:
          TypeError: a position is not an int, or a name is not a string.
          ValueError: the function has no argument of that position or name.
          ValueError: an argument is both static and donated.
        """
        static = _argument_set(fun, static_argnums, static_argnames, "static")
        donated = _argument_set(fun, donate_argnums, donate_argnames, "donate")
        both = set(static.nums) & set(donated.nums)
        if both:
            raise ValueError(f"jit: arguments {sorted(both)} are both static and donated")
        return ArgumentRoles(static, donated)


class Call:
    """The arguments of a call, split into static arguments and the leaves of the dynamic ones.

    Attributes:
      static_args, static_kwargs: the static arguments, by position and by name.
      count: the number of positional arguments.
      leaves, tree: the leaves and the structure of the dynamic arguments.
      donated: the positions of the donated leaves.
    """

    def __init__(self, roles: ArgumentRoles, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        static, donated = roles
        self.static_args = {i: args[i] for i in static.nums if i < len(args)}
        self.static_kwargs = {n: kwargs[n] for n in static.names if n in kwargs}
        dynamic_args = {i: a for i, a in enumerate(args) if i not in self.static_args}
        dynamic_kwargs = {n: v for n, v in kwargs.items() if n not in self.static_kwargs}
        self.count = len(args)
        dynamic = (tuple(dynamic_args.values()), dynamic_kwargs)
        self.leaves, self.tree = tree_util.tree_flatten(dynamic)
        if has_float0(self.leaves):
            dynamic_args, dynamic_kwargs = without_float0((dynamic_args, dynamic_kwargs))
            dynamic = (tuple(dynamic_args.values()), dynamic_kwargs)
            self.leaves, self.tree = tree_util.tree_flatten(dynamic)
        self.donated: tuple[int, ...] = ()
        if donated.nums or donated.names:
            flags: list[bool] = []
            for i, value in dynamic_args.items():
                flags += [i in donated.nums] * len(tree_util.tree_leaves(value))
            for name, value in sorted(dynamic_kwargs.items()):
                flags += [name in donated.names] * len(tree_util.tree_leaves(value))
            self.donated = tuple(i for i, flag in enumerate(flags) if flag)

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of the call, with other dynamic leaves."""
        dynamic_args, dynamic_kwargs = tree_util.tree_unflatten(self.tree, list(leaves))
        remaining = iter(dynamic_args)
        args = tuple(
            self.static_args[i] if i in self.static_args else next(remaining)
            for i in range(self.count)
        )
        return args, {**dynamic_kwargs, **self.static_kwargs}

    def leaf_names(self, fun: Callable[..., Any] | None = None) -> list[str]:
        """The name of each dynamic leaf for messages; by position if the signature is not known."""
        dynamic = [i for i in range(self.count) if i not in self.static_args]
        known = self.positional_names(fun)
        arguments = tree_util.tree_unflatten(self.tree, self.leaves)
        names = []
        for path, _ in tree_util.tree_leaves_with_path(arguments):
            kind, head, *remaining = path
            if kind.idx == 0:
                name = known[head.idx]
                label = f"the argument '{name}'" if name else f"argument {dynamic[head.idx]}"
            else:
                label = f"the keyword argument '{head.key}'"
            names.append(label + tree_util.keystr(tuple(remaining)))
        return names

    def positional_names(self, fun: Callable[..., Any] | None) -> list[str]:
        """The name of the parameter of each dynamic positional argument; "" if not known."""
        parameters = (fun and _parameters(fun)) or []
        names = [p.name if p.kind in _POSITIONAL else "" for p in parameters]
        names += [""] * (self.count - len(names))
        return [names[i] for i in range(self.count) if i not in self.static_args]


def flatten_argument(tree: Any) -> tuple[tuple[Any, ...], Hashable] | None:
    """`flatten_one_level` with static data of any kind."""
    parts = flatten_one_level(tree)
    if parts is None:
        return None
    children, data = parts
    try:
        hash(data)
    except TypeError:
        data = copied(data)
    return children, data


def check_arguments(call: Call, fun: Callable[..., Any], type_of: Callable[[Any], Any]) -> None:
    """Raise the error of the first leaf that ``type_of`` rejects, prefixed with its name."""
    for i, leaf in enumerate(call.leaves):
        try:
            type_of(leaf)
        except (OverflowError, TypeError, ValueError) as error:
            name = call.leaf_names(fun)[i]
            advice = ""
            if isinstance(leaf, (str, bytes)) or callable(leaf):
                advice = "; or make the argument static (static_argnums, static_argnames)"
            raise type(error)(f"{name} of jit of {name_of(fun)}: {error}{advice}") from None
