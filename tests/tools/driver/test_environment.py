"""The commands about this machine: devices, targets, doctor, cache, completion, version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gnomon as gn
from gnomon.backends.cache import ExecutableCache
from gnomon.backends.iree.targets import target_names
from gnomon.tools.driver import main
from gnomon.tools.driver.cache import parse_age, parse_size
from gnomon.tools.driver.command_line import make_parser
from gnomon.tools.driver.completion import commands_of, script

Capture = pytest.CaptureFixture[str]


def facts(capsys: Capture, *arguments: str) -> object:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_devices_and_targets(capsys: Capture) -> None:
    found = facts(capsys, "devices")
    assert isinstance(found, dict)
    assert any(d["platform"] == "cpu" and d["default"] for d in found["devices"])
    platforms = {d["platform"] for d in found["devices"] + found["missing"]}
    assert {"cpu", "cuda", "metal", "rocm", "tpu", "vulkan"} <= platforms
    assert main(["devices"]) == 0
    assert capsys.readouterr().out.startswith("cpu:0")
    listed = facts(capsys, "targets")
    assert isinstance(listed, list)
    assert {one["target"] for one in listed} <= set(target_names())
    assert main(["targets"]) == 0
    assert "cuda:sm_90" in capsys.readouterr().out
    versions = facts(capsys, "version")
    assert isinstance(versions, dict) and versions["numpy"]


def test_the_doctor_compiles_and_runs(capsys: Capture) -> None:
    found = facts(capsys, "doctor")
    assert isinstance(found, list)
    states = {one["subject"]: one["state"] for one in found}
    assert states["compiler"] == states["device cpu:0"] == states["cache"] == "ok"
    assert "broken" not in states.values()


@pytest.mark.slow
def test_the_doctor_finds_broken_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "executables").mkdir()
    (tmp_path / "executables").chmod(0o777)
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    assert main(["doctor"]) == 1
    captured = capsys.readouterr()
    assert f"!!  cache: others may write to {tmp_path}" in captured.out
    assert "broken: cache" in captured.err


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExecutableCache:
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    made = ExecutableCache(tmp_path / "executables")
    for i in range(4):
        made.put(f"{i}" * 64, bytes(1000))
        used = time.time() if i == 3 else 4e8 * i
        os.utime(made._path(f"{i}" * 64), (used, used))
    return made


def test_the_cache_is_listed_pruned_and_cleared(cache: ExecutableCache, capsys: Capture) -> None:
    listed = facts(capsys, "cache", "list")
    assert isinstance(listed, list)
    assert [one["key"][0] for one in listed] == ["0", "1", "2", "3"]
    size = facts(capsys, "cache", "size")
    assert isinstance(size, dict) and size["executables"] == 4 and size["bytes"] > 4000
    assert main(["cache", "prune"]) == 2
    assert "--max-size or --older-than" in capsys.readouterr().err
    assert main(["cache", "prune", "--max-size=3k"]) == 0
    assert [entry.key[0] for entry in cache.entries()] == ["2", "3"]
    assert main(["cache", "prune", "--older-than=1h"]) == 0
    assert [entry.key[0] for entry in cache.entries()] == ["3"]
    assert "removed 1 executables" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr().out.startswith("3" * 16)
    assert main(["cache", "clear"]) == 0
    assert cache.entries() == []


def test_sizes_and_ages() -> None:
    assert [parse_size(text) for text in ("5", "2k", "1.5 MiB", "1GB")] == [
        5,
        2048,
        3 << 19,
        1 << 30,
    ]
    assert [parse_age(text) for text in ("90s", "2h", "30d")] == [90.0, 7200.0, 2592000.0]
    with pytest.raises(SystemExit) as raised:
        main(["cache", "prune", "--max-size=much"])
    assert raised.value.code == 2


def test_a_disabled_cache_and_a_bad_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("GNOMON_CACHE_DIR", "~nobody-has-this-name/cache")
    assert main(["cache", "size"]) == 1
    monkeypatch.setenv("GNOMON_CACHE", "0")
    assert main(["cache", "list"]) == 0
    assert "the cache is off" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()

    def after(*words: str) -> list[str]:
        path = tmp_path / "completion.bash"
        path.write_text(script("bash", make_parser()))
        given = " ".join(f"'{word}'" for word in ("gnomon", *words))
        program = (
            f"cd {tmp_path}; source {path}; COMP_WORDS=({given}); "
            f"COMP_CWORD={len(words)}; _gnomon; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert after("in") == ["inspect"]
    assert after("compile", "--emit", "st") == ["stablehlo", "static-library"]
    assert "cuda:sm_90" in after("compile", "--target", "cuda:")
    assert after("cache", "cl") == ["clear"]
    assert "--benchmark" in after("run", "--b")
    assert after("run", "mod") == ["model.py"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_every_command_and_option(shell: str) -> None:
    parser = make_parser()
    text = script(shell, parser)
    for name, sub in commands_of(parser).items():
        assert name in text
        for action in sub._actions:
            for option in action.option_strings:
                if option.startswith("--"):
                    assert (f"-l {option[2:]} " if shell == "fish" else option) in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_the_command_line_is_checked_and_explained(capsys: Capture) -> None:
    for arguments in (["nothing"], ["compile"], ["compile", "a.py:f", "--vmap=x y"]):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
    capsys.readouterr()
    for name in ([], *([name] for name in commands_of(make_parser()) if name != "opt")):
        with pytest.raises(SystemExit) as raised:
            main([*name, "--help"])
        assert raised.value.code == 0
        assert "usage: gnomon" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("compil a.py:f", "compile"),
        ("cache lst", "list"),
        ("compile a.py:f --targt cpu", "--target"),
        ("run a.gnm --jsn", "--json"),
    ],
)
def test_misspelt_words(line: str, meant: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(line.split())
    assert capsys.readouterr().err.endswith(f"; did you mean {meant!r}?\n")


def test_no_command_and_the_version(capsys: Capture) -> None:
    assert main([]) == 0
    assert "exit status:" in capsys.readouterr().out
    with pytest.raises(SystemExit) as raised:
        main(["--version"])
    assert raised.value.code == 0 and gn.__version__ in capsys.readouterr().out


def test_it_is_a_module_and_ends_silently_when_its_reader_is_gone() -> None:
    command = [sys.executable, "-m", "gnomon.tools.driver", "completion", "zsh"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
