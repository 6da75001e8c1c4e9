"""The checks that calls of exported functions can leave out."""

from __future__ import annotations

import dataclasses

__all__ = ["DisabledSafetyCheck"]


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that calls of exported functions leave out.

    Attributes:
      name: the name of the check.
    """

    name: str

    @staticmethod
    def platform() -> DisabledSafetyCheck:
        """The check that a function runs on a platform that it was exported for."""
        return DisabledSafetyCheck("platform")

    @staticmethod
    def custom_call(target_name: str) -> DisabledSafetyCheck:
        """The check that a custom call is one of those with a stability guarantee."""
        return DisabledSafetyCheck(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call, if it is the check of one."""
        kind, _, name = self.name.partition(":")
        return name if kind == "custom_call" else None

    def __str__(self) -> str:
        return self.name
