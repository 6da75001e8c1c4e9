"""Configuration: names, environment, overrides for one thread, the token of jit's signature."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon._config.contexts import enable_x64, numpy_dtype_promotion
from gnomon._config.current import Config, config
from gnomon._config.flags import options_in

pytestmark = pytest.mark.iree


@pytest.mark.parametrize("name", ["gnomon_enable_x64", "jax_enable_x64"])
def test_update_and_read(name: str) -> None:
    assert config.x64 is False
    try:
        config.update(name, True)
        assert config.x64 is config.x64_enabled is config.read(name) is True
        assert config.jax_enable_x64 is config.gnomon_enable_x64 is True
    finally:
        config.update(name, False)
    assert config.x64 is False


def test_unknown_names_and_values_are_refused() -> None:
    with pytest.raises(AttributeError, match="gnomon_enable_x64"):
        config.update("gnomon_no_such_option", True)
    with pytest.raises(AttributeError, match="no_such_attribute"):
        config.no_such_attribute
    with pytest.raises(ValueError, match="takes True or False, got 'yes'"):
        config.update("gnomon_enable_x64", "yes")
    with pytest.raises(ValueError, match="'standard', 'strict'"):
        numpy_dtype_promotion("loose").__enter__()
    assert config.x64 is False


def test_misspelt_names_are_answered_by_the_right_one() -> None:
    for name in ("gnomon_enable_x46", "jax_enable_x46"):
        with pytest.raises(AttributeError, match="did you mean gnomon_enable_x64"):
            config.update(name, True)


def test_options_of_jax_without_effect_take_any_value() -> None:
    config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    assert config.jax_persistent_cache_min_compile_time_secs == 0.5
    assert config.jax_softmax_custom_jvp is None
    config.update("jax_platform_name", "cpu")
    assert config.platforms == ("cpu",)
    config.update("jax_platform_name", None)


CACHED = """
import os, sys
from pathlib import Path
import gnomon as gn
def files(): return sum(1 for p in Path(sys.argv[1]).rglob("*") if p.is_file())
gn.jit(lambda x: x * 3 + 1)(2.0)
assert files(), "JAX_COMPILATION_CACHE_DIR"
gn.config.update("jax_compilation_cache_dir", sys.argv[2])
gn.config.update("jax_compilation_cache_max_size", -1)
gn.jit(lambda x: x * 3 + 2)(2.0)
before = files()
assert any(Path(sys.argv[2]).rglob("*")) and os.environ["GNOMON_CACHE_DIR"] == sys.argv[2]
gn.config.update("jax_compilation_cache_dir", sys.argv[1])
gn.config.update("jax_enable_compilation_cache", False)
gn.jit(lambda x: x * 3 + 3)(2.0)
assert files() == before
"""


def test_options_of_the_cache(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GNOMON_CACHE")}
    environment["JAX_COMPILATION_CACHE_DIR"] = str(folders[0])
    program = [sys.executable, "-c", CACHED, *map(str, folders)]
    subprocess.run(program, env=environment, check=True)
    with pytest.raises(ValueError, match="the path of a folder or None, got 3"):
        config.update("jax_compilation_cache_dir", 3)
    with pytest.raises(ValueError, match="a number of bytes or -1, got 'much'"):
        config.update("jax_compilation_cache_max_size", "much")


def test_contexts_nest_and_restore_the_state() -> None:
    before = config.token
    with enable_x64():
        with numpy_dtype_promotion("strict"):
            inner = config.token
            with enable_x64(False):
                assert config.x64 is False
            assert config.token == inner
        with pytest.raises(RuntimeError), enable_x64(False):
            raise RuntimeError
        assert config.x64 is True
    assert config.x64 is False
    assert config.token == before
    assert len({before, inner}) == 2
    assert "x64" not in vars(config)


def test_an_override_holds_for_its_own_thread_only() -> None:
    seen = []
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with enable_x64():
            seen.append(config.x64)
            inside.set()
            done.wait(10)
            # A change of the process's value is seen where it is not overridden.
            seen.append((config.x64, config.token[:2]))
        seen.append(config.x64)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    assert config.x64 is False
    config.update("gnomon_numpy_dtype_promotion", "strict")
    try:
        done.set()
        thread.join(10)
    finally:
        config.update("gnomon_numpy_dtype_promotion", "standard")
    assert seen == [True, (True, (True, "strict")), False]
    assert config.token == Config.token
    assert config.token[:2] == (False, "standard")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("GNOMON_ENABLE_X64", "1", "True"),
        ("JAX_ENABLE_X64", "true", "True"),
        ("JAX_ENABLE_X64", "0", "False"),
        ("GNOMON_ENABLE_X64", "perhaps", "takes 1, true, 0 or false, got 'perhaps'"),
    ],
)
def test_environment(
    variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    program = "from gnomon._config.current import config; print(config.x64)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert expected in done.stdout + done.stderr


def test_rank_promotion() -> None:
    x, y = gnp.ones((2, 3)), gnp.ones(3)
    assert gn.jit(gnp.add)(x, y).shape == (2, 3)
    with gn.numpy_rank_promotion("raise"):
        for f in (gnp.add, gn.jit(gnp.add), lambda x, y: x < y):
            with pytest.raises(ValueError, match=r"on shapes .*\(2, 3\) \(3,\)"):
                f(x, y)
        assert (x + 1.0 + gnp.float32(1) + y[None]).shape == (2, 3)
        # As in JAX, a choice is no computation with its operands.
        assert gnp.where(x > 0, x, y).shape == gnp.select([x > 0], [y]).shape == (2, 3)
    with gn.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion for add"):
        x + y


def test_matmul_precision() -> None:
    def text() -> str:
        return str(gn.make_jaxpr(gnp.dot)(gnp.ones((2, 2)), gnp.ones((2, 2))))

    assert '"highest"' not in text()
    with gn.default_matmul_precision("float32"):
        assert '"highest"' in text()
        precise = gn.make_jaxpr(lambda x: gnp.dot(x, x, precision="default"))(gnp.ones((2, 2)))
        assert '"highest"' not in str(precise)
    with pytest.raises(ValueError, match=r"takes None, one of .*DotAlgorithmPreset, got 'exact'"):
        gn.default_matmul_precision("exact").__enter__()


def test_options_of_random_keys() -> None:
    raw = gn.random.PRNGKey(0)
    with gn.enable_custom_prng():
        assert gn.random.PRNGKey(0).shape == ()
    with gn.legacy_prng_key("error"):
        gn.random.normal(gn.random.key(0))
        with pytest.raises(ValueError, match="Legacy uint32 key"):
            gn.random.normal(raw)
    with gn.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32 key"):
        gn.random.normal(raw)
    with gn.threefry_partitionable(True), gn.default_prng_impl("threefry2x32"):
        gn.random.normal(raw)


# ------------------------------------------------------------------------ flags of the command line


_PRINT_OPTIONS = """
import gnomon as gn
gn.config.parse_flags_with_absl()
gn.config.update("gnomon_debug_infs", False)
gn.config.parse_flags_with_absl()  # the first call only
print(gn.config.x64, gn.config.default_matmul_precision, gn.config.debug_nans,
      gn.config.debug_infs, gn.config.disable_jit, gn.device_count())
