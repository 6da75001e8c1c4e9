"""Plugins: finding and loading the shared libraries that implement PJRT."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gnomon.backends.errors import BackendUnavailable
from gnomon.backends.pjrt.c_api import Api, ApiVersionError, PjrtError
from gnomon.dialects.mlir import stablehlo

__all__ = ["Plugin", "PluginSpec", "find_libtpu", "has_tpu", "load_plugin", "parse_plugins"]

Version = tuple[int, int, int]


# --------------------------------------------------------------------------------- specifications


@dataclass(frozen=True)
class PluginSpec:
    """The name, path and options of a plugin, which may not be loaded yet.

    Attributes:
      name: the platform's name.
      path: the path of the shared library.
      options: options of the client.
      flags: options of the compiler by name, ``xla_...``.
    """

    name: str
    path: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    flags: dict[str, Any] = field(default_factory=dict, hash=False)


def parse_plugins(text: str) -> tuple[PluginSpec, ...]:
    """Reads ``GNOMON_PJRT_PLUGIN``: ``name:path?option=value&option=value,name:path``.

    Values that look like integers or like ``true`` and ``false`` are converted. Options whose names
    begin with ``xla_`` are the compiler's, the others the client's.

    Raises:
      ValueError: an entry lacks a path, or a name that is an identifier.

    Example:
      >>> parse_plugins("xla_cpu:/lib/cpu.so?cpu_device_count=2")
      (PluginSpec(name='xla_cpu', path='/lib/cpu.so', options={'cpu_device_count': 2}, flags={}),)
    """
    specs = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, rest = entry.partition(":")
        path, _, options = rest.partition("?")
        if not (separator and name.isidentifier() and path):
            raise ValueError(
                f"GNOMON_PJRT_PLUGIN has the entry {entry!r}; write name:path, such as "
                "my_device:/opt/lib/plugin.so; separate several entries by commas, and append "
                "options of the client to the path (?option=value&option=value)"
            )
        pairs = [pair.partition("=") for pair in options.split("&") if pair]
        given = {key: _option(value) for key, _, value in pairs}
        flags = {key: value for key, value in given.items() if key.startswith("xla_")}
        others = {key: value for key, value in given.items() if key not in flags}
        specs.append(PluginSpec(name, path, others, flags))
    return tuple(specs)


def _option(text: str) -> bool | int | str:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


# -------------------------------------------------------------------------------------------- TPU

_GOOGLE = "0x1ae0"
# The description of the host for libtpu. Without it, on a machine without a TPU, libtpu would query
# a metadata server that does not exist, for minutes.
_WITHOUT_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    # libtpu's lock is for processes that use a TPU, not for those that only compile.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def has_tpu() -> bool:
    """Whether this machine seems to have a TPU, judging by PCI vendors and device files."""
    if any(Path("/dev").glob("accel[0-9]*")):
        return True
    for vendor in Path("/sys/bus/pci/devices").glob("*/vendor"):
        try:
            if vendor.read_text().strip() == _GOOGLE and _is_accelerator(vendor.parent):
                return True
        except OSError:
            continue
    return False


def _is_accelerator(device: Path) -> bool:
    # The vendor's network and storage devices are classes 0x02 and 0x01.
    return (device / "class").read_text().strip()[:4] not in ("0x01", "0x02")


def find_libtpu() -> PluginSpec:
    """The TPU's plugin, from ``TPU_LIBRARY_PATH`` or the package ``libtpu``.

    Raises:
      BackendUnavailable: neither exists.
    """
    given = os.environ.get("TPU_LIBRARY_PATH")
    if given:
        return PluginSpec("tpu", given)
    found = importlib.util.find_spec("libtpu")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder) / "libtpu.so"
        if path.exists():
            return PluginSpec("tpu", str(path))
    raise BackendUnavailable(
        "the platform 'tpu' needs libtpu, the TPU's compiler and driver: neither the package "
        "libtpu nor a library named by TPU_LIBRARY_PATH was found; install it by "
        "pip install 'gnomon[tpu]' (Linux on x86-64)"
    )


# ---------------------------------------------------------------------------------------- loading


class Plugin:
    """A loaded plugin.

    Attributes:
      name: the platform's name.
      path: the path of the library.
      api: its functions.
      attributes: its self-description.
    """

    def __init__(self, spec: PluginSpec) -> None:
        self.name = spec.name
        self.path = spec.path
        # Without this, the library logs its start to stderr.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        if spec.name == "tpu" and not has_tpu():
            for variable, value in _WITHOUT_TPU.items():
                os.environ.setdefault(variable, value)
        self.api = _api_of(spec)
        try:
            self.api.call("Plugin_Initialize")
            described = self.api.call("Plugin_Attributes")
        except PjrtError as error:
            raise BackendUnavailable(
                f"the PJRT plugin {spec.path} of the platform {spec.name!r} cannot be "
                f"initialized: {error}"
            ) from error
        self.attributes = self.api.named_values(described.attributes, described.num_attributes)

    def __repr__(self) -> str:
        return f"Plugin({self.name!r}, {self.path!r}, PJRT {'.'.join(map(str, self.api.version))})"

    @cached_property
    def stablehlo_version(self) -> str:
        """The newest version of the portable artifact that both sides support.

        Raises:
          BackendUnavailable: there is no common version.
        """
        theirs = self.attributes.get("stablehlo_current_version")
        ours = _version(stablehlo.get_current_version())
        # A plugin that reports no version reads the oldest one within the compatibility guarantee.
        oldest = _version(stablehlo.get_minimum_version())
        wanted = min(ours, theirs or oldest)
        if wanted < oldest:
            raise BackendUnavailable(
                f"the PJRT plugin {self.path} reads StableHLO up to {_dotted(wanted)}; this "
                f"version of gnomon writes {_dotted(oldest)} to {_dotted(ours)}: install a newer "
                "plugin"
            )
        minimum = self.attributes.get("stablehlo_minimum_version")
        if minimum is not None and wanted < minimum:
            raise BackendUnavailable(
                f"the PJRT plugin {self.path} reads StableHLO from {_dotted(minimum)} on; this "
                f"version of gnomon writes up to {_dotted(wanted)}: install a newer gnomon"
            )
        return _dotted(wanted)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _is_cut_off(path: Path) -> bool:
    """Whether an ELF file is truncated, for example by an incomplete download.

    Loading such a file would kill the process.
    """
    with path.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":  # 64-bit, little-endian
            return False
        (start,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(start)
        table = file.read(size * count)
    if len(table) < size * count:
        return True
    segments = (struct.unpack_from("<8xQ16xQ", table, i * size) for i in range(count))
    return any(offset + length > path.stat().st_size for offset, length in segments)


def _api_of(spec: PluginSpec) -> Api:
    what = f"the PJRT plugin of the platform {spec.name!r}"
    if not Path(spec.path).is_file():
        raise BackendUnavailable(f"{what} does not exist: no file {spec.path}")
    if _is_cut_off(Path(spec.path)):
        raise BackendUnavailable(f"{what} cannot be loaded: the file {spec.path} is truncated")
    try:
        library = ctypes.CDLL(spec.path)
    except OSError as error:
        raise BackendUnavailable(f"{what} cannot be loaded: {error}") from error
    try:
        get_api = library.GetPjrtApi
    except AttributeError:
        raise BackendUnavailable(
            f"{what}, {spec.path}, is not a PJRT plugin: it has no function GetPjrtApi"
        ) from None
    get_api.restype = ctypes.c_void_p
    address = get_api()
    if not address:
        raise BackendUnavailable(f"{what}, {spec.path}, is not usable: GetPjrtApi() is null")
    try:
        return Api(address)
    except ApiVersionError as error:
        raise BackendUnavailable(f"{what}, {spec.path}, cannot be used: {error}") from error


_plugins: dict[str, Plugin] = {}
_lock = threading.Lock()


def load_plugin(spec: PluginSpec) -> Plugin:
    """Loads a plugin, once per process.

    Raises:
      BackendUnavailable: it does not exist, is not a plugin, or has an incompatible version.
    """
    with _lock:
        path = os.path.realpath(spec.path)
        if path not in _plugins:
            _plugins[path] = Plugin(spec)
        return _plugins[path]
