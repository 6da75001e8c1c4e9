"""The classifier of digits in a web page: compiled for WebAssembly, run by headless Chromium."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.tools.driver.browser import find_browser, open_page

EXAMPLES = Path(__file__).parents[2] / "examples"
BATCH = 36


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="needs a browser")
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang")
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn")
def test_a_page_reads_digits(tmp_path: Path) -> None:
    def run(*words: str) -> None:
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)

    classifier = EXAMPLES / "c" / "classifier.py"
    what = ["compile", f"{classifier}:classify", "--target=wasm32", "-o", "libclassify.a"]
    run("-m", "gnomon.tools.driver", *what)
    (tmp_path / "empty.c").touch()
    exports = ["-Wl,--export=classify", "-Wl,--export=malloc"]
    link = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-O2", "empty.c", "libclassify.a"]
    run("-m", "ziglang", "cc", *link, *exports, "-o", "classify.wasm")
    run(str(classifier), "images.bin")
    run(str(EXAMPLES / "web" / "page.py"), "classify.wasm", "images.bin", "digits.html")
    browser = find_browser()
    assert browser is not None
    with open_page(browser, (tmp_path / "digits.html").as_uri()) as tab:
        until = time.monotonic() + 60
        while tab.run("document.getElementById('state').textContent") == "computing":
            assert time.monotonic() < until
            time.sleep(0.05)
        state = tab.run("document.getElementById('state').textContent")
        digits = tab.run("[...document.querySelectorAll('figcaption')].map(f => +f.textContent)")
    assert state.startswith(f"{BATCH} images in ")
    labels = np.frombuffer((tmp_path / "images.bin").read_bytes(), np.int32, offset=360 * 64 * 4)
    assert (np.array(digits) == labels[:BATCH]).mean() > 0.9
