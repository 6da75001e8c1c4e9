"""Configuration: process-wide options, and overrides for one thread inside of a ``with`` block.

``gnomon.config.update("gnomon_enable_x64", True)``; JAX's names (``jax_enable_x64``) mean the same,
and so do the environment variables ``GNOMON_ENABLE_X64`` and ``JAX_ENABLE_X64``. After
``gnomon.config.parse_flags_with_absl()``, the flags ``--gnomon_enable_x64`` and
``--jax_enable_x64`` of the command line do too. The options are declared in `options`, their
context managers in `contexts`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gnomon._config.flags import define_absl_flags, options_in
from gnomon._config.logs import set_logging_level
from gnomon._config.options import OPTIONS, PREFIXES, Option, option_of
from gnomon._native import set_context
from gnomon.backends import platforms

__all__ = ["Config", "config", "follow_host_engine"]


class Config(threading.local):
    """The options in force.

    A class attribute is the value of the process. The instance has separate attributes for each
    thread, which override it inside of a ``with`` block. So a read costs one attribute look-up.

    Attributes:
      x64: 64-bit types are on.
      numpy_dtype_promotion: ``"standard"`` or ``"strict"``.
      numpy_rank_promotion: ``"allow"``, ``"warn"`` or ``"raise"``.
      default_matmul_precision: the name of a precision, or None.
      enable_custom_prng: `random.PRNGKey` makes typed keys.
      legacy_prng_key: ``"allow"``, ``"warn"`` or ``"error"``.
      cpu_compiler: what compiles programs for the CPU, ``"auto"``, ``"llvm"`` or ``"iree"``.
      log_compiles, explain_cache_misses, no_tracing: how `jit` reports or refuses a new signature.
      explain_compiles: whether `jit` shows the progress of compilations.
      watches_tracing: ``log_compiles``, ``explain_cache_misses`` or ``no_tracing`` is on.
      disable_jit: jitted functions, loops and branches run as plain Python.
      tiered: first calls of jitted functions are evaluated while they are compiled.
      debug_nans, debug_infs: an op that returns a nan or an infinity raises.
      checks_values: ``debug_nans`` or ``debug_infs`` is on.
      checks_somewhere: ``checks_values`` is on in some thread; read from the class, which is
        cheaper.
      checks_operands: numpy functions must check their operands, so their fast paths are off.
      operands_somewhere: ``checks_operands`` is on in some thread; read from the class.
      check_tracer_leaks: traced values that outlive their function raise.
      enable_checks: programs are verified after each pass.
      traceback_filtering: how errors are printed: ``"auto"``, ``"tracebackhide"``,
        ``"remove_frames"`` or ``"off"``; see `gnomon._api.tracebacks`.
      no_execution: nothing is computed.
      allow_f16_reductions: `lax.reduce_sum` takes 16-bit floats.
      transfer_guard: the action at transfers. There is one more attribute for each direction; see
        `gnomon._arrays.transfers`.
      guards_transfers: some transfers are logged or forbidden.
      guards_somewhere: ``guards_transfers`` is on in some thread; read from the class.
      no_collectives: the axes of meshes over which programs must not communicate.
      default_device: a device, the name of a platform, or None.
      num_cpu_devices: the number of CPU devices.
      compilation_cache_dir, enable_compilation_cache, compilation_cache_max_size: the values that
        were set here; the variables of the environment that `gnomon.backends.cache` names hold
        those in force.
      platforms: the names of the platforms in use, the default one first, or None.
      placed_somewhere: in some thread the default device is not the host, or a mesh is set; read
        from the class.
      mesh_context: three meshes, each of which may be None: the one that `set_mesh` has set, the
        one that programs see, and that of the innermost ``with mesh:``.
      token: a hashable value that depends on all options that affect tracing.
      flags_are_parsed: whether `parse_flags_with_absl` has been called.
    """

    x64: bool
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    default_matmul_precision: str | None
    default_prng_impl: str
    threefry_partitionable: bool
    enable_custom_prng: bool
    legacy_prng_key: str
    cpu_compiler: str
    log_compiles: bool
    logging_level: str | None
    explain_cache_misses: bool
    explain_compiles: bool
    no_tracing: bool
    traceback_filtering: str
    watches_tracing: bool
    disable_jit: bool
    tiered: bool
    debug_nans: bool
    debug_infs: bool
    checks_values: bool
    checks_somewhere: bool
    checks_operands: bool
    operands_somewhere: bool
    check_tracer_leaks: bool
    enable_checks: bool
    no_execution: bool
    allow_f16_reductions: bool
    no_collectives: frozenset[Any]
    transfer_guard: str | None
    transfer_guard_host_to_device: str | None
    transfer_guard_device_to_device: str | None
    transfer_guard_device_to_host: str | None
    guards_transfers: bool
    guards_somewhere: bool
    default_device: Any
    num_cpu_devices: int
    compilation_cache_dir: str | None
    enable_compilation_cache: bool
    compilation_cache_max_size: int
    platforms: tuple[str, ...] | None
    mesh_context: tuple[Any, Any, Any] = (None, None, None)
    placed_somewhere: bool
    token: tuple[Any, ...]
    flags_are_parsed: bool = False

    def update(self, name: str, value: Any) -> None:
        """Set an option for the process.

        Args:
          name: the name of an option with the prefix ``gnomon_`` or ``jax_``, such as
            ``gnomon_enable_x64``.
          value: the new value.

        Raises:
          AttributeError: there is no such option.
          ValueError: the option does not take the value.
          RuntimeError: the number of CPU devices is changed after they have been used.
        """
        option = option_of(name)
        self._set(option, option.parse(name, value))

    def parse_flags_with_absl(self) -> None:
        """Set the options that the command line gives as flags, such as ``--jax_enable_x64=true``.

        Flags have the names that `update` takes. Those of options that are True or False may omit
        ``=true``. Other arguments, and all arguments after ``--``, are ignored. Only the first call
        has an effect.

        The flags are also defined for ``absl``, if that is installed, so that ``absl.app.run``
        accepts them.

        Raises:
          ValueError: an option does not take the value of its flag.
        """
        if Config.flags_are_parsed:
            return
        found = list(options_in(sys.argv[1:]))
        define_absl_flags()
        for option, parsed in found:
            self._set(option, parsed)
        Config.flags_are_parsed = True

    def _set(self, option: Option, parsed: Any) -> None:
        """Set an option for the process to a value that is checked and converted."""
        with _lock:
            if option.attribute == "num_cpu_devices":
                platforms.set_host_device_count(parsed)
            if option.attribute == "logging_level":
                set_logging_level(parsed)
            if option.variable:
                _export(option, parsed)
            setattr(Config, option.attribute, parsed)
            if option.attribute == "transfer_guard":
                for each in _GUARDS:
                    setattr(Config, each, parsed)
            _refresh_tokens()

    def read(self, name: str) -> Any:
        """The current value of an option, by the name that `update` takes."""
        option = option_of(name)
        return getattr(self, option.attribute, option.default)

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are on."""
        return self.x64

    def __getattr__(self, name: str) -> Any:
        # Called for names that are not attributes, such as the public names of the options.
        if name.startswith(PREFIXES):
            return self.read(name)
        raise AttributeError(f"'Config' object has no attribute '{name}'")

    def set_mesh_context(self, context: tuple[Any, Any, Any]) -> None:
        """Set the meshes of this thread; see ``mesh_context``."""
        overrides = vars(self)
        with _lock:
            if "mesh_context" in overrides:
                del overrides["mesh_context"]
                _deactivate(overrides)
            if context != (None, None, None):
                overrides["mesh_context"] = context
                _active_overrides.append(overrides)
            else:
                # Derived attributes of the thread would shadow those of the process.
                _drop_derived(overrides)
            _refresh_tokens()

    @contextmanager
    def override(self, name: str, value: Any) -> Iterator[None]:
        """Set an option for this thread inside of a ``with`` block."""
        option = option_of(name)
        parsed = option.parse(name, value)
        overrides = vars(self)
        before = dict(overrides)
        with _lock:
            overrides[option.attribute] = parsed
            if option.attribute == "transfer_guard":
                overrides.update(dict.fromkeys(_GUARDS, parsed))
            _active_overrides.append(overrides)
            _refresh_tokens()
        try:
            yield
        finally:
            with _lock:
                _deactivate(overrides)
                # A mesh that was set inside of the block stays set.
                mesh = {k: v for k, v in overrides.items() if k == "mesh_context"}
                before.pop("mesh_context", None)
                overrides.clear()
                overrides.update({**before, **mesh})
                _drop_derived(overrides)
                _refresh_tokens()


