"""A browser for the tests of pages. What starts it is in benchmarks too, and so knows nothing of pytest."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromedriver")
ENTER, TAB, ESCAPE, BACKSPACE = "\ue007", "\ue004", "\ue00c", "\ue003"
LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"


class Browser:
    """A window of headless Chromium, through the WebDriver protocol, as far as tests need it."""

    def __init__(self, port: int, profile: Path) -> None:
        self._port = port
        self._session = ""
        switches = [f"user-data-dir={profile}", "window-size=1280,900", "headless", "no-sandbox", "disable-gpu"]
        switches += ["no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"]
        wanted = {
            "goog:chromeOptions": {"args": [f"--{switch}" for switch in switches]},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = self.call("POST", "/session", capabilities={"alwaysMatch": wanted})
        self._session = f"/session/{session['sessionId']}"

    def call(self, method: str, path: str, **body: Any) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, self._session + path, json.dumps(body) if method == "POST" else None)
            value = json.load(connection.getresponse())["value"]
        finally:
            connection.close()
        assert not (isinstance(value, dict) and "error" in value), value
        return value

    def open(self, page: Path | None) -> None:
        """A file, or an empty page."""
        self.call("POST", "/url", url="about:blank" if page is None else page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; what it promises, when that has come."""
        return self.call("POST", "/execute/sync", script=script, args=arguments)

    def element(self, selector: str) -> str:
        found = self.call("POST", "/element", using="css selector", value=selector)
        return f"/element/{next(iter(found.values()))}"

    def click(self, selector: str) -> None:
        self.call("POST", f"{self.element(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"{self.element(selector)}/value", text=text)

    def clear(self, selector: str) -> None:
        self.call("POST", f"{self.element(selector)}/clear")

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def words(self, selector: str) -> list[str]:
        script = "return Array.from(document.querySelectorAll(arguments[0]), e => words[e.dataset.id])"
        return self.run(script, f"{selector} [data-id]")

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] if click else []
        self.call("POST", "/actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def press(self, *keys: str) -> None:
        """Keys one after the other, to whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def resize(self, width: int, height: int) -> None:
        self.call("POST", "/window/rect", width=width, height=height)

    def command(self, name: str, **parameters: Any) -> Any:
        """One of Chromium's own, of its developer tools."""
        return self.call("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def complaints(self) -> list[dict[str, Any]]:
        return self.call("POST", "/se/log", type="browser")


@contextmanager
def started_browser(profile: Path) -> Iterator[Browser]:
    """Chromium with a fresh profile in this folder."""
    with subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            started = next(found for line in driver.stdout if (found := re.search(r"success.* on port (\d+)", line)))
            browser = Browser(int(started[1]), profile)
            try:
                yield browser
            finally:
                browser.call("DELETE", "")
        finally:
            driver.terminate()