"""


def _run_with_flags(*flags: str, program: str = _PRINT_OPTIONS) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *flags], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_flags_set_options() -> None:
    flags = [
        "--jax_enable_x64",
        "--gnomon_default_matmul_precision=highest",
        "file",
        "--jax_debug_nans=false",
        "--gnomon_debug_infs=1",
        "--jax_num_cpu_devices=2",
        "--jax_no_such_option=1",
        "--other=2",
        "--",
        "--jax_disable_jit",
    ]
    assert _run_with_flags(*flags) == "True highest False False False 2\n"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--jax_enable_x64=maybe", "the flag --jax_enable_x64 takes 1, true, 0 or false"),
        ("--jax_numpy_rank_promotion=loudly", "takes one of 'allow', 'warn', 'raise'"),
        ("--jax_numpy_rank_promotion", "--jax_numpy_rank_promotion needs a value"),
    ],
)
def test_flags_with_wrong_values_are_refused(flag: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(options_in([flag]))


def test_absl_accepts_the_flags() -> None:
    pytest.importorskip("absl")
    program = """
from absl import app
import gnomon as gn
gn.config.parse_flags_with_absl()
app.run(lambda arguments: print(arguments[1:], gn.config.x64, gn.config.debug_nans))
"""
    found = _run_with_flags("a", "--jax_enable_x64", "--gnomon_debug_nans=1", program=program)
    assert found == "['a'] True True\n"
