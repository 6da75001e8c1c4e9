"""The platforms by name: which there are, which are in use, and their backends.

A backend is made when its platform is first asked for, and its driver or plugin is started when its
devices are. A platform that is missing raises `BackendUnavailable` when it is asked for and leaves
the others alone.

Environment:
    GNOMON_PJRT_PLUGIN: further platforms, ``name:path`` of a PJRT plugin, separated by commas.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.interface import Backend, Device

__all__ = [
    "HOST_PLATFORM",
    "backend",
    "backend_of_device",
    "choose",
    "compiler_for",
    "host_device",
    "known",
    "plugins",
    "register",
    "selected",
    "unregister",
]

HOST_PLATFORM = "cpu"

# What JAX calls several platforms by.
_ALIASES = {"gpu": ("cuda", "rocm")}

# The function that gives the host's device, without its backend.
_HOST_DEVICE = "gnomon.backends.iree.device:cpu_device"

# Whose `module:function` makes the backend of a platform from its name. Strings, so that a backend
# costs nothing until its platform is used.
_IREE = "gnomon.backends.iree.backend:iree_backend"
_PLUGIN = "gnomon.backends.pjrt.backend:pjrt_backend"
_FACTORIES: dict[str, str | Callable[[str], Backend]] = {
    HOST_PLATFORM: _IREE,
    "cuda": _IREE,
    "rocm": _IREE,
    "vulkan": _IREE,
    "metal": _IREE,
    "tpu": _PLUGIN,
}

_lock = threading.RLock()
_backends: dict[str, Backend] = {}
# Those in use, the default one first; None: all that there are, the host first.
_selected: list[tuple[str, ...] | None] = [None]


def register(name: str, factory: Callable[[str], Backend]) -> None:
    """Add a platform, or put another backend in the place of one.

    Args:
      name: the platform's name.
      factory: makes its backend from the name, when it is first asked for.
    """
    with _lock:
        _FACTORIES[name] = factory
        _backends.pop(name, None)


def unregister(name: str) -> None:
    """Take a platform away; arrays and programs that are there stay as they are."""
    with _lock:
        _FACTORIES.pop(name, None)
        _backends.pop(name, None)


def known() -> tuple[str, ...]:
    """The names of all platforms that there is a backend for, installed or not."""
    return tuple(dict.fromkeys((*_FACTORIES, *plugins())))


def plugins() -> dict[str, str]:
    """The platforms that the environment names, with the paths of their plugins."""
    found = {}
    for entry in os.environ.get("GNOMON_PJRT_PLUGIN", "").split(","):
        name, separator, path = entry.strip().partition(":")
        if separator:
            found[name] = path
    return found


def choose(names: tuple[str, ...] | None) -> None:
    """Set the platforms in use, the default one first; None for all, the host first.

    The host's platform is always there: arrays that are on no device yet are in its memory.
    """
    _selected[0] = names


def selected() -> tuple[str, ...]:
    """The platforms in use, the default one first."""
    return _selected[0] or known()


def backend(name: str | None = None) -> Backend:
    """The backend of a platform, by default that of the first one in use.

    Raises:
      BackendUnavailable: there is no such platform, or it is not among those in use.
    """
    if name is None:
        name = selected()[0]
    elif not _is_in_use(name):
        raise BackendUnavailable(
            f"the platform {name!r} is not among those in use: {', '.join(selected())} "
            "(GNOMON_PLATFORMS, or the config option gnomon_platforms)"
        )
    return backend_of_device(name) if name in known() else _first_of(name)


def _is_in_use(name: str) -> bool:
    chosen = _selected[0]
    if chosen is None:
        return True
    meant = {HOST_PLATFORM, *chosen, *(m for c in chosen for m in _ALIASES.get(c, ()))}
    return not meant.isdisjoint((name, *_ALIASES.get(name, ())))


def _first_of(alias: str) -> Backend:
    """The backend of the first platform of an alias that has a device, among those in use."""
    reasons = []
    for name in filter(_is_in_use, _ALIASES.get(alias, (alias,))):
        try:
            found = backend_of_device(name)
            found.devices()
        except BackendUnavailable as error:
            reasons.append(str(error))
        else:
            return found
    raise BackendUnavailable("; ".join(reasons))


def backend_of_device(name: str) -> Backend:
    """The backend of a platform that there are devices of, in use or not."""
    found = _backends.get(name)
    if found is None:
        with _lock:
            found = _backends.get(name)
            if found is None:
                found = _backends[name] = _make(name)
    return found


def host_device() -> Device:
    """The device of arrays in the process's own memory; its backend is made when it is needed."""
    device: Device = _import(_HOST_DEVICE)()
    return device


def _import(path: str) -> Any:
    module, _, function = path.partition(":")
    return getattr(importlib.import_module(module), function)


def compiler_for(target: str) -> tuple[Any, str]:
    """The backend that compiles for a target, of which no device need be here.

    Args:
      target: a platform and what its compiler asks beside, such as ``"cuda:sm_90"`` or
        ``"tpu:v5e:2x2"``, or a processor, such as ``"aarch64-linux"``.
    Returns:
      The backend, which has a ``compile_for`` beside `Backend`'s methods, and what stands behind
      the platform's name.
    Raises:
      ValueError: there is no such target; the message lists those that there are.
    """
    if not isinstance(target, str):
        raise TypeError(f"a target is named by a string such as 'cuda:sm_90', got {target!r}")
    platform, _, rest = target.partition(":")
    if platform in plugins() or _FACTORIES.get(platform, _IREE) != _IREE:
        return backend(platform), rest
    return _import(_IREE)(target), rest


def _make(name: str) -> Backend:
    factory: Any = _FACTORIES.get(name)
    if name in plugins() and not callable(factory):
        if name == HOST_PLATFORM:
            raise ValueError(
                f"GNOMON_PJRT_PLUGIN names a plugin {name!r}, which is the platform of the process "
                f"itself; give the plugin another name, such as xla_{name}:path"
            )
        # The user's choice goes before ours: cuda:path is CUDA through its plugin.
        factory = _PLUGIN
    if factory is None:
        raise BackendUnavailable(
            f"unknown platform {name!r}: there are {', '.join(map(repr, known()))} (a PJRT plugin "
            "becomes a platform by GNOMON_PJRT_PLUGIN=name:path)"
        )
    made: Backend = (_import(factory) if isinstance(factory, str) else factory)(name)
    return made
