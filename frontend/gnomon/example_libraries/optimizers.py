"""Optimizers of pytrees of parameters, with the functions of `jax.example_libraries.optimizers`.

An optimizer is three functions: ``init_fun(params)`` returns a state, ``update_fun(i, gradients,
state)`` the state after step ``i``, and ``get_params(state)`` the parameters. Most rules are
written for a single array, and `optimizer` extends them to pytrees.

Example:
  >>> import gnomon as gn
  >>> from gnomon.example_libraries import optimizers
  >>> init, update, get_params = optimizers.sgd(0.25)
  >>> state = init({"w": gn.numpy.ones(2)})
  >>> state = update(0, {"w": gn.numpy.array([1.0, 2.0])}, state)
  >>> get_params(state)["w"]
  Array([0.75, 0.5 ], dtype=float32)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from gnomon import lax, tree_util
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array

__all__ = [
    "JoinPoint",
    "Optimizer",
    "OptimizerState",
    "adagrad",
    "adam",
    "adamax",
    "clip_grads",
    "constant",
    "exponential_decay",
    "inverse_time_decay",
    "l2_norm",
    "make_schedule",
    "momentum",
    "nesterov",
    "optimizer",
    "pack_optimizer_state",
    "piecewise_constant",
    "polynomial_decay",
    "rmsprop",
    "rmsprop_momentum",
    "sgd",
    "sm3",
    "unpack_optimizer_state",
]

Params: TypeAlias = Any
State: TypeAlias = Any
Updates: TypeAlias = Any
Step: TypeAlias = "int | Array"
Schedule: TypeAlias = "Callable[[Any], Any]"


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: Callable[[Params], OptimizerState]
    update_fn: Callable[[Step, Updates, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Params]


class OptimizerState:
    """The state of an optimizer: a pytree whose leaves are the states of all parameters.

    Attributes:
      packed_state: for each parameter, the leaves of its state.
      tree_def: the structure of the parameters.
      subtree_defs: for each parameter, the structure of its state.
    """

    __slots__ = ("packed_state", "subtree_defs", "tree_def")

    def __init__(self, packed_state: Any, tree_def: Any, subtree_defs: Any) -> None:
        self.packed_state = packed_state
        self.tree_def = tree_def
        self.subtree_defs = subtree_defs

    def __repr__(self) -> str:
        return (
            f"OptimizerState(packed_state={self.packed_state!r}, tree_def={self.tree_def!r}, "
            f"subtree_defs={self.subtree_defs!r})"
        )


tree_util.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda structure, children: OptimizerState(children[0], *structure),
)


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Extend an optimizer of single arrays to pytrees.

    Args:
      opt_maker: a function of hyperparameters that returns ``(init, update, get_params)``, each
        for a single array: ``init(x)`` returns a state, any pytree; ``update(i, gradient, state)``
        the next state; ``get_params(state)`` the array.
    Returns:
      The same function, for pytrees of arrays. Its ``update`` raises ``TypeError`` if the gradients
      or the updated state have another structure than at the start.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> @optimizers.optimizer
      ... def signs(step_size):
      ...     return lambda x: x, lambda i, g, x: x - step_size * gnp.sign(g), lambda x: x
      >>> import gnomon.numpy as gnp
      >>> init, update, get_params = signs(0.5)
      >>> get_params(update(0, [gnp.array([3.0, -2.0])], init([gnp.zeros(2)])))
      [Array([-0.5,  0.5], dtype=float32)]
    """

    @functools.wraps(opt_maker)
    def of_trees(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Params) -> OptimizerState:
            leaves, tree = tree_util.tree_flatten(params)
            return _packed([init(leaf) for leaf in leaves], tree)

        def tree_update(i: Step, gradients: Updates, state: OptimizerState) -> OptimizerState:
            leaves, tree = tree_util.tree_flatten(gradients)
            if tree != state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the "
                    f"parameter tree structure with which it was initialized: parameter tree "
                    f"{state.tree_def} and grad tree {tree}"
                )
            states = _unpacked(state)
            new = [update(i, g, s) for g, s in zip(leaves, states, strict=True)]
            result = _packed(new, tree)
            for before, after in zip(state.subtree_defs, result.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not "
                        f"match its input structure: input {before} and output {after}"
                    )
            return result

        def tree_params(state: OptimizerState) -> Params:
            return tree_util.tree_unflatten(state.tree_def, map(get_params, _unpacked(state)))

        return Optimizer(tree_init, tree_update, tree_params)

    return of_trees


