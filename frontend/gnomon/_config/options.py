"""The options of the configuration: names, defaults, the values that each one takes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnomon._config.logs import LEVELS
from gnomon.dialects.dot_algorithm import PRESETS

__all__ = ["OPTIONS", "PREFIXES", "WITHOUT_EFFECT", "Option", "option_of"]


@dataclass(frozen=True)
class Option:
    """A public option: the attribute of `Config` that holds it and the values that it takes.

    The value is one of ``choices``, or what ``check`` returns, or else True or False. ``steers``
    tells whether the option affects traced programs: if so, they are not reused when it changes.
    ``variable`` is an environment variable that holds the value instead, so that the processes that
    this one starts see it.
    """

    attribute: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    check: Callable[[str, Any], Any] | None = None
    steers: bool = True
    variable: str = ""

    @property
    def is_boolean(self) -> bool:
        """Whether the option takes True or False."""
        return not self.choices and self.check is None

    def parse(self, name: str, value: Any) -> Any:
        """Check and convert a value that is given in Python."""
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

    def parse_text(self, name: str, text: str, source: str = "the environment variable") -> Any:
        """Convert the text of an environment variable, or of another source."""
        if isinstance(self.default, frozenset):
            return frozenset(word.strip() for word in text.split(",") if word.strip())
        if not self.is_boolean:
            return self.parse(name, text.strip())
        word = text.strip().lower()
        if word in ("1", "y", "yes", "t", "true", "on"):
            return True
        if word in ("", "0", "n", "no", "f", "false", "off"):
            return False
        raise ValueError(f"{source} {name} takes 1, true, 0 or false, got {text!r}")


def _device(name: str, value: Any) -> Any:
    """Check a value that must be a device, the name of a platform, or None."""
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
    """Parse the names of the platforms in use, the default one first."""
    if value is not None and not isinstance(value, str):
        raise ValueError(
            f"config option {name} takes the names of platforms, separated by commas, or None, "
            f"got {value!r}"
        )
    names = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    return names or None


def _folder(name: str, value: Any) -> str | None:
    """Check the path of a folder, or None."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"config option {name} takes the path of a folder or None, got {value!r}")
    return os.fspath(value) if value else None


def _bytes(name: str, value: Any) -> int:
    """Check a number of bytes; -1 means any number."""
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -2
    if count < -1 or isinstance(value, (bool, float)):
        raise ValueError(f"config option {name} takes a number of bytes or -1, got {value!r}")
    return count


def _count(name: str, value: Any) -> int:
    """Check a number of devices."""
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1 or isinstance(value, (bool, float)):
        raise ValueError(f"config option {name} takes a positive number of devices, got {value!r}")
    return count


def _logging_level(name: str, value: Any) -> str | None:
    """Check the name of a level, or None."""
    if value is not None and value not in LEVELS:
        raise ValueError(
            f"config option {name} takes None or one of {', '.join(map(repr, LEVELS))}, "
            f"got {value!r}"
        )
    level: str | None = value
    return level


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
    """Check the name of a precision, or None."""
    if value is None or value == "":
        return None
    if value not in _PRECISIONS and value not in PRESETS:
        raise ValueError(
            f"config option {name} takes None, one of {', '.join(map(repr, _PRECISIONS))}, or the "
            f"name of a lax.DotAlgorithmPreset, got {value!r}"
        )
    return str(value)


TRANSFER_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")


def _transfer_level(name: str, value: Any) -> str | None:
    """Check the action at a transfer, or None."""
    if value is None or value == "":
        return None
    if value not in TRANSFER_LEVELS:
        raise ValueError(
            f"config option {name} takes None or one of {', '.join(map(repr, TRANSFER_LEVELS))}, "
            f"got {value!r}"
        )
    return str(value)


def _axis_names(name: str, value: Any) -> frozenset[str]:
    """Check a set of axis names."""
    if not isinstance(value, (set, frozenset)):
        raise TypeError(f"config option {name} takes a set of axis names, got {value!r}")
    return frozenset(value)


