"""The frameworks to compare, as data: how to import each, wait for it and read its results."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import gnomon
import gnomon.numpy as gnp
from gnomon import lax


@dataclass(frozen=True)
class Framework:
    """An installed framework.

    Attributes:
      name: the key of its column.
      title: its name in tables.
      version: the version of the package.
      module: the package.
      np: its array functions with NumPy's names (for PyTorch, the package).
      lax: structured control flow, if the framework has it.
      wait: blocks until every array of a nested result is computed.
      from_numpy: converts a NumPy array to an array of the framework.
      threads: a description of the threads that it uses by default, or of the device.
    """

    name: str
    title: str
    version: str
    module: Any
    np: Any
    lax: Any
    wait: Callable[[Any], object]
    from_numpy: Callable[[np.ndarray], Any]
    threads: str = field(default="")

    def arrays(self, result: Any) -> list[np.ndarray]:
        """The arrays of a nested result as NumPy arrays; dicts are sorted by key."""
        if isinstance(result, dict):
            return [a for key in sorted(result) for a in self.arrays(result[key])]
        if isinstance(result, (list, tuple)):
            return [a for part in result for a in self.arrays(part)]
        if hasattr(result, "detach"):
            return [_from_tensor(result)]
        return [np.asarray(result)]


def use_platform(platform: str) -> None:
    """Let every framework but NumPy use the devices of a platform, such as ``"cuda"``, by default.

    Call it before `load_frameworks`. On an accelerator JAX multiplies f32 in f32, as the others do;
    by default it rounds the factors to TF32 on NVIDIA's GPUs.
    """
    order = platform if platform == "cpu" else f"{platform},cpu"
    os.environ["JAX_PLATFORMS"] = order
    if platform != "cpu":
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the frameworks share the memory
    gnomon.config.update("gnomon_platforms", order)


def _platform() -> str:
    # `gnomon.devices()` would start gnomon in the processes of other frameworks, and in its own
    # before the first call.
    return os.environ.get("JAX_PLATFORMS", "cpu").split(",")[0]


def _threads(on_cpu: str) -> str:
    """What computes: the threads on the CPU, or the platform."""
    return on_cpu if _platform() == "cpu" else f"platform {_platform()}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gnomon() -> Framework:
    version = _version("gnomon") or "source tree"
    iree, numpy = _version("iree-base-compiler"), np.__version__
    return Framework(
        "gnomon",
        "gnomon",
        f"{version} (IREE {iree}, NumPy {numpy})",
        gnomon,
        gnp,
        lax,
        gnomon.block_until_ready,
        gnp.asarray,
        _threads(
            f"small programs in the calling thread, large ones on IREE's pool ({_cores()} cores); "
            "eager operations are NumPy's"
        ),
    )


def _jax() -> Framework:
    # Compare on the CPU by default, even if JAX has a plugin for another device.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = importlib.import_module("jax")
    return Framework(
        "jax",
        "JAX",
        jax.__version__,
        jax,
        importlib.import_module("jax.numpy"),
        jax.lax,
        jax.block_until_ready,
        importlib.import_module("jax.numpy").asarray,
        _threads(f"XLA's pool ({_cores()} cores)"),
    )


def _numpy() -> Framework:
    return Framework(
        "numpy",
        "NumPy",
        np.__version__,
        np,
        np,
        None,
        lambda result: result,
        np.array,
        "matrix products on the threads of its BLAS, everything else on one",
    )


def _torch() -> Framework:
    torch = importlib.import_module("torch")
    device = _platform()
    # There is no `torch.set_default_device`, which doubles the time of each small operation (0.8 to
    # 1.75 µs): `from_numpy` makes tensors on the device.
    if device != "cpu":
        # By default convolutions round f32 to TF32, and parts of sums are added in bf16.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cudnn.benchmark = True  # tries kernels in first calls, as XLA does

    def wait(result: Any) -> Any:
        if device != "cpu":
            torch.accelerator.synchronize()
        return result

    return Framework(
        "torch",
        "PyTorch",
        f"{torch.__version__} (eager)",
        torch,
        torch,
        None,
        wait,
        lambda value: _to_tensor(torch, value).to(device),
        _threads(f"{torch.get_num_threads()} threads"),
    )


def _to_tensor(torch: Any, value: np.ndarray) -> Any:
    """A copy of an array as a tensor; PyTorch does not know the bfloat16 of `ml_dtypes`."""
    value = np.array(value)
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def _from_tensor(tensor: Any) -> np.ndarray:
    """The inverse of `_to_tensor`."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        return np.asarray(tensor.float()).astype(ml_dtypes.bfloat16)
    return np.asarray(tensor)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


_LOADERS: dict[str, Callable[[], Framework]] = {
    "gnomon": _gnomon,
    "jax": _jax,
    "numpy": _numpy,
    "torch": _torch,
}
TITLES = {"gnomon": "gnomon", "jax": "JAX", "numpy": "NumPy", "torch": "PyTorch"}


def load_frameworks(names: list[str] | None = None) -> tuple[list[Framework], dict[str, str]]:
    """The frameworks that can be imported, and the reasons why the others cannot.

    Args:
      names: the frameworks to look for; all by default.
    """
    found, missing = [], {}
    for name in names or list(_LOADERS):
        try:
            found.append(_LOADERS[name]())
        except ImportError as error:
            missing[name] = f"{TITLES[name]} is not installed ({error})"
    return found, missing


__all__ = ["TITLES", "Framework", "load_frameworks", "use_platform"]
