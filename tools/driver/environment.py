"""``gnomon devices``, ``targets``, ``version`` and ``doctor``: this machine and others."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import gnomon
import gnomon.numpy as gnp
from gnomon.backends import platforms
from gnomon.backends.cache import cache_directory, default_cache, is_private
from gnomon.backends.errors import BackendUnavailable, CompilerUnavailable, GnomonRuntimeError
from gnomon.backends.iree.targets import CPUS, FAMILIES, find_linker
from gnomon.backends.pjrt.plugin import find_libtpu
from gnomon.backends.standalone_c import find_compiler
from gnomon.tools.driver.errors import DriverError
from gnomon.tools.driver.progress import progress
from gnomon.tools.driver.tables import columns, size

__all__ = ["devices_command", "doctor_command", "targets_command", "version_command"]

PACKAGES = ("gnomon", "iree-base-compiler", "iree-base-runtime", "torch-mlir", "numpy")


def version_command(options: argparse.Namespace) -> None:
    """Run ``gnomon version``."""
    versions = {name: _version(name) for name in PACKAGES}
    if options.json:
        print(json.dumps(versions, indent=2))
        return
    for package, version in versions.items():
        print(f"{package} {version or '(not installed as a package)'}")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def targets_command(options: argparse.Namespace) -> None:
    """Run ``gnomon targets``."""
    rows = [(one.name, one.code, one.meaning) for one in CPUS]
    rows += [
        (f"{family.target.name}:{member.name}", family.target.code, member.meaning)
        for family in FAMILIES
        for member in family.architectures
    ]
    if options.json:
        names = ("target", "code", "meaning")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    rows.append(("tpu:v5e:2x2", "pjrt", "a TPU by generation and topology, with libtpu installed"))
    print(columns(rows))


def devices_command(options: argparse.Namespace) -> None:
    """Run ``gnomon devices``."""
    found: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for name in platforms.known():
        try:
            with progress(f"looking for devices of {name}"):
                devices = gnomon.devices(name)
        except BackendUnavailable as error:
            missing.append({"platform": name, "reason": str(error)})
            continue
        for device in devices:
            memory = (device.memory_stats() or {}).get("bytes_limit")
            found.append(
                {
                    "platform": name,
                    "id": device.id,
                    "kind": device.device_kind,
                    "memory_bytes": memory,
                    "default": device.platform == gnomon.default_backend(),
                }
            )
    if options.json:
        print(json.dumps({"devices": found, "missing": missing}, indent=2))
        return
    rows = [
        (
            f"{one['platform']}:{one['id']}",
            str(one["kind"]),
            size(one["memory_bytes"]) if one["memory_bytes"] else "",
            "(default)" if one["default"] else "",
        )
        for one in found
    ]
    print(columns(rows))
    if missing:
        names = ", ".join(one["platform"] for one in missing)
        print(f"no device of: {names} (`gnomon doctor` says why)")


# ------------------------------------------------------------------------------------------ doctor


@dataclass(frozen=True)
class Finding:
    """One line of the doctor.

    Attributes:
      subject: the thing that was checked.
      state: ``"ok"``, ``"missing"`` (optional, and not installed) or ``"broken"``.
      detail: the result of the check, or what to do.
    """

    subject: str
    state: str
    detail: str


def doctor_command(options: argparse.Namespace) -> None:
    """Run ``gnomon doctor``."""
    findings = []
    for check in _CHECKS:
        with progress(f"checking {check.__name__.strip('_').replace('_', ' ')}"):
            findings += list(check())
    broken = [one for one in findings if one.state == "broken"]
    if options.json:
        print(json.dumps([vars(one) for one in findings], indent=2))
    else:
        marks = {"ok": "ok", "missing": "--", "broken": "!!"}
        for one in findings:
            print(f"{marks[one.state]}  {one.subject}: {' '.join(one.detail.split())}")
    if broken:
        raise DriverError(f"broken: {', '.join(one.subject for one in broken)}")


def _packages() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")
    for name in PACKAGES:
        version = _version(name)
        if version is None:
            yield Finding(name, "broken", f"it is not installed; run `pip install {name}`")
        else:
            yield Finding(name, "ok", version)


def _cache() -> Iterator[Finding]:
    try:
        cache = default_cache()
        if cache is None:
            yield Finding("cache", "ok", "off (GNOMON_CACHE)")
            return
        for folder in (cache.directory.parent, cache.directory):
            if folder.exists() and not is_private(folder):
                message = f"others may write to {folder}; `chmod go-w {folder}`"
                yield Finding("cache", "broken", message)
                return
        parent = next(p for p in (folder, *folder.parents) if p.exists())
        if not os.access(parent, os.W_OK):
            yield Finding("cache", "broken", f"{parent} cannot be written; set GNOMON_CACHE_DIR")
            return
        used = f"{size(cache.size_bytes())} of {size(cache.max_bytes)}"
        yield Finding("cache", "ok", f"{cache_directory()}, {used}")
    except ValueError as error:
        yield Finding("cache", "broken", str(error))


def _linker() -> Iterator[Finding]:
    found = find_linker()
    if found.kind == "none":
        yield Finding(
            "linker", "missing", "none: programs of f64 functions may not link; install `ld`"
        )
    else:
        yield Finding("linker", "ok", f"{found.path} ({found.kind})")


def _c_compiler() -> Iterator[Finding]:
    try:
        found = find_compiler("cpu")
    except CompilerUnavailable:
        message = "none: `--emit static-library` needs one; install gcc, clang or ziglang"
        yield Finding("C compiler", "missing", message)
    else:
        yield Finding("C compiler", "ok", shlex.join(found.command))


def _compiler() -> Iterator[Finding]:
    # The constant is the time, so that no cache holds the program.
    constant = float(time.time_ns() % 1_000_003)
    start = time.perf_counter()
    try:
        value = gnomon.jit(lambda x: gnp.sum(x * 2 + constant))(gnp.ones(3))
    except GnomonRuntimeError as error:
        yield Finding("compiler", "broken", str(error))
        return
    if abs(float(value) - 3 * (2 + constant)) > 1.0:
        yield Finding("compiler", "broken", f"2 + {constant} three times is {value}")
        return
    yield Finding("compiler", "ok", f"compiled and ran a program in {_seconds(start)}")


def _devices() -> Iterator[Finding]:
    for name in platforms.known():
        try:
            devices = gnomon.devices(name)
        except BackendUnavailable as error:
            yield Finding(f"platform {name}", "missing", str(error))
            continue
        for device in devices:
            yield _works(device)


def _works(device: Any) -> Finding:
    subject = f"device {device.platform}:{device.id}"
    try:
        x = gnomon.device_put(gnp.arange(4.0), device)
        value = float(gnomon.jit(lambda v: gnp.sum(v * v))(x))
    except GnomonRuntimeError as error:
        return Finding(subject, "broken", str(error))
    if value != 14.0:
        return Finding(subject, "broken", f"the sum of four squares is {value}, expected 14.0")
    return Finding(subject, "ok", f"{device.device_kind}, runs programs")


def _tpu_compiler() -> Iterator[Finding]:
    try:
        spec = find_libtpu()
    except BackendUnavailable as error:
        yield Finding("compiler for TPUs", "missing", str(error))
    else:
        yield Finding("compiler for TPUs", "ok", spec.path)


def _scratch() -> Iterator[Finding]:
    folder = Path(tempfile.gettempdir())
    status = os.statvfs(folder) if hasattr(os, "statvfs") else None
    free = status.f_bavail * status.f_frsize if status else None
    if free is not None and free < 1 << 28:
        yield Finding("temporary folder", "broken", f"{folder} has {size(free)} left; set TMPDIR")
    else:
        yield Finding("temporary folder", "ok", str(folder))


def _seconds(start: float) -> str:
    return f"{time.perf_counter() - start:.1f} s"


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _packages,
    _cache,
    _scratch,
    _linker,
    _c_compiler,
    _compiler,
    _devices,
    _tpu_compiler,
)
