"""Headless Chromium for tests, by the protocol of its developer tools over a pair of pipes.

Nothing but the browser is needed: neither a driver program nor the network.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Tab", "find_browser", "open_page"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root and containers have no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
)
_TIMEOUT_S = 60.0

# The browser reads from descriptor 3 and writes to 4; the ends of the pipes move out of their way.
_START = """
import os, sys
given = [os.dup2(int(end), 100 + i) for i, end in enumerate(sys.argv[1:3])]
os.dup2(given[0], 3)
os.dup2(given[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    """The path of a browser, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Tab:
    """A page in the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, from_browser
        self._buffer, self._count, self._session = b"", 0, ""
        found = self._request("Target.createTarget", url="about:blank")
        attached = self._request("Target.attachToTarget", flatten=True, **found)
        self._session = attached["sessionId"]
        self._request("Page.enable")

    def _message(self) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], _TIMEOUT_S)
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has closed the pipe"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _request(self, method: str, **params: Any) -> Any:
        self._count += 1
        request = {"id": self._count, "method": method, "params": params}
        if self._session:
            request["sessionId"] = self._session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._message()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self._request("Page.navigate", url=url)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript; errors raise."""
        done = self._request("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def click(self, script: str) -> None:
        """Click with the mouse in the middle of the element that an expression returns."""
        box = f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'center'}});"
        box += " const r = e.getBoundingClientRect();"
        box += " return [r.left + Math.min(r.width, 300) / 2, r.top + r.height / 2]; })()"
        x, y = self.run(box)
        for kind in ("mousePressed", "mouseReleased"):
            click = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self._request("Input.dispatchMouseEvent", **click)

    def screenshot(self) -> bytes:
        """A screenshot of the tab, as PNG."""
        return base64.b64decode(self._request("Page.captureScreenshot", format="png")["data"])


@contextmanager
def open_page(browser: str, url: str) -> Iterator[Tab]:
    """A page in a new browser, which is closed at the end."""
    to_browser, from_browser = os.pipe(), os.pipe()

    ends = str(to_browser[0]), str(from_browser[1])
    # Processes of the browser may still write while the folder is removed.
    with tempfile.TemporaryDirectory(
        prefix="gnomon-browser-", ignore_cleanup_errors=True
    ) as profile:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START,
                *ends,
                browser,
                *_FLAGS,
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            tab = Tab(to_browser[1], from_browser[0])
            tab.open(url)
            yield tab
        finally:
            process.terminate()
            process.wait(_TIMEOUT_S)
            os.close(to_browser[1])
            os.close(from_browser[0])
