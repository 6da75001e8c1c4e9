"""`checkpoint`: functions whose intermediate values the backward pass recomputes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.differentiation_order import differentiation_order
from gnomon._tracing.function import (
    bind_bodies,
    check_callable,
    name_of,
    rearranged,
    rebuilt,
    trace_function,
    with_avals,
    with_metadata,
)
from gnomon._tracing.stack import staging
from gnomon.dialects.body import Body
from gnomon.dialects.checkpoint import policy_text, producer, saves
from gnomon.dialects.contract import lookup, params_of
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_inexact, short_name, type_of
from gnomon.passes.expand import Expander

P = ParamSpec("P")
R = TypeVar("R")

# --------------------------------------------------------------------------------------- policies


class Policy:
    """A policy of `checkpoint` that an attribute of the op can hold.

    Attributes:
      text: the value of the attribute.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        """Whether the policy saves the result of an op; called like a policy written in Python."""
        return saves(self.text, prim.name, params)

    def __repr__(self) -> str:
        return f"<checkpoint policy {self.text}>"


class _Decision:
    """A decision that a policy written in Python may return instead of a bool."""

    __slots__ = ("_name", "_saves")

    def __init__(self, name: str, saves: bool) -> None:
        self._name, self._saves = name, saves

    def __bool__(self) -> bool:
        return self._saves

    def __repr__(self) -> str:
        return self._name


Recompute = _Decision("Recompute", False)
Saveable = _Decision("Saveable", True)


class Offloadable(NamedTuple):
    """The decision to save a value in another memory; gnomon saves it where it is.

    Attributes:
      src, dst: the names of the memories.
    """

    src: str
    dst: str


class checkpoint_policies:  # noqa: N801 - a namespace, by JAX's name
    """Policies: the values that a `checkpoint` may keep for the backward pass.

    Besides these, a policy may be any function ``policy(op, *avals, **params) -> bool``, where
    ``op.name`` is the name of an op of the dialect. It is called for each op that the function
    itself applies.
    """

    everything_saveable = Policy("everything_saveable")
    nothing_saveable = Policy("nothing_saveable")
    dots_saveable = Policy("dots_saveable")
    checkpoint_dots = dots_saveable
    dots_with_no_batch_dims_saveable = Policy("dots_with_no_batch_dims_saveable")
    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
        """Save the values that `checkpoint_name` gave one of these names."""
        return Policy(policy_text("save_only_these_names", names_which_can_be_saved))

    @staticmethod
    def save_any_names_but_these(*names_not_to_save: str) -> Policy:
        """Save the values that have a name other than these."""
        return Policy(policy_text("save_any_names_but_these", names_not_to_save))

    @staticmethod
    def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
        """Save all values except those with one of these names."""
        return Policy(policy_text("save_anything_except_these_names", names_not_to_save))

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
        """Save dot products without batch dimensions; gnomon moves none to ``offload_dst``."""
        return Policy("dots_with_no_batch_dims_saveable")

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str,
        offload_dst: str,
    ) -> Policy:
        """Save the values with one of these names; gnomon moves none to ``offload_dst``.

        Raises:
          ValueError: a name is in both lists.
        """
        both = set(names_which_can_be_saved) & set(names_which_can_be_offloaded)
        if both:
            raise ValueError(
                "names_which_can_be_saved and names_which_can_be_offloaded must be disjoint, both "
                f"hold {sorted(both)}"
            )
        names = (*names_which_can_be_saved, *names_which_can_be_offloaded)
        return Policy(policy_text("save_only_these_names", names))

    @staticmethod
    def save_from_both_policies(policy_1: Any, policy_2: Any) -> Any:
        """Save the values that at least one of two policies saves."""
        if isinstance(policy_1, Policy) and isinstance(policy_2, Policy):
            return Policy(f"{policy_1.text}|{policy_2.text}")
        return lambda *args, **params: policy_1(*args, **params) or policy_2(*args, **params)


