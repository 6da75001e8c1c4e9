"""Shared test setup: a private compile cache, hypothesis profiles, skips for absent devices."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import minutes, sample, xla

# A fresh cache, so that no test passes because of an older compiler's output on disk. The variable
# is set before gnomon is imported, and inherited by pytest-xdist workers and subprocesses.
_OWN_CACHE = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    _OWN_CACHE = tempfile.mkdtemp(prefix="gnomon-test-cache-")
    os.environ["GNOMON_CACHE_DIR"] = _OWN_CACHE

# Whoever reads a failure here works on gnomon, so its frames are shown.
os.environ.setdefault("GNOMON_TRACEBACK_FILTERING", "off")

# The oracle runs on the CPU even if the machine has other devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

xla.configure()

# Examples that compile vary in duration, so there is no deadline. CI always runs the same examples.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if "CI" in os.environ else "default")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collects only the files with smoke tests for these: all files take as long as the tests."""
    if config.option.markexpr != "smoke" or collection_path.suffix != ".py":
        return None
    return "mark.smoke" not in collection_path.read_text(encoding="utf-8") or None


def pytest_configure(config: pytest.Config) -> None:
    """Counts the minutes of each folder if the environment asks for it."""
    minutes.register(config)


def pytest_report_header() -> str:
    """Names the seed of samples, by which a run can be repeated."""
    return f"GNOMON_SAMPLE={sample.seed()}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what a sample does not contain, before the marks are looked at."""
    sample.leave_out(config, items)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the compile cache."""
    # Frozen objects are not collected at exit, and nanobind would report IREE's functions as leaks.
    gc.unfreeze()
    if _OWN_CACHE is not None:
        shutil.rmtree(_OWN_CACHE, ignore_errors=True)


# JAX keeps all compiled programs, and a CI process would grow to several gigabytes.
_GROWTH_BYTES = 1 << 29
_STATM = Path("/proc/self/statm")
_resident_after_clearing: list[int] = []


def _resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Puts off garbage collection, which would walk all that is collected again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Excludes the collected tests from garbage collection, which would walk them every time."""
    gc.collect()
    gc.freeze()
    if session.items and not session.config.option.collectonly:
        xla.start()


@pytest.fixture
def _no_garbage_collection() -> Iterator[None]:
    """For tests that read the whole source: their syntax trees are many objects without cycles."""
    gc.disable()
    yield
    gc.enable()


def pytest_runtest_logfinish() -> None:
    """Drops the oracle's programs when they take too much memory."""
    if "jax" not in sys.modules or not _STATM.exists():
        return
    resident = _resident_bytes()
    if not _resident_after_clearing:
        _resident_after_clearing.append(resident)
    elif resident > _resident_after_clearing[-1] + _GROWTH_BYTES:
        sys.modules["jax"].clear_caches()
        gc.collect()
        _resident_after_clearing.append(_resident_bytes())


# The choices of the CPU's compiler in the tests of the frontend.
_CHOICES = ("auto", "llvm", "auto", "iree")


def _compiler_of_module(module: str) -> str:
    """The choice of the CPU's compiler in the tests of a module.

    What a program computes must not depend on its compiler, and LLVM in this process takes less
    time. So the commit draws a choice for each module of the frontend's tests.
    """
    if module.startswith("tests/backends/iree/"):
        return "iree"
    if not module.startswith("tests/frontend/"):
        return "auto"
    return _CHOICES[sample.order(f"compiler of {module}")[0] % len(_CHOICES)]


@contextlib.contextmanager
def _compiled_by(chosen: str) -> Iterator[None]:
    """Choose the compiler of the CPU's programs, in child processes, too."""
    from gnomon import config

    before = config.gnomon_cpu_compiler
    with pytest.MonkeyPatch.context() as patch:
        if chosen != "auto":
            patch.setenv("GNOMON_CPU_COMPILER", chosen)
        config.update("gnomon_cpu_compiler", chosen)
        try:
            yield
        finally:
            config.update("gnomon_cpu_compiler", before)


@pytest.fixture(autouse=True, scope="module")
def _compiler(request: pytest.FixtureRequest) -> Iterator[None]:
    with _compiled_by(_compiler_of_module(request.node.nodeid)):
        yield


@pytest.fixture(autouse=True)
def _compiler_of_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """IREE for tests that look at what it does, and for the frontend's slow tests.

    A test may choose another compiler; the next one has that of its module again.
    """
    from gnomon import config

    item = request.node
    is_slow = item.get_closest_marker("slow") and item.nodeid.startswith("tests/frontend/")
    uses_iree = item.get_closest_marker("iree") or is_slow
    with _compiled_by("iree" if uses_iree else config.gnomon_cpu_compiler):
        yield


@pytest.fixture(autouse=True, scope="module")
def _options_are_restored() -> Iterator[None]:
    """Fails if the tests of a module leave an option of the process changed for other modules."""
    from gnomon._config.current import Config
    from gnomon._config.options import OPTIONS

    def values() -> dict[str, object]:
        return {name: getattr(Config, option.attribute) for name, option in OPTIONS.items()}

    before = values()
    yield
    changed = {name: value for name, value in values().items() if value != before[name]}
    assert changed == {}


@functools.cache
def has_device(driver: str) -> bool:
    """Whether one of IREE's drivers finds a device on this machine."""
    from gnomon.backends.errors import BackendUnavailable
    from gnomon.backends.iree.driver import available_devices

    try:
        return bool(available_devices(driver))
    except BackendUnavailable:
        return False


@functools.cache
def cpu_plugin() -> str | None:
    """The path of a PJRT plugin for the CPU, or None if the package is not installed."""
    try:
        found = importlib.util.find_spec("xla_plugins.xla_cpu_pjrt")
    except ModuleNotFoundError:
        return None
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder) / "xla_cpu_pjrt.so"
        if path.exists():
            return str(path)
    return None


def _leave_out(what: str, reason: str) -> None:
    """Skips a test, unless GNOMON_REQUIRE lists the device that it needs (separated by commas)."""
    if what in os.environ.get("GNOMON_REQUIRE", "").split(","):
        pytest.fail(f"{reason}, and GNOMON_REQUIRE asks for it")
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests of devices that this machine does not have."""
    for driver in ("cuda", "vulkan"):
        if item.get_closest_marker(driver) and not has_device(driver):
            _leave_out(driver, f"this machine has no {driver} device")
    if item.get_closest_marker("tpu_compile") and importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed: pip install 'gnomon[tpu]' (Linux on x86-64)")
    if item.get_closest_marker("pjrt") and cpu_plugin() is None:
        pytest.skip("no PJRT plugin for the CPU: pip install xla-cpu-pjrt (Linux on x86-64)")
