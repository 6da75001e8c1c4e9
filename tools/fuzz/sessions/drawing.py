"""Draws the session of a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from gnomon.tools.fuzz.sessions.derivations import (
    DERIVATIONS,
    LOOPS,
    MATRIX,
    ORIGINS,
    ROWS,
    STATIC,
    TUPLE,
    Derivation,
    Function,
)

__all__ = ["Call", "Session", "Step", "draw"]

# Derivatives of a higher order are other programs, which take long to compile, and no more state.
_MAX_ORDER, _MAX_DEPTH = 2, 6

_CONTEXTS = (
    *3 * ("gn.disable_jit()", "gn.debug_nans(True)"),
    "gn.checking_leaks()",  # Collects garbage, which takes long.
    "gn.default_matmul_precision('float32')",
    "gn.numpy_dtype_promotion('standard')",
)
_X64 = "gn.enable_x64(True)"
_STATICS = ("2", "2.0", "1", "True", "1.0", "0.0", "-0.0", "3")
_TUPLES = ("(2,)", "(2.0,)", "(1,)", "(True,)")


@dataclass(frozen=True)
class Call:
    """A call.

    Attributes:
      name: the function.
      arguments: the text of its arguments.
      context: the context manager that it is made in; none if empty.
    """

    name: str
    arguments: str
    context: str = ""

    def text(self) -> str:
        """The expression."""
        return f"{self.name}({self.arguments})"


@dataclass(frozen=True)
class Step:
    """A step of a session: a statement, a function that is made, or calls.

    Attributes:
      text: the statement, or the expression of the function.
      name: the name of the function.
      calls: calls, made at the same time by threads if there are several.
      value: what the statement changes the values to that functions read.
    """

    text: str = ""
    name: str = ""
    calls: tuple[Call, ...] = ()
    value: float | None = None


@dataclass(frozen=True)
class Session:
    """A session.

    Attributes:
      steps: the steps.
      functions: the functions that they make, by name.
    """

    steps: tuple[Step, ...]
    functions: dict[str, Function]

    def with_steps(self, steps: tuple[Step, ...]) -> Session:
        """The session with some of its steps, without functions that these do not use."""
        used: set[str] = set()
        kept: list[Step] = []
        for step in reversed(steps):
            if step.name and step.name not in used:
                continue
            text = " ".join([step.text, *(call.text() for call in step.calls)])
            used.update(name for name in self.functions if f"{name}" in _words(text))
            kept.append(step)
        return replace(self, steps=tuple(reversed(kept)))


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def draw(seed: int, *, loops: bool = False) -> Session:
    """The session of a seed.

    Args:
      seed: the seed.
      loops: whether there are loops whose bodies write, or read what their code does not name.
    """
    return _Drawing(seed, loops).session()


class _Drawing:
    def __init__(self, seed: int, loops: bool) -> None:
        self.random = random.Random(seed)
        self.functions: dict[str, Function] = {}
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        # Few functions, so that many are made of the same.
        self.origins = self.random.sample(ORIGINS, 2)
        if loops:
            self.origins[0] = self.random.choice(LOOPS)

    def session(self) -> Session:
        """Make functions, call them, and repeat the calls in another order."""
        for origin in self.origins:
            self._add(origin)
        for _ in range(self.random.randint(3, 8)):
            self._derive()
            for _ in range(self.random.choice((0, 1, 1, 2))):
                self._call(self.random.choice(list(self.functions)))
            self._disturb()
        for name in self.functions:
            if not any(call.name == name for call in self.calls):
                self._call(name)
        repeated = self.random.sample(self.calls, len(self.calls))
        while repeated:
            count = self.random.choice((1, 1, 1, 2, 3))
            self.steps.append(Step(calls=tuple(repeated[:count])))
            del repeated[:count]
            self._disturb()
        return Session(tuple(self.steps), self.functions)

    def _add(self, function: Function) -> None:
        name = f"f{len(self.functions)}"
        self.functions[name] = function
        self.steps.append(Step(text=function.text, name=name))

    def _derive(self) -> None:
        for _ in range(20):
            # Mostly functions with state.
            stateful = [n for n, f in self.functions.items() if f.traced or f.rule]
            any_name = not stateful or self.random.random() < 0.3
            name = self.random.choice(list(self.functions) if any_name else stateful)
            function = self.functions[name]
            options = [d for d in DERIVATIONS if _applies(d, function)]
            if not options:
                continue
            (derivation,) = self.random.choices(options, [d.weight for d in options])
            # The parts of a sum may have been traced at different times, and take one argument.
            sums = "{f}" in derivation.meaning and "{g}" in derivation.meaning
            same = [
                n
                for n, f in self.functions.items()
                if f.kind == function.kind
                and not (sums and f.reads and function.reads)
                and not (sums and (f.donates or function.donates))
                and (derivation.wraps or not f.frozen)
            ]
            if not same:
                continue
            other = self.random.choice(same)
            self._add(_derived(derivation, name, function, other, self.functions[other]))
            return

    def _call(self, name: str) -> None:
        function = self.functions[name]
        x64 = not function.frozen and self.random.random() < 0.1
        context = _X64 if x64 else ""
        if not x64 and self.random.random() < 0.15:
            context = self.random.choice(_CONTEXTS)
        call = Call(name, self._arguments(function, x64), context)
        self.calls.append(call)
        self.steps.append(Step(calls=(call,)))

    def _arguments(self, function: Function, x64: bool) -> str:
        dtype = "float64" if x64 else "float32"
        if not function.real and not function.frozen and self.random.random() < 0.15:
            dtype = "int32"
        values = self.random.choice(("[1, 2, 3]", "[1, 2, 3]", "[2, 0, -1]"))
        if function.kind in (ROWS, MATRIX):
            values = f"[{values}, [3, 1, 2]]"
        elif not function.frozen and self.random.random() < 0.1:
            values = "[2, 3]"
        # Arrays that live on are not donated.
        fresh = function.donates or self.random.random() < 0.5
        text = f"{'gnp.array' if fresh else 'kept'}({values}, np.{dtype})"
        if function.kind in (STATIC, TUPLE):
            statics = _STATICS if function.kind == STATIC else _TUPLES
            text += f", n={self.random.choice(statics)}"
        return text

    def _disturb(self) -> None:
        """Perhaps do something between calls."""
        chance = self.random.random()
        if chance < 0.12 and any(f.reads for f in self.functions.values()):
            value = self.random.choice((2.0, 3.0, 5.0))
            self.steps.append(Step(f"change({value})", value=value))
        elif chance < 0.18:
            self.steps.append(Step("gn.clear_caches()"))
        elif chance < 0.24:
            jitted = [n for n, f in self.functions.items() if f.jits]
            if jitted:
                self.steps.append(Step(f"{self.random.choice(jitted)}.clear_cache()"))
        elif chance < 0.245:
            self.steps.append(Step("gc.collect()"))


def _applies(derivation: Derivation, function: Function) -> bool:
    if function.kind not in derivation.takes or function.depth >= _MAX_DEPTH:
        return False
    if function.frozen and not derivation.wraps:
        return False  # An exported function is for one type; a compiled one cannot be traced.
    if function.order + derivation.order > _MAX_ORDER:
        return False
    if derivation.devices and "with_vmap(" in function.meaning and _is_reverse(function):
        return False  # A rule for `vmap` has no reverse mode, but on devices no such rule is used.
    if derivation.devices and function.devices:
        return False
    if derivation.redefines:
        return function.rule is not None and function.rule[0] == derivation.redefines
    return not (derivation.pickles is True and not function.pickles)


def _is_reverse(function: Function) -> bool:
    """Whether a function is differentiated in reverse mode."""
    return any(f"{name}(" in function.meaning for name in _REVERSE)


def _derived(derivation: Derivation, name: str, f: Function, other: str, g: Function) -> Function:
    # A wrapper may have only the name of ``f``.
    used = {"{f}": f, "{g}": g}
    both = [function for placeholder, function in used.items() if placeholder in derivation.meaning]
    meant: Any = f.rule[1] if derivation.redefines and f.rule else f.meaning
    if derivation.devices:
        meant = meant.replace("with_vmap(", "without_rule(")
    rule = derivation.rule or derivation.redefines
    return Function(
        text=derivation.text.format(f=name, g=other),
        meaning=derivation.meaning.format(f=f"({meant})", g=f"({g.meaning})"),
        kind=derivation.gives or f.kind,
        traced=derivation.traced or any(x.traced for x in both),
        frozen=derivation.frozen or any(x.frozen for x in both),
        reads=any(x.reads for x in both),
        real=derivation.real or any(x.real for x in both),
        donates=derivation.donates or any(x.donates for x in both),
        pickles=f.pickles if derivation.pickles is None else derivation.pickles,
        devices=derivation.devices or any(x.devices for x in both),
        jits=derivation.jits or (f.jits and derivation.text in _SAME_CLASS),
        rule=(rule, meant) if rule else (f.rule if derivation.text in _SAME_CLASS else None),
        order=max(x.order for x in both) + derivation.order,
        depth=max(x.depth for x in both) + 1,
    )


_REVERSE = ("gn.grad", "gn.value_and_grad", "gn.hessian", "pulled")
# Derivations whose result is of the class of the function.
_SAME_CLASS = ("copied({f})", "deeply_copied({f})", "pickled({f})")