def _policy_text(policy: Any, body: Body) -> str:
    """Encode a policy; the results that a policy written in Python saves are given a name."""
    if policy is None:
        return "nothing_saveable"
    if isinstance(policy, Policy):
        return policy.text
    if not callable(policy):
        raise TypeError(f"checkpoint: policy must be a callable or None, got {policy!r}")
    mark = f"saved by {name_of(policy)}"
    for op in body.operations:
        definition = lookup(op)
        avals = [shaped_array(*type_of(v)) for v in op.operands if not _is_tuple(v)]
        if not policy(definition, *avals, **params_of(op)):
            continue
        with ir.InsertionPoint.after(op), op.location:
            for result in list(op.results):
                uses = [(use.owner.operation, use.operand_number) for use in result.uses]
                named = ops.name(result, name=mark) if not _is_tuple(result) else result
                for user, number in uses:
                    user.operands[number] = named
    return policy_text("save_only_these_names", [mark])


def _is_tuple(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TupleType)


# ------------------------------------------------------------------------------------- checkpoint


def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: bool = False,
) -> Callable[P, R]:
    """A function whose intermediate values the backward pass recomputes instead of keeping them.

    Args:
      fun: a function of arrays and pytrees of them.
      prevent_cse: whether to keep the compiler from merging the recomputation with the first
        computation, which would keep the values after all. Inside of `lax.scan` it is not needed.
      policy: selects the values that may be kept besides the arguments, see `checkpoint_policies`;
        by default none.
      static_argnums, static_argnames: arguments that are Python values, not arrays.
      concrete: must be False.
    Returns:
      A function with the same arguments and results as ``fun``. `remat` is another name for
      `checkpoint`.
    Raises:
      NotImplementedError: ``concrete`` is true. JAX has removed it too.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> layer = gn.checkpoint(lambda x: gnp.sin(gnp.sin(x)))
      >>> float(gn.grad(layer)(0.0))
      1.0
    """
    check_callable(fun, "checkpoint")
    if concrete:
        raise NotImplementedError(
            "checkpoint: the argument concrete is not supported; list the arguments that Python "
            "control flow needs in static_argnums"
        )
    barrier = prevent_cse if isinstance(prevent_cse, bool) else any(prevent_cse)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        for i in numbers:
            if not -len(args) <= i < len(args):
                raise ValueError(
                    f"checkpoint: static_argnums names argument {i}, but {name_of(fun)} was called "
                    f"with {len(args)} positional arguments"
                )
        if not staging() and not differentiation_order():
            args, kwargs = rebuilt((args, kwargs))
            return fun(*args, **kwargs)
        static = {i % len(args) for i in numbers}
        dynamic = [a for i, a in enumerate(args) if i not in static]
        named = {n: v for n, v in kwargs.items() if n not in names}
        leaves, tree = tree_util.tree_flatten((dynamic, named))
        operands = [as_operand(leaf) for leaf in leaves]

        def call(tracers: list[Any]) -> tuple[Any, Any]:
            values, keywords = tree_util.tree_unflatten(tree, tracers)
            rest = iter(values)
            given = [a if i in static else next(rest) for i, a in enumerate(args)]
            return fun(*given, **{**kwargs, **keywords}), None

        avals = [o.aval for o in operands]
        traced = trace_function(call, fun, "checkpoint", avals, staging=True, sources=operands)
        captures = traced.captures
        # The traced body takes the arguments first; the op takes the captures first.
        order = [len(captures) + i for i in range(len(avals))] + list(range(len(captures)))
        types = [*(c.aval.type for c in captures), *(a.type for a in avals)]
        body = rearranged(traced.body, order, types)
        params = {
            "policy": _policy_text(policy, body),
            "prevent_cse": barrier,
            "differentiated": False,
        }
        given = [*captures, *operands]
        results = bind_bodies(ops.checkpoint, traced.program, given, [body], params)
        return tree_util.tree_unflatten(traced.tree, with_avals(results, traced.avals))

    result: Callable[P, R] = with_metadata(checkpointed, fun)
    return result


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """Name the arrays of a pytree, so that policies of `checkpoint` can select them.

    Args:
      x: a pytree of arrays, which is returned unchanged.
      name: the name, for example of a policy `checkpoint_policies.save_only_these_names`.

    Example:
      >>> import gnomon as gn
      >>> from gnomon.ad_checkpoint import checkpoint_name
      >>> policy = gn.checkpoint_policies.save_only_these_names("hidden")
      >>> f = gn.checkpoint(lambda x: checkpoint_name(x * x, "hidden") ** 2, policy=policy)
      >>> float(gn.grad(f)(1.0))
      4.0
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a string, got {name!r}")
    return tree_util.tree_map(lambda leaf: bind(ops.name, as_operand(leaf), name=name), x)


# ------------------------------------------------------------------------------- saved residuals


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The values that reverse mode keeps from the forward to the backward pass.

    Args:
      f: a function of arrays and pytrees of them.
      args, kwargs: arrays, or anything with a shape and a dtype.
    Returns:
      For each value its type and a description of its origin.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.ad_checkpoint import saved_residuals
      >>> [str(kind) for kind, origin in saved_residuals(gnp.sin, gnp.ones(3))]
      ['float32[3]']

    See also:
      `print_saved_residuals`
    """
    check_callable(f, "saved_residuals")
    leaves, tree = tree_util.tree_flatten((args, kwargs))
    avals = [
        shaped_array(tuple(leaf.shape), np.dtype(leaf.dtype))
        if hasattr(leaf, "shape") and not isinstance(leaf, (Array, np.ndarray, np.generic))
        else as_operand(leaf).aval
        for leaf in leaves
    ]

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        given, keywords = tree_util.tree_unflatten(tree, tracers)
        return f(*given, **keywords), None

    traced = trace_function(call, f, "vjp", avals, staging=True)
    program = traced.program
    function = program.add(traced.name, traced.body)
    expander = Expander(program)
    expander.expand(function)
    nonzero = [is_inexact(a.dtype) for a in avals] + [False] * len(traced.captures)
    forward, _, parts = expander.differentiator.linearize_function(function, tuple(nonzero))
    body = program.body(forward)
    names = _argument_names(f, tree_util.tree_unflatten(tree, list(range(len(leaves)))))
    found = []
    for value in body.results[len(parts.out_nonzero) :]:
        type_ = type_of(value)
        origin = _origin(value, body, program, names)
        found.append((shaped_array(type_.shape, type_.dtype), origin))
    return found


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print `saved_residuals`, one per line.

    Args:
      f: a function of arrays and pytrees of them.
      args, kwargs: arrays, or anything with a shape and a dtype.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon.ad_checkpoint import print_saved_residuals
      >>> print_saved_residuals(gn.checkpoint(lambda x: gnp.sin(gnp.sin(x))), 1.0)
      f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        shape = ",".join(map(str, aval.shape))
        print(f"{short_name(aval.dtype)}[{shape}] {origin}")


