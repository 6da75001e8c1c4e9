"""Runs a session, and compares each call with functions that are made for it alone."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

import gnomon as gn
from gnomon._config.current import config
from gnomon.backends.tiered import TieredProgram
from gnomon.tools.fuzz.sessions.drawing import Call, Session, Step

__all__ = ["Check", "Failure", "check", "evaluated"]

_INITIAL = 2.0  # The values that functions read at first.
_MOST_MEANINGS = 20_000
_numbers = count()


class Outcome(NamedTuple):
    """What a call gave: arrays with their weak types, or the type and text of an error."""

    values: tuple[tuple[np.ndarray[Any, Any], bool], ...] = ()
    error: str = ""
    message: str = ""

    def agrees(self, other: Outcome) -> bool:
        """Whether both are the same; of errors, only the types are compared."""
        if self.error or other.error or len(self.values) != len(other.values):
            return self.error == other.error and len(self.values) == len(other.values)
        return all(
            a.dtype == b.dtype and weak == weak_too and np.array_equal(a, b, equal_nan=True)
            for (a, weak), (b, weak_too) in zip(self.values, other.values, strict=True)
        )

    def __str__(self) -> str:
        if self.error:
            return f"{self.error}: {self.message.splitlines()[0][:200] if self.message else ''}"
        return ", ".join(
            f"{a.tolist()} of {a.dtype}{' (weak)' if weak else ''}" for a, weak in self.values
        )


class Failure(NamedTuple):
    """A call that gave something else than with new functions.

    Attributes:
      call: the call; the text of a step if that failed.
      meaning: the meaning of the function.
      detail: what the call gave, and what it should give.
    """

    call: str
    meaning: str
    detail: str


@dataclass
class Check:
    """The outcome of a session.

    Attributes:
      failures: the calls that failed.
      calls: the number of calls.
      errors: how many of them raised the expected error.
      refused: the functions that could not be made, by the error.
    """

    failures: list[Failure] = field(default_factory=list)
    calls: int = 0
    errors: int = 0
    refused: list[str] = field(default_factory=list)


class _Question(NamedTuple):
    """What a call should give; `value` is what functions read."""

    meaning: str
    arguments: str
    context: str
    value: float


class _Observed(NamedTuple):
    call: Call
    outcome: Outcome
    result: Any
    questions: list[_Question]


_known: dict[_Question, Outcome] = {}


def check(session: Session) -> Check:
    """Run a session and judge it."""
    found = Check()
    gn.clear_caches()  # What a session finds does not depend on earlier sessions.
    with warnings.catch_warnings(), _module() as module:
        warnings.simplefilter("ignore")
        observed = _run(session, module, found)
        for key in module.changed_arrays():
            found.failures.append(Failure("", "", f"an argument no longer has the values {key}"))
    _answer([question for o in observed for question in o.questions])
    for call, outcome, result, questions in observed:
        meaning = questions[0].meaning
        allowed = [_known[question] for question in questions]
        found.calls += 1
        found.errors += bool(outcome.error)
        if not any(outcome.agrees(other) for other in allowed):
            detail = f"gives {outcome}, must give {' or '.join(map(str, allowed))}"
            found.failures.append(Failure(_text(call), meaning, detail))
        elif not outcome.error and not outcome.agrees(_outcome_of(result)):
            detail = f"gave {outcome}, which changed to {_outcome_of(result)}"
            found.failures.append(Failure(_text(call), meaning, detail))
    return found


def _text(call: Call) -> str:
    return f"{call.text()}{' in ' if call.context else ''}{call.context}"


def _run(session: Session, module: ModuleType, found: Check) -> list[_Observed]:
    observed: list[_Observed] = []
    space = vars(module)
    made: set[str] = set()
    # The values that a traced function may have read: those since the caches were cleared.
    since_clear, ever = [_INITIAL], [_INITIAL]
    for step in session.steps:
        if step.name:
            try:
                space[step.name] = eval(step.text, space)
                made.add(step.name)
            except Exception as error:
                found.refused.append(f"{_pattern(step)}: {type(error).__name__}: {error}"[:200])
        elif step.calls:
            results: dict[int, tuple[Outcome, Any]] = {}

            def make(i: int, call: Call, results: Any = results) -> Any:
                return lambda: results.__setitem__(i, _called(call.text(), call.context, space))

            calls = [call for call in step.calls if call.name in made]
            thunks = [make(i, call) for i, call in enumerate(calls)]
            space["together"](*thunks) if len(thunks) > 1 else [thunk() for thunk in thunks]
            for i, call in enumerate(calls):
                function = session.functions[call.name]
                values = [_INITIAL]
                if function.reads:
                    stale = ever if function.frozen else since_clear
                    values = stale if function.traced else ever[-1:]
                questions = [
                    _Question(function.meaning, call.arguments, call.context, value)
                    for value in dict.fromkeys(values)
                ]
                observed.append(_Observed(call, *results[i], questions))
        else:
            words = step.text.partition(".")[0]
            if words in session.functions and words not in made:
                continue
            exec(step.text, space)
            if step.value is not None:
                since_clear.append(step.value)
                ever.append(step.value)
            elif step.text == "gn.clear_caches()":
                del since_clear[:-1]
    return observed


def _pattern(step: Step) -> str:
    return "".join("_" if c.isdigit() else c for c in step.text)


def _answer(questions: list[_Question]) -> None:
    """Compute what calls should give, with new functions and empty caches."""
    new = [question for question in dict.fromkeys(questions) if question not in _known]
    if not new:
        return
    if len(_known) > _MOST_MEANINGS:
        _known.clear()
        new = list(dict.fromkeys(questions))
    with warnings.catch_warnings(), _module() as module:
        warnings.simplefilter("ignore")
        for question in new:
            gn.clear_caches()
            module.change(question.value)
            text = f"({question.meaning})({question.arguments})"
            _known[question] = _called(text, question.context, vars(module))[0]


def _called(text: str, context: str, space: dict[str, Any]) -> tuple[Outcome, Any]:
    try:
        with eval(context, space) if context else nullcontext():
            result = eval(text, space)
            return _outcome_of(result), result
    except Exception as error:
        return Outcome(error=type(error).__name__, message=str(error)), None


def _outcome_of(result: Any) -> Outcome:
    leaves = gn.tree.leaves(result)
    return Outcome(tuple((np.array(leaf), getattr(leaf, "weak_type", False)) for leaf in leaves))


@contextmanager
def evaluated() -> Iterator[None]:
    """Evaluate the traced programs of jitted functions, and compile none.

    Jitted functions are looked up, traced and kept as ever, and sessions take a tenth of the time.
    """

    def never(program: TieredProgram[Any], *, wait: bool) -> None:
        """Take the place of `TieredProgram.compiled`."""

    compiled, tiered = TieredProgram.compiled, config.tiered
    TieredProgram.compiled = never  # type: ignore[assignment, method-assign]
    config.update("gnomon_tiered", True)  # in all threads
    try:
        yield
    finally:
        TieredProgram.compiled = compiled  # type: ignore[method-assign]
        config.update("gnomon_tiered", tiered)


# ----------------------------------------------------------------------------------- the prelude


@cache
def _prelude() -> CodeType:
    path = Path(__file__).parent / "prelude.py"
    return compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)


@contextmanager
def _module() -> Iterator[ModuleType]:
    """A new module with the functions, which can be imported, so that they can be pickled."""
    module = ModuleType(f"gnomon_session_{next(_numbers)}")
    sys.modules[module.__name__] = module
    try:
        exec(_prelude(), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]