_GUARDS = tuple(name for name in OPTIONS if name.startswith("transfer_guard"))
_lock = threading.Lock()
_active_overrides: list[dict[str, Any]] = []


def _deactivate(overrides: dict[str, Any]) -> None:
    """Remove one entry with the overrides of a thread from the list."""
    # Compare by identity, since the overrides of two threads may be equal.
    position = max(i for i, o in enumerate(_active_overrides) if o is overrides)
    del _active_overrides[position]


def _drop_derived(overrides: dict[str, Any]) -> None:
    """Drop the derived attributes of a thread whose overrides have ended."""
    if not any(o is overrides for o in _active_overrides):
        overrides.clear()


def _refresh_tokens() -> None:
    """Recompute the token of the process and of each thread that overrides an option."""
    process = {o.attribute: getattr(Config, o.attribute) for o in OPTIONS.values()}
    for name, value in _derived(process).items():
        setattr(Config, name, value)
    for overrides in _active_overrides:
        overrides.update(_derived({**process, **overrides}))
    platforms.choose(Config.platforms)
    defaults = [Config.default_device, *(o.get("default_device") for o in _active_overrides)]
    if Config.platforms:
        defaults.append(Config.platforms[0])
    Config.placed_somewhere = (
        platforms.host_engine() is not None
        or any(d not in (None, platforms.HOST_PLATFORM) for d in defaults)
        or any("mesh_context" in overrides for overrides in _active_overrides)
    )
    for attribute, somewhere in (
        ("checks_values", "checks_somewhere"),
        ("checks_operands", "operands_somewhere"),
        ("guards_transfers", "guards_somewhere"),
    ):
        anywhere = any(overrides[attribute] for overrides in _active_overrides)
        setattr(Config, somewhere, getattr(Config, attribute) or anywhere)
    same_everywhere = not (_active_overrides or Config.operands_somewhere)
    set_context(Config.token if same_everywhere else None)


