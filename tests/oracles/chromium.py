"""A browser without a window, driven by its debugging protocol: what a person sees, clicks and would find in the console."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = ("chromium", "chromium-browser", "google-chrome")
FOUND = next((path for word in WORDS if (path := shutil.which(word))), None)
BAD = ("Runtime.exceptionThrown", "Network.loadingFailed")


class Tab:
    """One page.

    ``complaints`` is what the console would show as an error, ``asked`` every address that the page asked for.
    """

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.calls = 0
        self.complaints: list[str] = []
        self.asked: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": params}))
        while True:
            got = json.loads(self.socket.recv())
            if got.get("id") == self.calls:
                assert "error" not in got, got
                return got.get("result", {})
            self._hear(got)

    def _hear(self, event: dict[str, Any]) -> None:
        name, params = event.get("method"), event.get("params", {})
        if name == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif name in BAD or (name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")):
            self.complaints.append(json.dumps(params)[:300])
        elif name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def value(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.as_uri())
        while self.value("document.readyState") != "complete" or self.value("location.href") != path.as_uri():
            time.sleep(0.02)

    def screen(self, width: int, height: int, dark: bool) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def click(self, selector: str) -> None:
        """A click of the mouse on the middle of the first element, scrolled into view before."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{find}.scrollIntoView({{block: 'center'}})")
        x, y = self.value(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({find}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def shot(self, path: Path) -> None:
        """The whole page as a PNG."""
        width, height = self.value("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, which ends with it."""
    import websocket

    assert FOUND is not None
    process = subprocess.Popen(
        [FOUND, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*",
         f"--user-data-dir={folder}", "about:blank"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        told = folder / "DevToolsActivePort"
        while not told.exists() or "\n" not in told.read_text():
            assert process.poll() is None, "the browser did not start"
            time.sleep(0.05)
        address = f"http://127.0.0.1:{told.read_text().split()[0]}/json"
        with urllib.request.urlopen(address) as answer:
            (page, *_) = [p for p in json.load(answer) if p["type"] == "page"]
        socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=60)
        try:
            yield Tab(socket)
        finally:
            socket.close()
    finally:
        process.terminate()
        process.wait()
