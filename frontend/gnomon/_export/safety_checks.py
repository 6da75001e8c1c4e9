"""The safety checks that calls of exported functions can skip."""

from __future__ import annotations

import dataclasses

__all__ = ["DisabledSafetyCheck"]


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that calls of an exported function skip.

    Attributes:
      name: the name of the check.
    """

    name: str

    @staticmethod
    def platform() -> DisabledSafetyCheck:
        """The check that a function is called on a platform that it was exported for."""
        return DisabledSafetyCheck("platform")

    @staticmethod
    def custom_call(target_name: str) -> DisabledSafetyCheck:
        """The check that a custom call has a stability guarantee."""
        return DisabledSafetyCheck(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call if the check is about one, else None."""
        kind, _, name = self.name.partition(":")
        return name if kind == "custom_call" else None

    def __str__(self) -> str:
        return self.name