def follow_host_engine() -> None:
    """Update the tokens after `platforms.set_host_engine` changed the host's engine."""
    with _lock:
        _refresh_tokens()


def _derived(values: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are derived from the values of the options."""
    checks_values = values["debug_nans"] or values["debug_infs"]
    guards = any(values[name] not in (None, "allow") for name in _GUARDS)
    return {
        "token": (
            *(values[o.attribute] for o in OPTIONS.values() if o.steers),
            *((values["mesh_context"],) if "mesh_context" in values else ()),
        ),
        "checks_values": checks_values,
        "checks_operands": checks_values
        or guards
        or values["no_execution"]
        or values["numpy_rank_promotion"] != "allow",
        "guards_transfers": guards,
        "watches_tracing": any(
            values[name] for name in ("log_compiles", "explain_cache_misses", "no_tracing")
        ),
    }


def _export(option: Option, value: Any) -> None:
    """Set the environment variable that holds the value of an option."""
    if value is None:
        os.environ.pop(option.variable, None)
    else:
        text = str(int(value)) if isinstance(value, bool) else str(value)
        os.environ[option.variable] = str(sys.maxsize) if text == "-1" else text


def _from_environment(name: str, option: Option) -> Any:
    if option.variable and option.variable in os.environ:
        return option.default  # it is read where it is used
    # JAX_PLATFORMS is ignored: it is meant for JAX, which has other platforms.
    for prefix in PREFIXES[:1] if name == "platforms" else PREFIXES:
        variable = f"{prefix}{name}".upper()
        text = os.environ.get(variable)
        if text is not None:
            return option.parse_text(variable, text)
    return option.default


for _name, _entry in OPTIONS.items():
    _value = _from_environment(_name, _entry)
    setattr(Config, _entry.attribute, _value)
    if _entry.variable and _value != _entry.default:
        _export(_entry, _value)

platforms.set_host_device_count(Config.num_cpu_devices)
if Config.logging_level is not None:
    set_logging_level(Config.logging_level)
_refresh_tokens()
config = Config()
