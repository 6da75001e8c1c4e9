"""The context managers of the options: ``with gnomon.enable_x64():`` and the others."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any

from gnomon._config.current import config
from gnomon.backends.interface import Device

__all__ = [
    "allow_f16_reductions",
    "check_tracer_leaks",
    "checking_leaks",
    "debug_infs",
    "debug_nans",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "legacy_prng_key",
    "log_compiles",
    "no_collectives",
    "no_execution",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "threefry_partitionable",
    "tiered",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
]


def enable_x64(new_val: bool = True) -> Any:
    """A context manager that turns 64-bit types on (or off) for this thread.

    Args:
      new_val: whether 64-bit types are kept; otherwise they become 32-bit types.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> with gn.enable_x64():
      ...     print(gnp.arange(3).dtype)
      int64
    """
    return config.override("gnomon_enable_x64", new_val)


def numpy_dtype_promotion(new_val: str) -> Any:
    """A context manager that sets the rules of dtype promotion.

    Args:
      new_val: "standard"; or "strict", which refuses operands of different dtypes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> with gn.numpy_dtype_promotion("strict"):
      ...     gnp.array([1]) + gnp.array([1.0])
      Traceback (most recent call last):
          ...
      gnomon...TypePromotionError: dtypes float32, int32 have no implicit promotion ...
    """
    return config.override("gnomon_numpy_dtype_promotion", new_val)


def numpy_rank_promotion(new_val: str) -> Any:
    """A context manager that sets how numpy functions treat operands of different ranks.

    Scalars, which have rank 0, may be combined with any array.

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
    """A context manager that sets the default precision of products; see `lax.Precision`.

    Args:
      new_val: ``"default"``, ``"high"``, ``"highest"``, ``"bfloat16"``, ``"bfloat16_3x"``,
        ``"tensorfloat32"``, ``"float32"``, ``"fastest"``, the name of a `lax.DotAlgorithmPreset`,
        or None.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> with gn.default_matmul_precision("highest"):
      ...     print(gnp.ones((1, 3)) @ gnp.ones((3, 1)))
      [[3.]]
    """
    return config.override("gnomon_default_matmul_precision", new_val)


def default_prng_impl(new_val: str) -> Any:
    """A context manager that sets the generator of new random keys.

    Args:
      new_val: the generator: "threefry2x32" (the default), "rbg" or "unsafe_rbg".

    Example:
      >>> import gnomon as gn
      >>> with gn.default_prng_impl("rbg"):
      ...     print(gn.random.key_impl(gn.random.key(0)))
      rbg
    """
    return config.override("gnomon_default_prng_impl", new_val)


def threefry_partitionable(new_val: bool) -> Any:
    """A context manager that sets whether each random bit depends only on its position.

    Otherwise it also depends on the size of its array, as in older versions of JAX.

    Args:
      new_val: True is the default. With False, a bit also depends on the size of its array, as in
        older versions of JAX.

    Example:
      >>> import gnomon as gn
      >>> with gn.threefry_partitionable(False):
      ...     old = gn.random.bits(gn.random.key(0), (3,))
      >>> bool((old == gn.random.bits(gn.random.key(0), (3,))).all())
      False
    """
    return config.override("gnomon_threefry_partitionable", new_val)


def enable_custom_prng(new_val: bool = True) -> Any:
    """A context manager in which `random.PRNGKey` makes typed keys, as `random.key` does.

    Args:
      new_val: whether to make typed keys.

    Example:
      >>> import gnomon as gn
      >>> with gn.enable_custom_prng():
      ...     print(gn.random.PRNGKey(0).dtype)
      key<fry>
    """
    return config.override("gnomon_enable_custom_prng", new_val)


def legacy_prng_key(new_val: str) -> Any:
    """A context manager that sets how random functions treat raw keys (arrays of uint32).

    Args:
      new_val: ``"allow"``, ``"warn"`` or ``"error"``.

    Example:
      >>> import gnomon as gn
      >>> with gn.legacy_prng_key("allow"):
      ...     print(gn.random.uniform(gn.random.PRNGKey(0)).shape)
      ()
    """
    return config.override("gnomon_legacy_prng_key", new_val)


