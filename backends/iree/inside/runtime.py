"""The names of IREE's runtime that are not in its interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iree.runtime import _binding, version

from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.iree.inside.versions import check_version

__all__ = ["create_driver", "invoke_context", "pack_arguments"]

check_version("iree-base-runtime", version.VERSION, BackendUnavailable)

pack_arguments: Callable[..., Any] = _binding.ArgumentPacker(_binding._invoke_statics, None).pack
"""Makes the list of a call's arguments: of an `invoke_context`, a tuple of views and ``{}``.

A list to which the views are added one by one takes 2.4 times as long for 3 arguments, and 4 times
for 21: 0.4 and 1.0 us are 1.0 and 4.1.
"""


def invoke_context(device: Any) -> Any:
    """The first argument of `pack_arguments` for calls on a device."""
    return _binding.InvokeContext(device)


def create_driver(name: str) -> Any:
    """A driver of our own.

    IREE's `get_driver` keeps one of each name. That one may have been made without our Vulkan
    library, or before a fork, which does not copy its threads.
    """
    return _binding.create_hal_driver(name)