OPTIONS: dict[str, Option] = {
    "enable_x64": Option(
        "x64", False, "64-bit types are kept, and are the default, instead of 32-bit ones"
    ),
    "numpy_dtype_promotion": Option(
        "numpy_dtype_promotion",
        "standard",
        "'strict' refuses implicit promotion of different dtypes",
        ("standard", "strict"),
    ),
    "numpy_rank_promotion": Option(
        "numpy_rank_promotion",
        "allow",
        "how numpy functions treat operands of different ranks, except for scalars",
        ("allow", "warn", "raise"),
    ),
    "default_matmul_precision": Option(
        "default_matmul_precision",
        None,
        "the default precision of matrix products and convolutions",
        check=_precision,
    ),
    "default_prng_impl": Option(
        "default_prng_impl",
        "threefry2x32",
        "the generator of random keys",
        (
            "threefry2x32",
            "rbg",
            "unsafe_rbg",
            "philox2x32",
            "philox4x32",
            "threefry4x32",
        ),
    ),
    "threefry_partitionable": Option(
        "threefry_partitionable",
        True,
        "each random bit depends only on its position, not on the size of its array",
    ),
    "enable_custom_prng": Option(
        "enable_custom_prng", False, "random.PRNGKey makes typed keys, as random.key does"
    ),
    "legacy_prng_key": Option(
        "legacy_prng_key",
        "allow",
        "how random functions treat raw keys (arrays of uint32)",
        ("allow", "warn", "error"),
    ),
    "cpu_compiler": Option(
        "cpu_compiler",
        "auto",
        "what compiles jitted functions for the CPU: 'llvm' in this process, which takes less "
        "time, 'iree', whose code uses several threads, or 'auto', which is 'llvm' for small "
        "programs",
        ("auto", "llvm", "iree"),
    ),
    "log_compiles": Option(
        "log_compiles",
        False,
        "log each tracing and compilation with its duration",
        steers=False,
    ),
    "logging_level": Option(
        "logging_level",
        None,
        "the level of the loggers, whose messages then go to standard error; None leaves them to "
        "the program",
        check=_logging_level,
        steers=False,
    ),
    "explain_compiles": Option(
        "explain_compiles",
        False,
        "write to standard error how far the compilation of a jitted function is",
        steers=False,
    ),
    "explain_cache_misses": Option(
        "explain_cache_misses", False, "log why a jitted function is traced again", steers=False
    ),
    "traceback_filtering": Option(
        "traceback_filtering",
        "auto",
        "how errors are printed: 'auto' and 'remove_frames' leave out the frames of gnomon, "
        "'tracebackhide' marks them for IPython and pytest, 'off' shows them",
        ("auto", "tracebackhide", "remove_frames", "off"),
        steers=False,
    ),
    "no_tracing": Option(
        "no_tracing", False, "a jitted function that would be traced raises", steers=False
    ),
    "disable_jit": Option(
        "disable_jit", False, "jitted functions, loops and branches run as plain Python"
    ),
    "tiered": Option(
        "tiered",
        False,
        "the first calls of a jitted function are evaluated while it is compiled in the background",
        steers=False,
    ),
    "debug_nans": Option(
        "debug_nans", False, "an op that returns a nan raises an error that names it"
    ),
    "debug_infs": Option(
        "debug_infs", False, "an op that returns infinity raises an error that names it"
    ),
    "check_tracer_leaks": Option(
        "check_tracer_leaks",
        False,
        "a traced value that outlives the function it was made in raises at its end",
    ),
    "enable_checks": Option(
        "enable_checks", False, "programs are verified after each pass", steers=False
    ),
    "no_execution": Option("no_execution", False, "computing anything raises"),
    "allow_f16_reductions": Option(
        "allow_f16_reductions", True, "lax.reduce_sum takes 16-bit floats"
    ),
    "no_collectives": Option(
        "no_collectives",
        frozenset(),
        "the axes of meshes over which a program must not communicate",
        check=_axis_names,
    ),
    "transfer_guard": Option(
        "transfer_guard",
        None,
        "the action at implicit transfers of values between the host and devices",
        check=_transfer_level,
        steers=False,
    ),
    **{
        f"transfer_guard_{kind}": Option(
            f"transfer_guard_{kind}",
            None,
            f"the same for transfers {kind.replace('_', ' ')}; None means that of transfer_guard",
            check=_transfer_level,
            steers=False,
        )
        for kind in ("host_to_device", "device_to_device", "device_to_host")
    },
    "default_device": Option(
        "default_device",
        None,
        "the device of new arrays: a device, or the name of a platform",
        check=_device,
    ),
    "num_cpu_devices": Option(
        "num_cpu_devices",
        1,
        "the number of CPU devices, which must be set before they are used",
        check=_count,
        steers=False,
    ),
    "compilation_cache_dir": Option(
        "compilation_cache_dir",
        None,
        "the folder of the cache of compiled programs; None means the user's cache folder",
        check=_folder,
        steers=False,
        variable="GNOMON_CACHE_DIR",
    ),
    "enable_compilation_cache": Option(
        "enable_compilation_cache",
        True,
        "compiled programs are kept on disk",
        steers=False,
        variable="GNOMON_CACHE",
    ),
    "compilation_cache_max_size": Option(
        "compilation_cache_max_size",
        2 << 30,
        "the most bytes of the cache on disk; -1 means any number",
        check=_bytes,
        steers=False,
        variable="GNOMON_CACHE_MAX_BYTES",
    ),
    "platforms": Option(
        "platforms",
        None,
        "the platforms in use, separated by commas, the default one first",
        check=_platforms,
    ),
}
# JAX's options that programs set, which mean nothing here; they take any value.
WITHOUT_EFFECT = {
    "captured_constants_warn_bytes": "constants of a program are not copied into it",
    "compilation_cache_include_metadata_in_key": "the key of the cache never has line numbers",
    "cpu_enable_async_dispatch": "calls on the CPU return when the result is there",
    "enable_pgle": "programs are not compiled again after a profile",
    "include_full_tracebacks_in_locations": "locations have the user's line",
    "persistent_cache_enable_xla_caches": "there are no caches of XLA",
    "persistent_cache_min_compile_time_secs": "the cache on disk keeps every program",
    "persistent_cache_min_entry_size_bytes": "the cache on disk keeps every program",
    "pprint_use_color": "text of programs has no colors",
    "raise_persistent_cache_errors": "a cache that fails is a warning",
    "softmax_custom_jvp": "the derivative of softmax does not overflow either way",
    "use_shardy_partitioner": "shardings are those of Shardy",
}
_ALIASES = {"platform_name": "platforms"}
PREFIXES = ("gnomon_", "jax_")


def option_of(name: str) -> Option:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            short = name.removeprefix(prefix)
            if short in WITHOUT_EFFECT:
                return Option(short, None, WITHOUT_EFFECT[short], check=lambda _, value: value)
            if (option := OPTIONS.get(_ALIASES.get(short, short))) is not None:
                return option
    known = [f"gnomon_{n}" for n in OPTIONS]
    wanted = f"gnomon_{name.removeprefix('gnomon_').removeprefix('jax_')}"
    near = difflib.get_close_matches(wanted, known, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise AttributeError(
        f"unrecognized config option: {name}{meant} (there are {', '.join(known)})"
    )