def log_compiles(new_val: bool = True) -> Any:
    """A context manager in which `jit` logs each tracing and compilation with its duration.

    The messages are warnings of the logger ``gnomon.jit``.

    Args:
      new_val: whether to log.

    Example:
      >>> import gnomon as gn
      >>> import logging
      >>> messages = []
      >>> handler = logging.Handler()
      >>> handler.emit = lambda record: messages.append(record.getMessage())
      >>> logging.getLogger("gnomon.jit").addHandler(handler)
      >>> with gn.log_compiles():
      ...     _ = gn.jit(lambda x: x + 1)(1)
      >>> logging.getLogger("gnomon.jit").removeHandler(handler)
      >>> len(messages) > 0
      True
    """
    return config.override("gnomon_log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> Any:
    """A context manager in which `jit` logs why a function is traced again.

    The messages are warnings of the logger ``gnomon.jit``.

    Args:
      new_val: whether to log.

    Example:
      >>> import gnomon as gn
      >>> import logging
      >>> messages = []
      >>> handler = logging.Handler()
      >>> handler.emit = lambda record: messages.append(record.getMessage())
      >>> f = gn.jit(lambda x: x + 1)
      >>> logging.getLogger("gnomon.jit").addHandler(handler)
      >>> with gn.explain_cache_misses():
      ...     _ = f(1), f(1.0)
      >>> logging.getLogger("gnomon.jit").removeHandler(handler)
      >>> len(messages) > 0
      True
    """
    return config.override("gnomon_explain_cache_misses", new_val)


def no_tracing(new_val: bool = True) -> Any:
    """A context manager in which a jitted function that would be traced raises ``RuntimeError``.

    Args:
      new_val: whether to refuse.

    Example:
      >>> import gnomon as gn
      >>> f = gn.jit(lambda x: x + 1)
      >>> with gn.no_tracing():
      ...     f(1)
      Traceback (most recent call last):
          ...
      RuntimeError: re-tracing function <lambda> for `jit`, but 'no_tracing' is set: ...
    """
    return config.override("gnomon_no_tracing", new_val)


def disable_jit(disable: bool = True) -> Any:
    """A context manager in which jitted functions run as plain Python, op by op.

    The bodies of ``lax.scan``, ``while_loop``, ``fori_loop``, ``cond`` and ``switch`` run in the
    same way, unless a condition, index or bound is traced. Python's ``print`` and debugger see the
    values.

    Args:
      disable: whether jitted functions run as plain Python.

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


def tiered(new_val: bool = True) -> Any:
    """A context manager in which first calls of jitted functions do not wait for the compiler.

    A call with new types is evaluated by NumPy while the program is compiled in the background; the
    compiled program takes over when it is ready. See ``tiered`` of `jit`.

    Args:
      new_val: whether first calls return before the program is compiled.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> f = gn.jit(lambda x: gnp.sum(x * x))
      >>> with gn.tiered():
      ...     print(f(gnp.arange(3.0)))
      5.0
    """
    return config.override("gnomon_tiered", new_val)


def debug_nans(new_val: bool = True) -> Any:
    """A context manager in which an op that returns a nan raises `FloatingPointError`.

    The error names the op and the user's line. A jitted function that returns a nan is run again,
    op by op, to find the op that made it.

    Args:
      new_val: whether to check.

    Example:
      >>> import gnomon as gn
      >>> with gn.debug_nans(True):
      ...     gn.numpy.log(gn.numpy.float32(-1))
      Traceback (most recent call last):
          ...
      FloatingPointError: invalid value (nan) encountered in log...
    """
    return config.override("gnomon_debug_nans", new_val)


def debug_infs(new_val: bool = True) -> Any:
    """A context manager in which an operation that returns infinity raises `FloatingPointError`.

    Args:
      new_val: whether to check.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> with gn.debug_infs():
      ...     gnp.exp(1000.0)
      Traceback (most recent call last):
          ...
      FloatingPointError: invalid value (inf) encountered in exp...

    See also:
      `debug_nans`
    """
    return config.override("gnomon_debug_infs", new_val)


def default_device(new_val: Device | str | None) -> Any:
    """A context manager that sets the default device of this thread.

    New arrays are put there, and programs run there if no argument is committed to a device.

    Args:
      new_val: a device, the name of a platform, or None for the default of the process.

    Example:
      >>> import gnomon as gn
      >>> with gn.default_device(gn.devices("cpu")[0]):
      ...     print(gn.numpy.zeros(3).devices())
      {CpuDevice(id=0)}
    """
    return config.override("gnomon_default_device", new_val)


def check_tracer_leaks(new_val: bool = True) -> Any:
    """A context manager in which a traced value that outlives its function raises at once.

    Without it, the error is raised when the value is used. The check costs a garbage collection for
    each function that is traced.

    Args:
      new_val: whether to check.

    Example:
      >>> import gnomon as gn
      >>> kept = []
      >>> with gn.check_tracer_leaks():
      ...     gn.jit(lambda x: kept.append(2 * x))(1.0)
      Traceback (most recent call last):
          ...
      gnomon.errors.UnexpectedTracerError: Leaked trace: jit of <lambda>...
    """
    return config.override("gnomon_check_tracer_leaks", new_val)


def checking_leaks() -> Any:
    """A context manager that turns `check_tracer_leaks` on.

    Example:
      >>> import gnomon as gn
      >>> kept = []
      >>> with gn.checking_leaks():
      ...     gn.jit(lambda x: kept.append(2 * x))(1.0)
      Traceback (most recent call last):
          ...
      gnomon.errors.UnexpectedTracerError: Leaked trace: jit of <lambda> has been ...
    """
    return check_tracer_leaks(True)


def enable_checks(new_val: bool = True) -> Any:
    """A context manager in which programs are verified after each pass, which takes time.

    Args:
      new_val: whether to verify.

    Example:
      >>> import gnomon as gn
      >>> with gn.enable_checks():
      ...     print(gn.jit(lambda x: x + 1)(1))
      2
    """
    return config.override("gnomon_enable_checks", new_val)


def no_execution(new_val: bool = True) -> Any:
    """A context manager in which computing anything raises ``RuntimeError``.

    Functions can still be traced, lowered and compiled, and values can be read.

    Args:
      new_val: whether to refuse.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> x = gnp.arange(3)
      >>> with gn.no_execution():
      ...     print(gn.eval_shape(lambda x: x + 1, x).shape)
      (3,)
    """
    return config.override("gnomon_no_execution", new_val)


def allow_f16_reductions(new_val: bool = True) -> Any:
    """A context manager that sets whether `lax.reduce_sum` accepts float16 and bfloat16.

    The functions of `gnomon.numpy` sum these in float32, whatever the option says.

    Args:
      new_val: False makes such sums raise ``ValueError``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> with gn.allow_f16_reductions(False):
      ...     lax.reduce_sum(gnp.ones(3, gnp.float16), (0,))
      Traceback (most recent call last):
          ...
      ValueError: lax.reduce_sum of float16[3] is not allowed when ...
    """
    return config.override("gnomon_allow_f16_reductions", new_val)


def no_collectives(new_val: AbstractSet[Any]) -> Any:
    """A context manager in which communication over axes of a mesh is an error.

    It concerns what is traced in the block: collectives over the axes, and operations on explicit
    axes whose result loses an axis, such as a sum over a split dimension, unless it is unreduced
    over the axis. Derivatives are not checked, and neither are functions with ``out_sharding``
    whose result is split over the axis.

    Args:
      new_val: a set of names of axes.
    Raises:
      TypeError: the argument is not a set.
      gnomon.errors.ForbiddenCollectiveError: in the block, an operation communicates.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> with gn.set_mesh(gn.make_mesh((1,), ("data",))), gn.sharding.no_collectives({"data"}):
      ...     gnp.sum(gn.sharding.reshard(gnp.ones(4), gn.P("data")))
      Traceback (most recent call last):
      ...
      gnomon.errors.ForbiddenCollectiveError: reduce_sum loses the axis 'data'...
    """
    return config.override("gnomon_no_collectives", new_val)


def transfer_guard(new_val: str) -> AbstractContextManager[None]:
    """A context manager that allows, logs or forbids transfers between host and devices.

    Implicit transfers are those of a NumPy array or a Python number that is combined with an array
    or passed to a jitted function, of an array on the host that is combined with one on a device,
    and of an array on a device that is read by ``float(x)``, ``print(x)`` or ``numpy.asarray(x)``.
    The transfers of `device_put` and `device_get` are explicit. Reading an array on the host is not
    a transfer, and neither are the constants of a program.

    Args:
      new_val: ``"allow"`` allows all transfers. ``"log"`` logs implicit transfers as warnings of
        the logger ``gnomon.transfer_guard``, and ``"disallow"`` raises ``RuntimeError`` for them.
        ``"log_explicit"`` and ``"disallow_explicit"`` do so for explicit transfers, too.

    Example:
      >>> import gnomon as gn, numpy as np
      >>> f = gn.jit(lambda x: x + 1)
      >>> with gn.transfer_guard("disallow"):
      ...     y = f(gn.device_put(np.zeros(3)))
      ...     f(np.zeros(3))
      Traceback (most recent call last):
          ...
      gnomon.errors.GnomonRuntimeError: Disallowed host-to-device transfer: a NumPy...
    """
    return config.override("gnomon_transfer_guard", new_val)


def transfer_guard_host_to_device(new_val: str | None) -> Any:
    """`transfer_guard` for transfers from the host, including those of NumPy arrays to the CPU.

    Args:
      new_val: "allow", "log", "disallow", "log_explicit" or "disallow_explicit"; None means the
        option's value.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> import numpy as np
      >>> with gn.transfer_guard_host_to_device("disallow"):
      ...     gnp.sin(np.ones(3, np.float32))
      Traceback (most recent call last):
          ...
      gnomon.errors.GnomonRuntimeError: Disallowed host-to-device transfer: a NumPy ...
    """
    return config.override("gnomon_transfer_guard_host_to_device", new_val)


def transfer_guard_device_to_device(new_val: str | None) -> Any:
    """`transfer_guard` for transfers from one device to another, including the CPU.

    Args:
      new_val: "allow", "log", "disallow", "log_explicit" or "disallow_explicit"; None means the
        option's value.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> with gn.transfer_guard_device_to_device("disallow"):
      ...     print(gnp.arange(3))
      [0 1 2]
    """
    return config.override("gnomon_transfer_guard_device_to_device", new_val)


def transfer_guard_device_to_host(new_val: str | None) -> Any:
    """`transfer_guard` for arrays that are read from devices other than the CPU.

    Args:
      new_val: "allow", "log", "disallow", "log_explicit" or "disallow_explicit"; None means the
        option's value.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> x = gnp.arange(3)
      >>> with gn.transfer_guard_device_to_host("disallow"):
      ...     print(x)
      [0 1 2]
    """
    return config.override("gnomon_transfer_guard_device_to_host", new_val)