def _packed(states: Sequence[State], tree: Any) -> OptimizerState:
    flat = [tree_util.tree_flatten(state) for state in states]
    return OptimizerState(
        tuple(tuple(leaves) for leaves, _ in flat), tree, tuple(sub for _, sub in flat)
    )


def _unpacked(state: OptimizerState) -> list[State]:
    return [
        tree_util.tree_unflatten(sub, leaves)
        for sub, leaves in zip(state.subtree_defs, state.packed_state, strict=True)
    ]


# -------------------------------------------------------------------------------------- the rules


@optimizer
def sgd(step_size: float | Schedule) -> Any:
    """Stochastic gradient descent.

    Args:
      step_size: a number, or a function of the step that gives one.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.sgd(0.1)
    """
    rate = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - rate(i) * g, lambda x: x


@optimizer
def momentum(step_size: float | Schedule, mass: float) -> Any:
    """Gradient descent with momentum: the new velocity is the gradient plus ``mass`` times the old.

    Args:
      step_size: a number, or a function of the step that gives one.
      mass: how much of the velocity a step keeps, from 0 to 1.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.momentum(0.1, mass=0.9)
      >>> state = init(gnp.array(1.0))
      >>> for i in range(2):
      ...     state = update(i, gnp.array(1.0), state)
      >>> get_params(state).round(4)
      Array(0.71, dtype=float32, weak_type=True)
    """
    return _by_velocity(step_size, mass, lambda velocity, g: velocity)


