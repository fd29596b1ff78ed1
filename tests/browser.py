"""A headless Chromium on the end of a pipe, as far as tests of pages need one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

REQUIRED = "CARBON_GYM_BROWSER_TESTS"
"""Environment variable that `.ci/run` sets: pages have to be tested."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SILENT_S = 60.0


def program() -> str:
    """Path of the browser; without one the test skips, or fails where one is `REQUIRED`."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        reason = "no Chromium here (Debian: apt install chromium)"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{reason}, and {REQUIRED} is set")
        pytest.skip(reason)
    return found


class Browser:
    """One page of Chromium, spoken to in its DevTools protocol; a context manager.

    Args:
        program: The browser.
        profile: An empty folder.

    Attributes:
        events: What the page has reported so far: requests, errors of scripts, log entries.
    """

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Chromium takes its pipe at the descriptors 3 and 4, which Python may have in use here.
        line = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        where = ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", program, *options, *where],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self._read, False)
        self.events: list[dict[str, Any]] = []
        self._received = b""
        self._sent = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        try:
            targets = self.send("Target.getTargets")["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
            attached = self.send("Target.attachToTarget", targetId=page, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.send(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command's result."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path, width_px: int = 1280, height_px: int = 900) -> None:
        """Load a file in a window of that size and forget earlier events."""
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=width_px < 600, **size)
        self.events.clear()
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, text: str) -> None:
        """A key down and up."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def prefer(self, scheme: str) -> None:
        """Make the system's colours "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        path.write_bytes(b64decode(self.send("Page.captureScreenshot")["data"]))

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        """The next message; events are kept as well."""
        until = time.monotonic() + _SILENT_S
        while b"\0" not in self._received:
            try:
                read = os.read(self._read, 1 << 16)
                assert read, "the browser has ended"
                self._received += read
            except BlockingIOError:
                assert time.monotonic() < until, "the browser does not answer"
                time.sleep(0.005)
        message, _, self._received = self._received.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer
