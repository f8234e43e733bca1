"""A real headless Chromium, driven over its DevTools protocol: pages opened from disk, keys pressed, the document read."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
WHY_NOT = "chromium is not installed"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "Home": 36,
    "End": 35,
    " ": 32,
    "Enter": 13,
    "Escape": 27,
}


class Browser:
    """One Chromium with one page. Everything that it asks of a network, and every error of the page, is kept.

    Attributes:
        requests: addresses that pages asked for.
        problems: exceptions of the page's program and errors in its console, refusals of the content policy among them.
    """

    def __init__(self, width: int = 1440, height: int = 900, *flags: str) -> None:
        assert CHROMIUM is not None
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._folder = tempfile.mkdtemp(prefix="fsm-agent-chromium-")
        command = [
            CHROMIUM,
            *_FLAGS,
            *flags,
            f"--window-size={width},{height}",
            f"--user-data-dir={self._folder}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self._session: Any = None
        self._socket: Any = None
        try:
            self._loop.run_until_complete(self._connect())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and everything that it started."""
        if self._session is not None:
            self._loop.run_until_complete(self._session.close())
            self._session = None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, page: Path, step: int | None = None) -> None:
        """Open a file, and wait until its program has begun."""
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=page.as_uri() + ("" if step is None else f"#step={step}"))
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def read(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and give its value; the content policy does not bind the tester."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for a condition to hold in the page; gives up when waiting is of no more use."""
        deadline = time.monotonic() + 30
        while not self.read(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never became true: {condition}; {self.problems}"
            self._loop.run_until_complete(asyncio.sleep(0.02))

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            fields = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": _KEYS.get(key, ord(key[0].upper()))}
            self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        """Save what is seen."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and give its result."""
        return self._loop.run_until_complete(self._call(method, parameters))

    async def _connect(self) -> None:
        port_file = Path(self._folder) / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert self._process.poll() is None, "chromium ended at once"
            assert time.monotonic() < deadline, "chromium did not open its port"
            await asyncio.sleep(0.05)
        port = int(port_file.read_text().split("\n")[0])
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [target for target in await answer.json() if target["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self._call(f"{domain}.enable", {})

    async def _call(self, method: str, parameters: dict[str, Any]) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        notes: dict[str, Callable[[], None]] = {
            "Network.requestWillBeSent": lambda: self.requests.append(parameters["request"]["url"]),
            "Runtime.exceptionThrown": lambda: self.problems.append(str(parameters["exceptionDetails"])),
            "Log.entryAdded": lambda: self.problems.append(parameters["entry"]["text"]),
            "Runtime.consoleAPICalled": lambda: self.problems.append(str(parameters["args"])),
        }
        if method in notes:
            notes[method]()
