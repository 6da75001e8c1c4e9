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
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "legacy_prng_key",
    "log_compiles",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "threefry_partitionable",
]


@dataclass(frozen=True)
class _Option:
    """A public option: the attribute of `Config` that holds it and the values that it takes.

    Either True and False, or one of ``choices``, or what ``check`` makes of a value. Those that do
    not change what a program is, ``steers`` says, may differ between uses of a compiled one.
    """

    attribute: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    check: Callable[[str, Any], Any] | None = None
    steers: bool = True

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


_PRECISIONS = (
    "default",
    "high",
    "highest",
    "bfloat16",
    "bfloat16_3x",
    "tensorfloat32",
    "float32",
    "fastest",
)


def _precision(name: str, value: Any) -> str | None:
    """The name of a precision, or None."""
    if value is None or value == "":
        return None
    if value not in _PRECISIONS:
        raise ValueError(
            f"config option {name} takes None or one of {', '.join(map(repr, _PRECISIONS))}, "
            f"got {value!r}"
        )
    return str(value)


def _only(known: Any) -> Callable[[str, Any], Any]:
    """The check of an option that has one value here."""

    def check(name: str, value: Any) -> Any:
        if str(value).lower() not in (str(known).lower(), str(int(known is True))):
            raise ValueError(f"config option {name} is always {known!r} here, got {value!r}")
        return known

    return check


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
    "numpy_rank_promotion": _Option(
        "numpy_rank_promotion",
        "allow",
        "what numpy functions do where arrays of different ranks meet, scalars aside",
        ("allow", "warn", "raise"),
    ),
    "default_matmul_precision": _Option(
        "default_matmul_precision",
        None,
        "the precision of matrix products and convolutions that name none",
        check=_precision,
    ),
    "default_prng_impl": _Option(
        "default_prng_impl",
        "threefry2x32",
        "the generator of random keys: there is one",
        check=_only("threefry2x32"),
    ),
    "threefry_partitionable": _Option(
        "threefry_partitionable",
        True,
        "each random bit depends on its place alone: always so",
        check=_only(True),
    ),
    "enable_custom_prng": _Option(
        "enable_custom_prng", False, "random.PRNGKey makes typed keys, as random.key does"
    ),
    "legacy_prng_key": _Option(
        "legacy_prng_key",
        "allow",
        "what random functions do with raw keys, arrays of uint32",
        ("allow", "warn", "error"),
    ),
    "log_compiles": _Option(
        "log_compiles",
        False,
        "log what is compiled, and how long that took",
        steers=False,
    ),
    "explain_cache_misses": _Option(
        "explain_cache_misses", False, "log why a jitted function is traced again", steers=False
    ),
    "no_tracing": _Option(
        "no_tracing", False, "a jitted function that would be traced raises", steers=False
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
      numpy_rank_promotion: ``"allow"``, ``"warn"`` or ``"raise"``.
      default_matmul_precision: the name of a precision, or None.
      enable_custom_prng: `random.PRNGKey` makes typed keys.
      legacy_prng_key: ``"allow"``, ``"warn"`` or ``"error"``.
      log_compiles, explain_cache_misses, no_tracing: of what `jit` does with a new signature.
      watches_tracing: one of those three is on.
      disable_jit: jitted functions, loops and branches run as plain Python.
      debug_nans, debug_infs: a nan or an infinity among results raises.
      checks_values: one of those two is on.
      checks_somewhere: it is on for some thread; read from the class, which is cheaper.
      checks_operands: numpy functions must look at their operands: they take no short ways.
      operands_somewhere: likewise for some thread.
      default_device: a device, the name of a platform, or None.
      platforms: the names of those in use, the default one first, or None.
      placed_somewhere: for some thread the default device is not the host; read from the class.
      token: a hashable value, equal where all options that steer tracing are equal.
    """

    x64: bool
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    default_matmul_precision: str | None
    default_prng_impl: str
    threefry_partitionable: bool
    enable_custom_prng: bool
    legacy_prng_key: str
    log_compiles: bool
    explain_cache_misses: bool
    no_tracing: bool
    watches_tracing: bool
    disable_jit: bool
    debug_nans: bool
    debug_infs: bool
    checks_values: bool
    checks_somewhere: bool
    checks_operands: bool
    operands_somewhere: bool
    default_device: Any
    platforms: tuple[str, ...] | None
    placed_somewhere: bool
    token: tuple[Any, ...]

    def update(self, name: str, value: Any) -> None:
        """Set an option for the process.

        Args:
          name: ``gnomon_enable_x64``, say: the names of the context managers of this module, and
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
    process = {o.attribute: getattr(Config, o.attribute) for o in _OPTIONS.values()}
    for name, value in _derived(process).items():
        setattr(Config, name, value)
    for overrides in _active_overrides:
        overrides.update(_derived({**process, **overrides}))
    platforms.choose(Config.platforms)
    defaults = [Config.default_device, *(o.get("default_device") for o in _active_overrides)]
    if Config.platforms:
        defaults.append(Config.platforms[0])
    Config.placed_somewhere = any(d not in (None, platforms.HOST_PLATFORM) for d in defaults)
    for attribute, somewhere in (
        ("checks_values", "checks_somewhere"),
        ("checks_operands", "operands_somewhere"),
    ):
        anywhere = any(overrides[attribute] for overrides in _active_overrides)
        setattr(Config, somewhere, getattr(Config, attribute) or anywhere)


def _derived(values: dict[str, Any]) -> dict[str, Any]:
    """What follows from the values of the options."""
    checks_values = values["debug_nans"] or values["debug_infs"]
    return {
        "token": tuple(values[o.attribute] for o in _OPTIONS.values() if o.steers),
        "checks_values": checks_values,
        "checks_operands": checks_values or values["numpy_rank_promotion"] != "allow",
        "watches_tracing": any(
            values[name] for name in ("log_compiles", "explain_cache_misses", "no_tracing")
        ),
    }


def _from_environment(name: str, option: _Option) -> Any:
    # JAX_PLATFORMS is meant for JAX, which knows other platforms.
    for prefix in _PREFIXES[:1] if name == "platforms" else _PREFIXES:
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


def numpy_rank_promotion(new_val: str) -> Any:
    """A context manager that sets what numpy functions do where arrays of different ranks meet.

    Scalars, of rank 0, may meet any array.

    Args:
      new_val: ``"allow"``, ``"warn"`` or ``"raise"``.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> with gn.numpy_rank_promotion("raise"):
      ...     gnp.ones((2, 3)) + gnp.ones(3)
      Traceback (most recent call last):
          ...
      ValueError: Operands could not be broadcast together for add on shapes (2, 3) (3,)...
    """
    return config.override("gnomon_numpy_rank_promotion", new_val)


def default_matmul_precision(new_val: str | None) -> Any:
    """A context manager that sets the precision of products that name none; see `lax.Precision`.

    Args:
      new_val: ``"default"``, ``"high"``, ``"highest"``, ``"bfloat16"``, ``"bfloat16_3x"``,
        ``"tensorfloat32"``, ``"float32"``, ``"fastest"``, or None.
    """
    return config.override("gnomon_default_matmul_precision", new_val)


def default_prng_impl(new_val: str) -> Any:
    """A context manager that sets the generator of random keys; there is ``"threefry2x32"``."""
    return config.override("gnomon_default_prng_impl", new_val)


def threefry_partitionable(new_val: bool) -> Any:
    """A context manager for compatibility: each random bit depends on its place alone, always."""
    return config.override("gnomon_threefry_partitionable", new_val)


def enable_custom_prng(new_val: bool = True) -> Any:
    """A context manager in which `random.PRNGKey` makes typed keys, as `random.key` does."""
    return config.override("gnomon_enable_custom_prng", new_val)


def legacy_prng_key(new_val: str) -> Any:
    """A context manager that sets what random functions do with raw keys, arrays of uint32.

    Args:
      new_val: ``"allow"``, ``"warn"`` or ``"error"``.
    """
    return config.override("gnomon_legacy_prng_key", new_val)


def log_compiles(new_val: bool = True) -> Any:
    """A context manager in which `jit` logs what it traces and compiles, and how long that took.

    The messages are warnings of the logger ``gnomon.jit``.
    """
    return config.override("gnomon_log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> Any:
    """A context manager in which `jit` logs why a function is traced again.

    The messages are warnings of the logger ``gnomon.jit``.
    """
    return config.override("gnomon_explain_cache_misses", new_val)


def no_tracing(new_val: bool = True) -> Any:
    """A context manager in which a jitted function that would be traced raises ``RuntimeError``."""
    return config.override("gnomon_no_tracing", new_val)


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
