"""The functions of sessions, and the ways to make others of them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DERIVATIONS", "LOOPS", "ORIGINS", "Derivation", "Function"]

# Kinds of functions, by argument and result: a vector to a number, a vector to a vector, a matrix
# to a vector, a matrix to a matrix, a vector to several arrays, and a vector and a static argument
# (a number, or a tuple) to a vector.
SCALAR, VECTOR, ROWS, MATRIX, ANY, STATIC, TUPLE = "SVRMANT"


class Function(NamedTuple):
    """A function of a session.

    Attributes:
      text: the expression that makes it.
      meaning: an expression for a function with the same results that no earlier call can affect.
      kind: the types of its argument and result.
      traced: whether it keeps traces, and so may not see a change of what it reads.
      frozen: whether it was traced when it was made, for one argument type.
      reads: whether it reads what steps change.
      real: whether it differentiates, so that its argument is a float.
      donates: whether its argument is deleted.
      pickles: whether it can be pickled.
      jits: whether it has `clear_cache`.
      devices: whether devices run it: it cannot be called in another function that devices run.
      rule: the function that gives it a rule, and the meaning of the function that has the rule.
      order: the number of transformations.
      depth: the number of derivations.
    """

    text: str
    meaning: str
    kind: str
    traced: bool = False
    frozen: bool = False
    reads: bool = False
    real: bool = False
    donates: bool = False
    pickles: bool = True
    jits: bool = False
    devices: bool = False
    rule: tuple[str, str] | None = None
    order: int = 0
    depth: int = 0


ORIGINS = (
    Function("energy", "energy", SCALAR),
    Function("cubic", "cubic", VECTOR),
    Function("scaled", "scaled", VECTOR, reads=True),
    Function("scaled_energy", "scaled_energy", SCALAR, reads=True),
    Function("looped", "looped", VECTOR),
    Function("decorated", "undecorated", SCALAR, traced=True, jits=True),
    Function("Model(2.0)", "Model(2.0)", VECTOR),
    Function("Model(3.0)", "Model(3.0)", VECTOR),
    Function("Model(2.0).method", "lambda x: gnp.sum(2.0 * x)", SCALAR, traced=True),
    Function("Model(3.0).method", "lambda x: gnp.sum(3.0 * x)", SCALAR, traced=True),
    Function("Offset(1)", "Offset(1)", VECTOR),
    Function("Offset(1.0)", "Offset(1.0)", VECTOR),
    Function("shifted", "shifted", STATIC),
    Function("signed", "signed", STATIC),
)
"""Functions to start from."""

LOOPS = (
    Function("counted", "counted", VECTOR),
    Function("structured", "structured", VECTOR),
    Function("by_getattr", "by_getattr", VECTOR, reads=True),
    Function("by_import", "by_import", VECTOR, reads=True),
    Function("boxed", "boxed", VECTOR, reads=True),
    Function("first", "first", TUPLE),
)
"""Loops whose bodies write, or read what their code does not name; nested static arguments."""


class Derivation(NamedTuple):
    """A way to make a function of others.

    Attributes:
      text: an expression of the function ``{f}``, and of ``{g}``, another one of the same kind.
      meaning: the same for the meanings.
      takes, gives: the kinds; the same kind if ``gives`` is empty.
      traced, frozen, real, donates, pickles, jits: as in `Function`, where the derivation decides.
      rule: the function that gives the new function another rule.
      redefines: the rule that the derivation replaces.
      wraps: whether the new function only calls the others.
      devices: whether devices run the function, which use no rules for `vmap`.
      order: the number of transformations that it adds.
      weight: how often it is drawn.
    """

    text: str
    meaning: str
    takes: str
    gives: str = ""
    traced: bool = False
    frozen: bool = False
    real: bool = False
    donates: bool = False
    pickles: bool | None = False
    jits: bool = False
    rule: str = ""
    redefines: str = ""
    wraps: bool = False
    devices: bool = False
    order: int = 0
    weight: int = 4


_ALL = SCALAR + VECTOR + ROWS + MATRIX + ANY
_ONE = SCALAR + VECTOR

DERIVATIONS = (
    # Compilation.
    Derivation("gn.jit({f})", "{f}", _ALL, traced=True, pickles=None, jits=True, weight=50),
    Derivation("gn.jit({f}, donate_argnums=0)", "{f}", _ALL, traced=True, donates=True),
    Derivation("gn.jit({f}, tiered=True)", "{f}", _ONE, traced=True, weight=1),
    Derivation(
        "gn.jit({f}, static_argnums=1)", "{f}", STATIC + TUPLE, traced=True, jits=True, weight=40
    ),
    Derivation("gn.jit({f}, static_argnames='n')", "{f}", STATIC + TUPLE, traced=True, weight=10),
    Derivation("exported({f})", "{f}", _ONE, traced=True, frozen=True, weight=1),
    Derivation("loaded({f})", "{f}", _ONE, traced=True, frozen=True, weight=1),
    Derivation("compiled({f})", "{f}", _ONE, traced=True, frozen=True, weight=2),
    Derivation("method_of({f})", "{f}", _ONE, traced=True),
    # Transformations.
    Derivation("gn.grad({f})", "gn.grad({f})", SCALAR, VECTOR, real=True, order=1, weight=8),
    Derivation("gn.value_and_grad({f})", "gn.value_and_grad({f})", SCALAR, ANY, real=True, order=1),
    Derivation("gn.vmap({f})", "gn.vmap({f})", SCALAR, ROWS, order=1),
    Derivation("gn.vmap({f})", "gn.vmap({f})", VECTOR, MATRIX, order=1),
    Derivation("gn.jacfwd({f})", "gn.jacfwd({f})", VECTOR, ANY, real=True, order=1, weight=1),
    Derivation("gn.hessian({f})", "gn.hessian({f})", SCALAR, ANY, real=True, order=2, weight=1),
    Derivation("directional({f})", "directional({f})", _ONE, real=True, order=1),
    Derivation("linear({f})", "linear({f})", _ONE, real=True, order=1),
    Derivation("pulled({f})", "pulled({f})", VECTOR, real=True, order=1),
    Derivation("gn.checkpoint({f})", "{f}", _ONE),
    Derivation("mapped({f})", "{f}", _ONE, traced=True, devices=True, weight=1),
    Derivation("sharded({f})", "{f}", _ONE, devices=True, weight=1),
    # Rules.
    Derivation("with_jvp({f}, 3.0)", "with_jvp({f}, 3.0)", _ONE, rule="jvp", order=1),
    Derivation("jvp_rule(copied({f}), 5.0)", "with_jvp({f}, 5.0)", _ONE, redefines="jvp"),
    Derivation("with_vjp({f}, 3.0)", "with_vjp({f}, 3.0)", _ONE, rule="vjp", order=1),
    Derivation("vjp_rule(deeply_copied({f}), 5.0)", "with_vjp({f}, 5.0)", _ONE, redefines="vjp"),
    Derivation("with_vmap({f}, 3.0)", "with_vmap({f}, 3.0)", _ONE, rule="vmap", order=1),
    Derivation("vmap_rule(copied({f}), 5.0)", "with_vmap({f}, 5.0)", _ONE, redefines="vmap"),
    # Python's ways to copy, wrap and bind.
    Derivation("wrapped({f}, {g})", "{g}", _ALL + STATIC, wraps=True, weight=8),
    Derivation("updated({f}, {g})", "{g}", _ONE, traced=True, jits=True),
    Derivation("copied({f})", "{f}", _ALL + STATIC, pickles=None, wraps=True),
    Derivation("deeply_copied({f})", "{f}", _ALL + STATIC, pickles=None, wraps=True),
    Derivation("pickled({f})", "{f}", _ALL + STATIC, pickles=True, weight=6),
    Derivation("functools.partial({f})", "{f}", _ALL + STATIC, pickles=None, wraps=True),
    Derivation("gn.tree_util.Partial({f})", "{f}", _ALL, pickles=None, wraps=True, weight=2),
    Derivation("functools.partial({f}, n=2)", "functools.partial({f}, n=2)", STATIC, VECTOR),
    Derivation("added({f}, {g})", "added({f}, {g})", _ONE + ROWS + MATRIX, wraps=True),
)
"""The ways to make others."""