def _argument_names(f: Callable[..., Any], call: Any) -> list[str]:
    """A name for each leaf of a call, from the signature of the function."""
    args, kwargs = call
    try:
        bound = inspect.signature(f).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"argument {i}": a for i, a in enumerate(args)} | kwargs
    named: dict[int, str] = {}
    for name, value in bound.items():
        for path, leaf in tree_util.tree_flatten_with_path(value)[0]:
            named[leaf] = f"{name}{tree_util.keystr(path)}"
    return [named[i] for i in sorted(named)]


def _origin(value: ir.Value, body: Body, program: Program, names: list[str]) -> str:
    if isinstance(value.owner, ir.Block):
        place = body.arguments.index(value)
        return f"from the argument {names[place]}" if place < len(names) else "from a constant"
    op = producer(value)
    if op.name == "gnomon.checkpoint":
        inner = Body(op.regions[0].blocks[0])
        found = inner.results[_place(op, value)]
        if not isinstance(found.owner, ir.Block):
            op = producer(found)
    line = str(op.location).removeprefix('loc("').removesuffix(":0)").replace('":', ":")
    if op.name == "gnomon.name":
        return f"named '{params_of(op)['name']}' from {line}"
    if op.name == "func.call":
        return f"output of jitted function from {line}"
    return f"output of {lookup(op).name} from {line}"


def _place(op: ir.Operation, value: ir.Value) -> int:
    results = list(op.results)
    if value in results:
        return results.index(value)
    return list(value.owner.operation.results).index(value)


__all__ = [
    "Offloadable",
    "Policy",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
