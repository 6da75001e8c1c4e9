"""Printed errors: without gnomon's frames, and no longer than JAX's."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp

GNOMON = SimpleNamespace(root=gn, lax=gn.lax, numpy=gnp)
JAX = SimpleNamespace(root=jax, lax=jax.lax, numpy=jax.numpy)
HINT = "GNOMON_TRACEBACK_FILTERING=off"


def absolute(ns: Any, x: Any) -> Any:
    if x[0] > 0:
        return x
    return -x


def unequal_structures(ns: Any, x: Any) -> Any:
    start = {"a": x, "b": x}
    return ns.lax.scan(lambda c, _: ({"a": c["a"]}, None), start, None, length=2)[0]["a"]


def unequal_branches(ns: Any, x: Any) -> Any:
    return ns.lax.cond(x[0] > 0, lambda: {"a": x, "b": x}, lambda: {"a": x})["a"]


def shorter_carry(ns: Any, x: Any) -> Any:
    return ns.lax.while_loop(lambda c: c[0][0] < 3, lambda c: (c[0],), (x, x))[0]


def traced_length(ns: Any, x: Any) -> Any:
    return ns.lax.scan(lambda c, _: (c, None), x, None, length=x[0])[0]


# What people do at first, and words of the error.
MISTAKES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "condition": (absolute, "lax.cond"),
    "shapes of a product": (lambda ns, x: ns.numpy.dot(ns.numpy.ones((3, 2)), x), "(3, 2)"),
    "shapes of a sum": (lambda ns, x: x + ns.numpy.ones(4), "(4,)"),
    "function of NumPy": (lambda ns, x: np.sin(x), "gnomon.numpy"),
    "carry of scan": (unequal_structures, "a dict without 'b' in the body's result"),
    "branches of cond": (unequal_branches, "a dict with 'b' in true_fun"),
    "carry of while_loop": (shorter_carry, "a tuple of 2 in the carry"),
    "length of scan": (traced_length, "lax.fori_loop"),
    "string": (lambda ns, x: ns.root.jit(lambda y, mode: y)(x, "up"), "static_argnames"),
    "traced shape": (lambda ns, x: ns.numpy.zeros((x[0], 2)), "in the shape given to zeros"),
    "sizes of vmap": (
        lambda ns, x: ns.root.vmap(lambda a, b: a + b)(x, ns.numpy.ones(5)),
        "the argument b has shape (5,)",
    ),
}


@pytest.fixture(autouse=True)
def filtering() -> Iterator[None]:
    before = gn.config.gnomon_traceback_filtering
    gn.config.update("gnomon_traceback_filtering", "auto")
    yield
    gn.config.update("gnomon_traceback_filtering", before)


def printed(call: Callable[[], Any], hook: Callable[..., Any] | None = None) -> str:
    """What Python prints if nothing catches the error that a call raises."""
    with pytest.raises(BaseException) as raised:
        call()
    error, text = raised.value, io.StringIO()
    with contextlib.redirect_stderr(text):
        (hook or sys.excepthook)(type(error), error, error.__traceback__)
    return text.getvalue()


def in_jit_of_grad(ns: Any, mistake: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    x = ns.numpy.ones(3)
    return lambda: ns.root.jit(ns.root.grad(lambda x: ns.numpy.sum(mistake(ns, x))))(x)


def under_jit(ns: Any, mistake: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    x = ns.numpy.ones(3)
    return lambda: ns.root.jit(lambda x: mistake(ns, x))(x)


def in_eager_code(ns: Any, mistake: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    x = ns.numpy.ones(3)
    return lambda: mistake(ns, x)


@pytest.mark.parametrize("name", MISTAKES)
def test_no_longer_than_those_of_jax(name: str) -> None:
    mistake, words = MISTAKES[name]
    ways = [under_jit, in_jit_of_grad]
    if "traced" not in name and name not in ("condition", "function of NumPy", "length of scan"):
        ways.append(in_eager_code)  # the others are right
    for way in ways:
        ours = printed(way(GNOMON, mistake))
        theirs = printed(way(JAX, mistake), sys.__excepthook__)
        assert ours.count("\n") <= theirs.count("\n"), f"{ours}\n{theirs}"
        assert words in ours
        assert HINT in ours and "/gnomon/" not in ours and "_diagnostics" not in ours
        assert Path(__file__).name in ours


def test_errors_keep_their_frames() -> None:
    """What is printed has left frames out; the error itself has not, nor has the next output."""
    with pytest.raises(TypeError) as raised:
        in_jit_of_grad(GNOMON, absolute)()
    error, before = raised.value, raised.tb
    with contextlib.redirect_stderr(io.StringIO()):
        sys.excepthook(type(error), error, before)
    assert error.__traceback__ is before
    depth = 0
    while before is not None:
        depth, before = depth + 1, before.tb_next
    assert depth > 8


@pytest.mark.parametrize("mode", ["off", "tracebackhide"])
def test_modes_that_print_all_frames(mode: str) -> None:
    gn.config.update("gnomon_traceback_filtering", mode)
    text = printed(under_jit(GNOMON, absolute))
    assert "trace.py" in text and HINT not in text


def test_causes_and_contexts() -> None:
    """The user's errors that led to another one are printed; those inside of gnomon are not."""

    def rescued(x: Any) -> Any:
        try:
            return absolute(None, x)
        except TypeError:
            raise KeyError("mine")  # noqa: B904

    text = printed(lambda: gn.jit(rescued)(gnp.ones(3)))
    assert text.index("TracerBoolConversionError") < text.index("KeyError: 'mine'")
    assert text.count("Traceback (most recent call last)") == 2 and "trace.py" not in text

    def named(x: Any) -> Any:
        try:
            return absolute(None, x)
        except TypeError as error:
            raise ValueError("other") from error

    text = printed(lambda: gn.jit(named)(gnp.ones(3)))
    assert "direct cause" in text and "trace.py" not in text


