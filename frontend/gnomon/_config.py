"""Configuration: process-wide options, with overrides for one thread and one ``with`` block.

``gnomon.config.update("gnomon_enable_x64", True)``; JAX's names (``jax_enable_x64``) mean the same,
and so do the environment variables ``GNOMON_ENABLE_X64`` and ``JAX_ENABLE_X64``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gnomon.backends import platforms

__all__ = [
    "config",
    "debug_infs",
    "debug_nans",
    "default_device",
    "disable_jit",
    "enable_x64",
    "numpy_dtype_promotion",
]


@dataclass(frozen=True)
class _Option:
    """A public option: the attribute of `Config` that holds it and the values that it takes.

    Either True and False, or one of ``choices``, or what ``check`` makes of a value.
    """

    attribute: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    check: Callable[[str, Any], Any] | None = None

    def parse(self, name: str, value: Any) -> Any:
        """A value from a program."""
        if self.check is not None:
            return self.check(name, value)
        if self.choices:
            if value not in self.choices:
                raise ValueError(
                    f"config option {name} takes one of {', '.join(map(repr, self.choices))}, "
                    f"got {value!r}"
                )
            return value
        if not isinstance(value, (bool, int)) or value not in (0, 1):
            raise ValueError(f"config option {name} takes True or False, got {value!r}")
        return bool(value)

    def parse_text(self, name: str, text: str) -> Any:
        """A value from an environment variable."""
        if self.choices or self.check is not None:
            return self.parse(name, text.strip())
        word = text.strip().lower()
        if word in ("1", "y", "yes", "t", "true", "on"):
            return True
        if word in ("", "0", "n", "no", "f", "false", "off"):
            return False
        raise ValueError(f"the environment variable {name} takes 1, true, 0 or false, got {text!r}")


def _device(name: str, value: Any) -> Any:
    """A device, the name of a platform, or None."""
    if value is None or value == "":
        return None
    if isinstance(value, str) or hasattr(value, "memory_stats"):
        return value
    device = getattr(value, "_device", None)
    if device is None:
        raise ValueError(
            f"config option {name} takes a device (one of gnomon.devices()), the name of a "
            f"platform, or None, got {value!r}"
        )
    return device


def _platforms(name: str, value: Any) -> tuple[str, ...] | None:
    """The platforms in use, the default one first."""
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"config option {name} takes the names of platforms, separated by commas, or None, "
            f"got {value!r}"
        )
    names = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    return names or None


_OPTIONS: dict[str, _Option] = {
    "enable_x64": _Option(
        "x64", False, "64-bit types are kept, and are the default, instead of 32-bit ones"
    ),
    "numpy_dtype_promotion": _Option(
        "numpy_dtype_promotion",
        "standard",
        "'strict' refuses implicit promotion of different dtypes",
        ("standard", "strict"),
    ),
    "disable_jit": _Option(
        "disable_jit", False, "jitted functions, loops and branches run as plain Python"
    ),
    "debug_nans": _Option("debug_nans", False, "a nan among results raises, and names the op"),
    "debug_infs": _Option("debug_infs", False, "an infinity likewise"),
    "default_device": _Option(
        "default_device",
        None,
        "where arrays without a place of their own go: a device, or the name of a platform",
        check=_device,
    ),
    "platforms": _Option(
        "platforms",
        None,
        "the platforms in use, separated by commas, the default one first",
        check=_platforms,
    ),
}
_PREFIXES = ("gnomon_", "jax_")


def _option(name: str) -> _Option:
    for prefix in _PREFIXES:
        option = _OPTIONS.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if option is not None:
            return option
    known = ", ".join(f"gnomon_{n}" for n in _OPTIONS)
    raise AttributeError(f"unrecognized config option: {name} (there are {known})")


class Config(threading.local):
    """The options in force.

    A class attribute is the process's value; an attribute of the instance, which is one for each
    thread, overrides it inside of a ``with`` block. So a read costs one attribute look-up.

    Attributes:
      x64: 64-bit types are on.
      numpy_dtype_promotion: ``"standard"`` or ``"strict"``.
      disable_jit: jitted functions, loops and branches run as plain Python.
      debug_nans, debug_infs: a nan or an infinity among results raises.
      checks_values: one of those two is on.
      checks_somewhere: it is on for some thread; read from the class, which is cheaper.
      default_device: a device, the name of a platform, or None.
      platforms: the names of those in use, the default one first, or None.
      placed_somewhere: for some thread the default device is not the host; read from the class.
      token: a hashable value, equal where all options that steer tracing are equal.
    """

    x64: bool
    numpy_dtype_promotion: str
    disable_jit: bool
    debug_nans: bool
    debug_infs: bool
    checks_values: bool
    checks_somewhere: bool
    default_device: Any
    platforms: tuple[str, ...] | None
    placed_somewhere: bool
    token: tuple[Any, ...]

    def update(self, name: str, value: Any) -> None:
        """Set an option for the process.

        Args:
          name: ``gnomon_enable_x64``, ``gnomon_numpy_dtype_promotion``, ``gnomon_disable_jit``,
            ``gnomon_debug_nans``, ``gnomon_debug_infs``, ``gnomon_default_device`` or
            ``gnomon_platforms``; the prefix ``jax_`` means the same.
          value: the new value.

        Raises:
          AttributeError: there is no such option.
          ValueError: the option does not take the value.
        """
        option = _option(name)
        parsed = option.parse(name, value)
        with _lock:
            setattr(Config, option.attribute, parsed)
            _refresh_tokens()

    def read(self, name: str) -> Any:
        """The value in force of an option, by the name that `update` takes."""
        return getattr(self, _option(name).attribute)

    @property
    def x64_enabled(self) -> bool:
        """True where 64-bit types are on."""
        return self.x64

    def __getattr__(self, name: str) -> Any:
        # Reached for names that are not attributes: the public names of the options.
        if name.startswith(_PREFIXES):
            return self.read(name)
        raise AttributeError(f"'Config' object has no attribute '{name}'")

    @contextmanager
    def override(self, name: str, value: Any) -> Iterator[None]:
        """Set an option for this thread inside of a ``with`` block."""
        option = _option(name)
        parsed = option.parse(name, value)
        overrides = vars(self)
        before = dict(overrides)
        with _lock:
            overrides[option.attribute] = parsed
            _active_overrides.append(overrides)
            _refresh_tokens()
        try:
            yield
        finally:
            with _lock:
                # Found by identity: the overrides of two threads may be equal.
                position = max(i for i, o in enumerate(_active_overrides) if o is overrides)
                del _active_overrides[position]
                overrides.clear()
                overrides.update(before)
                _refresh_tokens()


_lock = threading.Lock()
_active_overrides: list[dict[str, Any]] = []


def _refresh_tokens() -> None:
    """Recompute the token of the process and of each thread that overrides an option."""
    names = [option.attribute for option in _OPTIONS.values()]
    Config.token = tuple(getattr(Config, name) for name in names)
    Config.checks_values = Config.debug_nans or Config.debug_infs
    for overrides in _active_overrides:
        overrides["token"] = tuple(overrides.get(n, getattr(Config, n)) for n in names)
        overrides["checks_values"] = any(
            overrides.get(n, getattr(Config, n)) for n in ("debug_nans", "debug_infs")
        )
    platforms.choose(Config.platforms)
    defaults = [Config.default_device, *(o.get("default_device") for o in _active_overrides)]
    if Config.platforms:
        defaults.append(Config.platforms[0])
    Config.placed_somewhere = any(d not in (None, platforms.HOST_PLATFORM) for d in defaults)
    Config.checks_somewhere = Config.checks_values or any(
        overrides["checks_values"] for overrides in _active_overrides
    )


def _from_environment(name: str, option: _Option) -> Any:
    for prefix in _PREFIXES:
        variable = f"{prefix}{name}".upper()
        text = os.environ.get(variable)
        if text is not None:
            return option.parse_text(variable, text)
    return option.default


for _name, _entry in _OPTIONS.items():
    setattr(Config, _entry.attribute, _from_environment(_name, _entry))

_refresh_tokens()
config = Config()


def enable_x64(new_val: bool = True) -> Any:
    """A context manager that turns 64-bit types on (or off) for this thread.

    Example:
      >>> import gnomon.numpy as gnp
      >>> with enable_x64():
      ...     print(gnp.arange(3).dtype)
      int64
    """
    return config.override("gnomon_enable_x64", new_val)


def numpy_dtype_promotion(new_val: str) -> Any:
    """A context manager that sets how different dtypes meet: ``"standard"`` or ``"strict"``."""
    return config.override("gnomon_numpy_dtype_promotion", new_val)


def disable_jit(disable: bool = True) -> Any:
    """A context manager in which jitted functions run as plain Python, op by op.

    So do the bodies of ``lax.scan``, ``while_loop``, ``fori_loop``, ``cond`` and ``switch`` where
    what steers them is known: Python's ``print`` and debugger see the values.

    Example:
      >>> import gnomon as gn
      >>> @gn.jit
      ... def f(x):
      ...     print(x)
      ...     return x + 1
      >>> with gn.disable_jit():
      ...     _ = f(gn.numpy.arange(2))
      [0 1]
    """
    return config.override("gnomon_disable_jit", disable)


def debug_nans(new_val: bool = True) -> Any:
    """A context manager in which a nan among the results of an op raises `FloatingPointError`.

    The error names the op and the user's line. A jitted function whose results hold a nan is run
    again, op by op, to find where it came from.

    Example:
      >>> import gnomon as gn
      >>> with gn.debug_nans(True):
      ...     gn.numpy.log(gn.numpy.float32(-1))
      Traceback (most recent call last):
          ...
      FloatingPointError: invalid value (nan) encountered in log...
    """
    return config.override("gnomon_debug_nans", new_val)


def default_device(new_val: Any) -> Any:
    """A context manager that sets where arrays without a place of their own go, for this thread.

    Programs whose arguments are not committed to a device run there too.

    Args:
      new_val: a device, the name of a platform, or None for the default of the process.

    Example:
      >>> import gnomon as gn
      >>> with gn.default_device(gn.devices("cpu")[0]):
      ...     print(gn.numpy.zeros(3).devices())
      {CpuDevice(id=0)}
    """
    return config.override("gnomon_default_device", new_val)


def debug_infs(new_val: bool = True) -> Any:
    """A context manager in which an infinite result of an op raises; see `debug_nans`."""
    return config.override("gnomon_debug_infs", new_val)
