"""Progress of compilations: kernels that are compiled, on a terminal and elsewhere."""

from __future__ import annotations

import re
import sys

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.cache import ExecutableCache
from gnomon.backends.iree.inside.kernels import pack
from gnomon.backends.iree.kernel_cache import Kernels
from gnomon.backends.progress import listening, report
from gnomon.tools.driver.progress import progress


@pytest.fixture
def explained():
    gn.config.update("gnomon_explain_compiles", True)
    yield
    gn.config.update("gnomon_explain_compiles", False)


def test_kernels_are_counted(tmp_path) -> None:
    """Kernels in the cache count as compiled from the start."""
    texts = [b"one", b"two", b"three"]
    found = []

    def ask(header, payload):
        del payload
        return {"ok": True}, str(header["batch"]).encode()

    store = ExecutableCache(tmp_path)
    for given in texts[:1], texts:
        kernels = Kernels(store, [], [], ["key"], 1.0)
        with listening(lambda done, total: found.append((done, total))):
            kernels.provide(pack(given), ask)
    assert (found[0], found[1]) == ((0, 1), (1, 1))
    assert found[2] == (1, 3)
    assert found[-1] == (3, 3)


def test_listeners_are_forgotten() -> None:
    found = []
    with listening(lambda *counts: found.append(counts)):
        report(1, 2)
    report(2, 2)
    assert found == [(1, 2)]


def test_jit_reports_progress(explained, capsys) -> None:
    gn.jit(lambda x: gnp.sin(x) * 0.123)(gnp.ones(3))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling <lambda>"
    assert re.fullmatch(r"compiled <lambda> after \d+\.\d s", lines[-1])
    gn.config.update("gnomon_explain_compiles", False)
    gn.jit(lambda x: gnp.sin(x) * 0.124)(gnp.ones(3))
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_one_line(explained, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    gn.jit(lambda x: gnp.cos(x) * 0.125)(gnp.ones(3))
    text = capsys.readouterr().err
    assert text.startswith("\r\x1b[Kcompiling <lambda>")
    assert text.count("\n") == 1 and text.endswith(" s\n")


def test_the_driver_shows_kernels_on_a_terminal_only(capsys, monkeypatch) -> None:
    with progress("model: vmfb for cpu"):
        report(2, 5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("model: vmfb for cpu"):
        report(2, 5)
    assert "kernel 2 of 5" in capsys.readouterr().err
