"""The registry of platforms: the known names, those in use, and their backends.

A backend is created at the first use of its platform, and its driver or plugin is started at the
first use of its devices. The use of a missing platform raises `BackendUnavailable` and does not
affect the others.

Environment:
    GNOMON_PJRT_PLUGIN: additional platforms, a comma-separated list of ``name:path`` of a plugin.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.interface import Backend, Device

__all__ = [
    "HOST_PLATFORM",
    "backend",
    "backend_of_device",
    "check_host_is_unused",
    "choose",
    "compiler_for",
    "host_compiler",
    "host_device",
    "host_device_count",
    "host_engine",
    "known",
    "plugins",
    "prestart_host_compiler",
    "register",
    "selected",
    "set_host_device_count",
    "set_host_engine",
    "unregister",
]

HOST_PLATFORM = "cpu"

# JAX's name for several platforms.
_ALIASES = {"gpu": ("cuda", "rocm")}

# The function that returns the host's device without creating its backend.
_HOST_DEVICE = "gnomon.backends.iree.device:cpu_device"

# The class that compiles for this processor in this process, or chooses between compilers.
_HOST_CHOICES = "gnomon.backends.host_compiler:HostCompiler"

# The function that starts the compiler's process if it is sure to be needed.
_HOST_COMPILER = "gnomon.backends.iree.compiler:prestart_if_nothing_is_cached"

# The `module:function` that creates the backend of a platform from its name. A string, so that a
# backend costs nothing until its platform is used.
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


@dataclass
class _HostDevices:
    """The number of devices of the host's platform, and whether it has been used."""

    count: int = 1
    fixed: bool = False


_lock = threading.RLock()
# The backend whose devices have the name of the host's platform; None: the host itself.
_host_engine: list[Backend | None] = [None]
_host_devices = _HostDevices()
_backends: dict[str, Backend] = {}
# The platforms in use, the default one first; None for all known ones, the host first.
_selected: list[tuple[str, ...] | None] = [None]


def register(name: str, factory: Callable[[str], Backend]) -> None:
    """Add a platform, or replace its backend.

    Args:
      name: the platform's name.
      factory: creates its backend from the name, at the first use.
    """
    with _lock:
        _FACTORIES[name] = factory
        _backends.pop(name, None)


def unregister(name: str) -> None:
    """Remove a platform; existing arrays and programs remain valid."""
    with _lock:
        _FACTORIES.pop(name, None)
        _backends.pop(name, None)


def known() -> tuple[str, ...]:
    """The names of all platforms that have a backend, installed or not."""
    return tuple(dict.fromkeys((*_FACTORIES, *plugins())))


def plugins() -> dict[str, str]:
    """The platforms that the environment adds, with the paths of their plugins."""
    found = {}
    for entry in os.environ.get("GNOMON_PJRT_PLUGIN", "").split(","):
        name, separator, path = entry.strip().partition(":")
        if separator:
            found[name] = path
    return found


def choose(names: tuple[str, ...] | None) -> None:
    """Set the platforms in use, the default one first; None for all, the host first.

    The host's platform is always included: arrays that are not yet on a device are in its memory.
    """
    _selected[0] = names


def selected() -> tuple[str, ...]:
    """The platforms in use, the default one first."""
    return _selected[0] or known()


def backend(name: str | None = None) -> Backend:
    """The backend of a platform; the default is the first platform in use.

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
    engine = _host_engine[0]
    if engine is not None and name == HOST_PLATFORM:
        return engine
    return backend_of_device(name) if name in known() else _first_of(name)


def _is_in_use(name: str) -> bool:
    chosen = _selected[0]
    if chosen is None:
        return True
    intended = {HOST_PLATFORM, *chosen, *(m for c in chosen for m in _ALIASES.get(c, ()))}
    return not intended.isdisjoint((name, *_ALIASES.get(name, ())))


def _first_of(alias: str) -> Backend:
    """The backend of the first platform of an alias that is in use and has a device."""
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
    """The backend of a platform, which need not be among those in use."""
    found = _backends.get(name)
    if found is None:
        with _lock:
            found = _backends.get(name)
            if found is None:
                found = _backends[name] = _make(name)
    return found


def set_host_device_count(count: int) -> None:
    """Set the number of devices of the host's platform.

    Raises:
      RuntimeError: programs have asked for these devices already, and there is another number.
    """
    with _lock:
        if _host_devices.fixed and count != _host_devices.count:
            raise RuntimeError(
                f"the number of CPU devices is {_host_devices.count}, and cannot be set to {count} "
                "after the devices have been used: set gnomon_num_cpu_devices at the start of the "
                "program"
            )
        _host_devices.count = count


def host_device_count() -> int:
    """The number of devices of the host's platform, which is fixed from now on."""
    with _lock:
        _host_devices.fixed = True
        return _host_devices.count


