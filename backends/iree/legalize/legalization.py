"""The declaration of a legalization as data: what it rewrites, on which targets, and why.

Each module of this package declares its legalizations next to their code; `order` has the one list
in which they run. `docs/legalizations.md` is printed from it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gnomon.backends.iree.targets import CPUS, FAMILIES, Target
from gnomon.backends.rewriting import Rule, merged
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir

__all__ = [
    "DIALECT_STAGES",
    "EVERY_TARGET",
    "Kind",
    "Legalization",
    "OnModule",
    "OnProgram",
    "Rules",
    "Stage",
    "Targets",
    "always",
    "checked",
    "of_stage",
    "rules_of",
    "without",
]

Rules: TypeAlias = Callable[[Target], Mapping[str, Rule]]
"""The rewriting rules for a target, by full op name."""

OnProgram: TypeAlias = Callable[[Program, Target], None]
"""Rewrites a program of the gnomon dialect in place."""

OnModule: TypeAlias = Callable[[ir.Module, Target], bool]
"""Rewrites a module of StableHLO in place; returns whether it has changed it."""


class Stage(enum.Enum):
    """When a legalization runs: stages in order; the rules of a stage run before its passes."""

    PREPARE = "before all other rules, on the gnomon dialect"
    DECOMPOSE = "ops that become several ops, which later rules may rewrite"
    SPLIT = "complex values become pairs of reals"
    REWRITE = "all other ops"
    REWRITE_AGAIN = "ops that the rules above have written, and the program's own"
    FUSE = "barriers that set where IREE's kernels begin and end"
    LOWERED = "after the lowering, on StableHLO"
    CONTROL_FLOW = "loops, branches and calls of Python, in the first form that IREE compiles"
    LAST = "on StableHLO, after control flow is rewritten"
    COMPILER_OPS = "after all others: ops that become ops of the compiler's own dialects"


# The stages on the gnomon dialect.
DIALECT_STAGES = (
    Stage.PREPARE,
    Stage.DECOMPOSE,
    Stage.SPLIT,
    Stage.REWRITE,
    Stage.REWRITE_AGAIN,
    Stage.FUSE,
)


class Kind(enum.Enum):
    """How IREE fails on a program that is not legalized."""

    REFUSED = "refused"  # an error, a crash, or a compilation that does not end
    MISCOMPILED = "miscompiled"  # a wrong value
    INACCURATE = "inaccurate"  # fewer digits than the dtype holds
    SLOW = "slow"  # to run or to compile


@dataclass(frozen=True)
class Targets:
    """The targets that have certain properties.

    Attributes:
      properties: names of attributes of a `Target` or of its `Capabilities`, each with the accepted
        values.
    """

    properties: tuple[tuple[str, tuple[object, ...]], ...] = ()

    @classmethod
    def where(cls, **properties: object) -> Targets:
        """The targets whose properties have these values, or one of a tuple of values."""
        return cls(tuple((n, v if isinstance(v, tuple) else (v,)) for n, v in properties.items()))

    def __contains__(self, target: Target) -> bool:
        return all(_property(target, name) in values for name, values in self.properties)

    def __str__(self) -> str:
        if not self.properties:
            return "all"
        return ", ".join(f"{n} = {' or '.join(map(str, v))}" for n, v in self.properties)


def _property(target: Target, name: str) -> object:
    holder = target if hasattr(target, name) else target.capabilities
    return getattr(holder, name)


EVERY_TARGET = Targets()


@dataclass(frozen=True)
class Legalization:
    """One fault of IREE's, the targets that have it, and the rewriting that avoids it.

    Attributes:
      name: kebab-case; `gnomon-opt --passes` takes it.
      stage: when it runs.
      kind: IREE's fault without it.
      doc: its effect, in one line.
      upstream: what IREE does, and the version in which that was seen.
      reproducer: the failure without it, in one line; the program is in
        ``tests/backends/iree/legalize/reproducers.py``, under the legalization's name.
      no_reproducer: why there is no such program; exactly one of the two is given.
      targets: the targets for which it runs.
      rules: its rewriting rules; None if it has a `run`.
      run: rewrites the program, or, from `Stage.LOWERED` on, the module; None if it has `rules`.
      needs: ops of StableHLO, by full name. The `run` changes only modules that contain one of
        them, so the pipeline skips it for others. If empty, it may change any module.
      issue: the address of upstream's issue, where there is one.
      texts: names of the reports in ``docs/upstream`` on IREE's fault.
      no_report: why there is neither an issue nor a report; only `Kind.SLOW` may lack all three.
    """

    name: str
    stage: Stage
    kind: Kind
    doc: str
    upstream: str
    targets: Targets = EVERY_TARGET
    rules: Rules | None = None
    run: OnProgram | OnModule | None = None
    needs: frozenset[str] = frozenset()
    issue: str = ""
    texts: tuple[str, ...] = ()
    reproducer: str = ""
    no_reproducer: str = ""
    no_report: str = ""

    def __post_init__(self) -> None:
        if bool(self.reproducer) == bool(self.no_reproducer):
            raise ValueError(
                f"legalization {self.name!r} needs either a reproducer or a reason for having none"
            )
        reported = bool(self.issue or self.texts)
        if reported == bool(self.no_report) and (reported or self.kind is not Kind.SLOW):
            raise ValueError(
                f"legalization {self.name!r} needs either an issue or a report, or a reason for "
                "having neither"
            )
        if self.stage is Stage.CONTROL_FLOW:
            # These are applied by `control.forms.Form`.
            return
        if (self.rules is None) == (self.run is None):
            raise ValueError(f"legalization {self.name!r} needs either rules or a run")
        if self.rules is not None and self.stage not in DIALECT_STAGES:
            raise ValueError(f"legalization {self.name!r} has rules, but {self.stage} is StableHLO")
        if self.needs and self.stage in DIALECT_STAGES:
            raise ValueError(
                f"legalization {self.name!r} needs ops of StableHLO, but runs before the lowering"
            )


def always(rules: Mapping[str, Rule]) -> Rules:
    """The same rules for every target."""
    return lambda _target: rules


def of_stage(
    legalizations: Iterable[Legalization], stage: Stage, target: Target
) -> list[Legalization]:
    """The legalizations of a stage that run for a target, in order."""
    return [one for one in legalizations if one.stage is stage and target in one.targets]


def rules_of(
    legalizations: Iterable[Legalization], stage: Stage, target: Target
) -> dict[str, Rule]:
    """The rules of a stage for a target, as one table.

    Raises:
      ValueError: two of them rewrite one op, and not exactly one of the two is `SpecialCase`.
    """
    chosen = of_stage(legalizations, stage, target)
    return merged(*(one.rules(target) for one in chosen if one.rules is not None))


def checked(legalizations: Sequence[Legalization]) -> tuple[Legalization, ...]:
    """The list of legalizations, after checks.

    Raises:
      ValueError: two have one name, or on some target two rules of one stage rewrite one op and
        neither declares, by `SpecialCase`, that it comes before the other.
    """
    names = [one.name for one in legalizations]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two legalizations are named {name!r}")
    for target in _kinds_of_targets():
        for stage in DIALECT_STAGES:
            try:
                rules_of(legalizations, stage, target)
            except ValueError as error:
                raise ValueError(
                    f"on target {target.name!r}, stage {stage.name}: {error}"
                ) from None
    return tuple(legalizations)


def _kinds_of_targets() -> list[Target]:
    """One target for each set of targets that have the same legalizations."""
    targets = [*CPUS, *(f.member(a.name) for f in FAMILIES for a in f.architectures)]
    kinds = {(t.capabilities, t.memory, t.code, t.is_host): t for t in targets}
    return list(kinds.values())


def without(legalizations: Sequence[Legalization], *names: str) -> tuple[Legalization, ...]:
    """The legalizations except those with some names.

    Raises:
      ValueError: no legalization has one of the names.
    """
    unknown = set(names) - {one.name for one in legalizations}
    if unknown:
        raise ValueError(f"there are no legalizations named {', '.join(sorted(unknown))}")
    return tuple(one for one in legalizations if one.name not in names)