@optimizer
def nesterov(step_size: float | Schedule, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum, which looks one step of momentum ahead.

    Args:
      step_size: a number, or a function of the step that gives one.
      mass: how much of the velocity a step keeps, from 0 to 1.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.nesterov(0.1, mass=0.9)
      >>> state = update(0, gnp.array(1.0), init(gnp.array(1.0)))
      >>> get_params(state).round(4)
      Array(0.81, dtype=float32, weak_type=True)
    """
    return _by_velocity(step_size, mass, lambda velocity, g: mass * velocity + g)


def _by_velocity(
    step_size: float | Schedule, mass: float, direction: Callable[[Any, Any], Any]
) -> Any:
    """A rule whose direction depends on the velocity and the gradient."""
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * direction(velocity, g), velocity

    return lambda x: (x, gnp.zeros_like(x)), update, _first


@optimizer
def adagrad(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi, Hazan and Singer, 2011), with momentum.

    Args:
      step_size: a number, or a function of the step that gives one.
      momentum: how much of the last direction a step keeps.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.adagrad(0.1)
      >>> state = update(0, gnp.array(2.0), init(gnp.array(1.0)))
      >>> get_params(state).round(4)
      Array(0.99, dtype=float32, weak_type=True)
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        return x, gnp.zeros_like(x), gnp.zeros_like(x)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares, direction = state
        squares = squares + gnp.square(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        return x - rate(i) * direction, squares, direction

    return init, update, _first


@optimizer
def rmsprop(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp (Tieleman and Hinton, 2012).

    Args:
      step_size: a number, or a function of the step that gives one.
      gamma: the decay of the mean of squared gradients.
      eps: added to that mean, under the root.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.rmsprop(0.1)
      >>> state = update(0, gnp.array(2.0), init(gnp.array(1.0)))
      >>> get_params(state).round(4)
      Array(0.6838, dtype=float32, weak_type=True)
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares = state
        squares = gamma * squares + (1 - gamma) * gnp.square(g)
        return x - rate(i) * g / gnp.sqrt(squares + eps), squares

    return lambda x: (x, gnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(
    step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum.

    Args:
      step_size: a number, or a function of the step that gives one.
      gamma: the decay of the mean of squared gradients.
      eps: added to that mean, under the root.
      momentum: how much of the last change a step keeps.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.rmsprop_momentum(0.1)
      >>> state = update(0, gnp.array(2.0), init(gnp.array(1.0)))
      >>> get_params(state).round(4)
      Array(0.6838, dtype=float32, weak_type=True)
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares, change = state
        squares = gamma * squares + (1 - gamma) * gnp.square(g)
        change = momentum * change + rate(i) * g / gnp.sqrt(squares + eps)
        return x - change, squares, change

    return lambda x: (x, gnp.zeros_like(x), gnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma and Ba, 2015).

    Args:
      step_size: a number, or a function of the step that gives one.
      b1: the decay of the mean of gradients.
      b2: the decay of the mean of squared gradients.
      eps: added to the root of that mean.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.adam(0.1)
      >>> state = init({"w": gnp.array([1.0, -1.0])})
      >>> for i in range(3):
      ...     gradient = gn.grad(lambda p: gnp.sum(p["w"] ** 2))(get_params(state))
      ...     state = update(i, gradient, state)
      >>> get_params(state)["w"].round(2)
      Array([ 0.7, -0.7], dtype=float32)
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * gnp.square(g) + b2 * squares
        unbiased_mean = mean / (1 - gnp.asarray(b1, mean.dtype) ** (i + 1))
        unbiased_squares = squares / (1 - gnp.asarray(b2, mean.dtype) ** (i + 1))
        x = x - rate(i) * unbiased_mean / (gnp.sqrt(unbiased_squares) + eps)
        return x, mean, squares

    return lambda x: (x, gnp.zeros_like(x), gnp.zeros_like(x)), update, _first


@optimizer
def adamax(
    step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Any:
    """Adamax (Kingma and Ba, 2015): Adam with the largest gradient instead of the mean square.

    Args:
      step_size: a number, or a function of the step that gives one.
      b1: the decay of the mean of gradients.
      b2: the decay of the largest gradient.
      eps: added to the largest gradient.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.adamax(0.1)
      >>> state = update(0, gnp.array(2.0), init(gnp.array(1.0)))
      >>> get_params(state).round(4)
      Array(0.9, dtype=float32)
    """
    rate = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = gnp.maximum(b2 * largest, gnp.abs(g))
        unbiased = rate(i) / (1 - gnp.asarray(b1, mean.dtype) ** (i + 1))
        return x - unbiased * mean / (largest + eps), mean, largest

    return lambda x: (x, gnp.zeros_like(x), gnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """SM3 (Anil, Gupta, Koren and Singer, 2019): Adagrad with one vector for each dimension.

    Args:
      step_size: a number, or a function of the step that gives one.
      momentum: how much of the last direction a step keeps.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, update, get_params = optimizers.sm3(0.1)
      >>> state = update(0, gnp.ones((2, 2)), init(gnp.ones((2, 2))))
      >>> get_params(state).shape
      (2, 2)
    """
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        x = gnp.asarray(x)
        return x, gnp.zeros_like(x), [gnp.zeros(size, x.dtype) for size in x.shape or (1,)]

    def update(i: Step, g: Array, state: Any) -> Any:
        x, direction, bounds = state
        # A scalar counts as a vector of one element, so that it has a bound.
        sizes = tuple(bound.shape[0] for bound in bounds)
        squares = functools.reduce(gnp.minimum, gnp.ix_(*bounds)).reshape(x.shape) + gnp.square(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        axes = range(len(sizes))
        others = [tuple(a for a in axes if a != axis) for axis in axes]
        bounds = [squares.reshape(sizes).max(other, initial=0) for other in others]
        return x - rate(i) * direction, direction, bounds

    return init, update, _first


def _first(state: Sequence[Any]) -> Any:
    return state[0]


def _inverse_root(squares: Array) -> Array:
    """One over the square root; 0 where there has been no gradient yet."""
    positive = squares > 0
    return gnp.where(positive, lax.rsqrt(gnp.where(positive, squares, 1)), 0.0)


# ---------------------------------------------------------------------------------- step sizes


def constant(step_size: Any) -> Schedule:
    """The same step size at each step.

    Args:
      step_size: a number.
    Returns:
      A function of the step.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.constant(0.1)(7)
      0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A step size that decays exponentially: ``step_size * decay_rate ** (i / decay_steps)``.

    Args:
      step_size: the step size at the first step.
      decay_steps: the number of steps in which the step size is multiplied by ``decay_rate``.
      decay_rate: a number between 0 and 1.
    Returns:
      A function of the step ``i``.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.exponential_decay(1.0, 10, 0.5)(20)
      0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """``step_size / (1 + decay_rate * i / decay_steps)``.

    Args:
      step_size: the step size at the first step.
      decay_steps: the number of steps that count as one unit of time.
      decay_rate: the rate at which the step size decreases.
      staircase: round the time down, so that the step size changes every ``decay_steps`` steps.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.inverse_time_decay(1.0, 10, 1.0)(10)
      0.5
    """

    def schedule(i: Any) -> Any:
        time = i / decay_steps
        return step_size / (1 + decay_rate * (gnp.floor(time) if staircase else time))

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """From ``step_size`` to ``final_step_size`` in ``decay_steps`` steps, then constant.

    Args:
      step_size: the step size at the first step.
      decay_steps: the number of steps of the decay.
      final_step_size: the step size at all later steps.
      power: 1 decreases linearly; larger powers decrease faster at first.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> schedule = optimizers.polynomial_decay(1.0, 10, 0.0)
      >>> [float(schedule(i)) for i in (0, 5, 20)]
      [1.0, 0.5, 0.0]
    """

    def schedule(i: Any) -> Any:
        left = 1 - gnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """``values[k]`` at steps that are after ``k`` boundaries.

    Args:
      boundaries: the steps, in ascending order, after which the next value is used.
      values: the step sizes, one more than boundaries.
    Raises:
      ValueError: an argument is not a vector, or the numbers of elements do not fit.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> schedule = optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.25])
      >>> [float(schedule(i)) for i in (5, 15, 25)]
      [1.0, 0.5, 0.25]
    """
    boundaries, values = gnp.array(boundaries), gnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: values[gnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule from a number or a schedule.

    Args:
      scalar_or_schedule: a number, which becomes a constant schedule; or a function of the step,
        which is returned.
    Returns:
      A function of the step.
    Raises:
      TypeError: the argument is neither a function nor a scalar.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.make_schedule(0.1)(7)
      0.1
    """
    if callable(scalar_or_schedule):
        schedule: Schedule = scalar_or_schedule
        return schedule
    if not isinstance(scalar_or_schedule, (list, tuple)) and gnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(
        f"a step size must be a scalar or a function of the step, got {scalar_or_schedule!r}"
    )


# ------------------------------------------------------------------------------------- gradients


def l2_norm(tree: Any) -> Array:
    """The norm of a vector of all leaves of a pytree.

    Args:
      tree: a pytree of arrays.

    Example:
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.l2_norm({"a": 3.0, "b": 4.0})
      Array(5., dtype=float32, weak_type=True)
    """
    leaves = tree_util.tree_leaves(tree)
    return gnp.sqrt(sum(gnp.vdot(leaf, leaf) for leaf in leaves))


def clip_grads(grad_tree: Updates, max_norm: ArrayLike) -> Updates:
    """The gradients, scaled so that their norm is at most ``max_norm``.

    Args:
      grad_tree: a pytree of arrays.
      max_norm: the largest norm, over all leaves together.
    Returns:
      A pytree like ``grad_tree``; smaller gradients are not scaled.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> optimizers.clip_grads([gnp.array(3.0), gnp.array(4.0)], 1.0)
      [Array(0.6, dtype=float32, weak_type=True), Array(0.8, dtype=float32, weak_type=True)]

    See also:
      `l2_norm`
    """
    norm = l2_norm(grad_tree)

    def clip(g: Array) -> Array:
        return gnp.where(norm < max_norm, g, g * (max_norm / norm))

    return tree_util.tree_map(clip, grad_tree)


# ------------------------------------------------------------------------------------ serialization


class JoinPoint:
    """A leaf in the place of a parameter, which holds the state of that parameter.

    Attributes:
      subtree: the state.
    """

    __slots__ = ("subtree",)

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __repr__(self) -> str:
        return f"JoinPoint({self.subtree!r})"

    def __iter__(self) -> Any:
        """Iterate over the single subtree."""
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Convert a state to a pytree that can be pickled: the parameters' tree of `JoinPoint`.

    Args:
      opt_state: a state, from the first or second function of an optimizer.

    Example:
      >>> import gnomon as gn
      >>> from gnomon.example_libraries import optimizers
      >>> init, _, get_params = optimizers.momentum(0.1, 0.9)
      >>> kept = optimizers.unpack_optimizer_state(init({"w": gn.numpy.ones(2)}))
      >>> get_params(optimizers.pack_optimizer_state(kept))
      {'w': Array([1., 1.], dtype=float32)}
    """
    return tree_util.tree_unflatten(opt_state.tree_def, map(JoinPoint, _unpacked(opt_state)))


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Convert a pytree of `unpack_optimizer_state` back to a state.

    Args:
      marked_pytree: a pytree whose leaves are `JoinPoint`.
    Raises:
      TypeError: a leaf is not a `JoinPoint`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.example_libraries import optimizers
      >>> init, _, get_params = optimizers.momentum(0.1, 0.9)
      >>> kept = optimizers.unpack_optimizer_state(init(gnp.ones(2)))
      >>> get_params(optimizers.pack_optimizer_state(kept))
      Array([1., 1.], dtype=float32)
    """
    marked, tree = tree_util.tree_flatten(marked_pytree)
    for leaf in marked:
        if not isinstance(leaf, JoinPoint):
            raise TypeError(f"pack_optimizer_state: each leaf must be a JoinPoint, got {leaf!r}")
    return _packed([leaf.subtree for leaf in marked], tree)