def set_host_engine(engine: Backend | None) -> None:
    """Use another backend, which also has devices of other processes, for the host's platform.

    The host's own device stays, with the arrays in this process's memory; it is not listed any
    more.
    """
    _host_engine[0] = engine


def check_host_is_unused() -> None:
    """Raise `RuntimeError` if programs have used the host's devices."""
    with _lock:
        if _host_devices.fixed or HOST_PLATFORM in _backends:
            raise RuntimeError(
                "the CPU devices have already been used; call gnomon.distributed.initialize() at "
                "the start of the program, before any computation and before gnomon.devices()"
            )


def host_engine() -> Backend | None:
    """The backend that `set_host_engine` has set."""
    return _host_engine[0]


def host_device() -> Device:
    """The device of arrays in the process's own memory; its backend is created on demand."""
    device: Device = _import(_HOST_DEVICE)()
    return device


def host_compiler(choice: str) -> Any:
    """What lowers and compiles programs for this machine's processor.

    Args:
      choice: ``"iree"`` for the backend of the host's platform; for others, see
        `host_compiler.HostCompiler`. A backend that replaces the platform's own one has no choice.
    """
    if choice == "iree" or _FACTORIES.get(HOST_PLATFORM) != _IREE:
        return backend_of_device(HOST_PLATFORM)
    return _host_choice(choice)


@functools.cache
def _host_choice(choice: str) -> Any:
    return _import(_HOST_CHOICES)(choice)


def _import(path: str) -> Any:
    module, _, function = path.partition(":")
    return getattr(importlib.import_module(module), function)


def compiler_for(target: str) -> tuple[Any, str]:
    """The backend that compiles for a target, which need not be present on this machine.

    Args:
      target: a platform with a description for its compiler, such as ``"cuda:sm_90"`` or
        ``"tpu:v5e:2x2"``, or a processor, such as ``"aarch64-linux"``.

    Returns:
      The backend, which has a method ``compile_for`` in addition to those of `Backend`, and the
      part of ``target`` after the platform's name.

    Raises:
      ValueError: there is no such target; the message lists the targets.
    """
    if not isinstance(target, str):
        raise TypeError(f"a target is a string such as 'cuda:sm_90', got {target!r}")
    platform, _, rest = target.partition(":")
    if platform in plugins() or _FACTORIES.get(platform, _IREE) != _IREE:
        return backend(platform), rest
    return _import(_IREE)(target), rest


@functools.cache
def prestart_host_compiler() -> None:
    """Start the compiler of the host's programs in the background if the first one needs it.

    The start takes longer than tracing and lowering a small program, including their imports.
    """
    if _FACTORIES.get(HOST_PLATFORM) == _IREE:
        _import(_HOST_COMPILER)()


def _make(name: str) -> Backend:
    factory: Any = _FACTORIES.get(name)
    # The backends of other platforms are also created to list their devices.
    if name == HOST_PLATFORM:
        prestart_host_compiler()
    if name in plugins() and not callable(factory):
        if name == HOST_PLATFORM:
            raise ValueError(
                f"GNOMON_PJRT_PLUGIN names a plugin {name!r}, but this is the host's own platform; "
                f"give the plugin another name, such as xla_{name}:path"
            )
        # The user's choice takes precedence: cuda:path selects CUDA through its plugin.
        factory = _PLUGIN
    if factory is None:
        raise BackendUnavailable(
            f"unknown platform {name!r}: the platforms are {', '.join(map(repr, known()))} (set "
            "GNOMON_PJRT_PLUGIN=name:path to add the platform of a PJRT plugin)"
        )
    made: Backend = (_import(factory) if isinstance(factory, str) else factory)(name)
    return made