def test_errors_of_the_user_are_printed_as_they_are() -> None:
    def fails() -> None:
        raise ZeroDivisionError("mine")

    assert printed(fails) == printed(fails, sys.__excepthook__)
    text = printed(lambda: gn.jit(lambda x: x.missing)(1.0))
    assert "x.missing" in text

    def interrupted() -> None:
        raise KeyboardInterrupt

    text = printed(gn.jit(lambda: interrupted()))
    assert "trace_function" in text and HINT not in text


def test_names_are_public() -> None:
    for name in gn.errors.__all__:
        error = getattr(gn.errors, name)
        assert error.__module__ == "gnomon.errors", error
    others = (gn.dtypes.TypePromotionError, gn.experimental.checkify.JaxRuntimeError)
    assert [e.__module__ for e in others] == ["gnomon.dtypes", "gnomon.experimental.checkify"]
    for error in (gn.errors.ShardingTypeError, *others):
        assert pickle.loads(pickle.dumps(error("x"))).args == ("x",)


PROGRAM = """
import gnomon as gn
def f(x):
    if x > 0: return x
def test_f(): gn.jit(f)(1.0)
"""


def test_programs_and_pytest(tmp_path: Path) -> None:
    """The hooks are in place in a new process, and in pytest."""
    (tmp_path / "test_f.py").write_text(PROGRAM)
    threaded = "import threading\nt = threading.Thread(target=test_f)\nt.start()\nt.join()\n"
    (tmp_path / "main.py").write_text(PROGRAM + threaded + "test_f()")

    def output(mode: str, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        environment = {**os.environ, "GNOMON_TRACEBACK_FILTERING": mode}
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 1
        return done.stdout + done.stderr

    of_pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    for arguments, count in (("main.py",), 2), (of_pytest, 1):
        text = output("auto", *arguments)
        assert text.count("TracerBoolConversionError: ") >= count, text
        assert "trace.py" not in text, text
    assert "trace.py" in output("off", *of_pytest)


CELLS = """
import gnomon as gn
f = gn.jit(lambda x: x if x > 0 else -x)
f(1.0)
gn.config.update("gnomon_traceback_filtering", "tracebackhide")
f(1.0)
gn.config.update("gnomon_traceback_filtering", "off")
f(1.0)
"""


def test_ipython(tmp_path: Path) -> None:
    """Cells print errors without gnomon's frames, or with the marks of IPython.

    In a process of its own: a shell of IPython replaces `__main__`, hooks and builtins for good.
    """
    pytest.importorskip("IPython")
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--simple-prompt",
        "--no-banner",
        "--colors=NoColor",
    ]
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path), "GNOMON_TRACEBACK_FILTERING": "auto"}
    done = subprocess.run(
        command, check=True, input=CELLS, env=environment, capture_output=True, text=True
    )
    parts = done.stdout.split("TracerBoolConversionError  ")
    assert len(parts) == 4, done.stdout
    for part, expected in zip(parts[1:], (HINT, "skipping hidden", "jit_function.py"), strict=True):
        assert expected in part, part
        assert ("trace.py" in part) == (expected != HINT)
