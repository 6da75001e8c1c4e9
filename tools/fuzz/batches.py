"""Checks many programs as one jitted function, which amortizes the cost of a compilation.

It is a harder test too: the compiler sees unrelated programs side by side. Each result is still
judged by the rounding errors of its own program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnomon.tools.fuzz.checking import (
    JAX_FACTOR,
    OWN_FACTOR,
    Counts,
    Failure,
    check,
    judged,
    reference,
)
from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.oracle import ask_jax
from gnomon.tools.fuzz.program import Program, combined
from gnomon.tools.fuzz.running import GNOMON, JAX, Library, Outcome, message, run_batch


@dataclass(frozen=True)
class Seeded:
    """The program of a seed."""

    seed: int
    program: Program


def check_batch(
    members: Sequence[Seeded], *, jax: bool, counts: Counts
) -> Iterator[tuple[Seeded, Failure]]:
    """Run programs with the same `x64` and target as one, then each one that fails alone.

    Args:
      members: the programs.
      jax: whether to compare with JAX as well.
      counts: updated with the number of comparisons.

    Yields:
      each failure, with the program that fails: a member, or the combined program if the member is
      correct alone.
    """
    judges: dict[int, Judge] = {}
    sound: list[Seeded] = []
    for member in members:
        expected = reference(member.program)
        if expected.error is not None:
            yield member, Failure("eager", message(expected.error))
            continue
        judges[member.seed] = Judge(member.program, expected)
        sound.append(member)
    jitted = _outcomes(GNOMON, sound)
    suspects = []
    for member, outcome in zip(sound, jitted, strict=True):
        if judged(outcome, judges[member.seed], OWN_FACTOR, counts) is not None:
            suspects.append(member)
    for member in suspects:
        failure = check(member.program, jax=False, counts=counts)
        yield (member, failure) if failure is not None else _combined_failure(sound, member)
    if not jax:
        return
    agreeing = [member for member in sound if member not in suspects]
    for member, outcome in zip(agreeing, _outcomes(JAX, agreeing), strict=True):
        if judged(outcome, judges[member.seed], JAX_FACTOR, counts) is not None:
            failure = check(member.program, jax=True, kinds="jax", counts=counts)
            if failure is not None:
                yield member, failure


def _outcomes(library: Library, members: Sequence[Seeded]) -> list[Outcome]:
    """The outcome of each; if they do not compile as one program, each half is compiled as one."""
    if not members:
        return []
    programs = [member.program for member in members]
    outcomes = ask_jax(programs) if library is JAX else run_batch(library, programs)
    if len(members) > 1 and all(outcome.error is not None for outcome in outcomes):
        half = len(members) // 2
        return _outcomes(library, members[:half]) + _outcomes(library, members[half:])
    return outcomes


def _combined_failure(members: Sequence[Seeded], member: Seeded) -> tuple[Seeded, Failure]:
    """The failure of the combined program, for a member that is correct alone."""
    whole = Seeded(member.seed, combined([m.program for m in members]))
    failure = check(whole.program, jax=False)
    return whole, failure or Failure("unsteady", "wrong once among others, and right when repeated")
