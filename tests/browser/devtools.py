"""A headless Chromium, spoken to in its own protocol (Chrome DevTools) through two pipes: no driver, no network."""

import base64
import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 180  # how long an answer may take on a busy machine

# The middle of the element that a person would click: the innermost visible one, brought into view.
FIND = """
(() => {
  const seen = element => element.getClientRects().length > 0;
  let found = [];
  try { found = [...document.querySelectorAll(TARGET)].filter(seen); } catch (error) {}
  if (!found.length) found = [...document.querySelectorAll('a, button, [role], summary, span, div, label')].filter(
    element => seen(element) && element.innerText?.trim() === TARGET);
  found = found.filter(element => !found.some(other => other !== element && element.contains(other)));
  if (!found.length) return null;
  found[0].scrollIntoView({block: 'nearest'});
  const box = found[0].getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()
"""


class Browser:
    """A Chromium process with a profile of its own."""

    def __init__(self, program: str, profile: Path):
        commands, self._to_browser = os.pipe()
        self._from_browser, answers = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-default-apps"]
        options += ["--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [program, *options, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # Python's own files close themselves; these two must stay open
            preexec_fn=lambda: _become(commands, answers),
        )
        os.close(commands)
        os.close(answers)
        self._number = 0
        self._unread = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return what it answers; events that come before are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def _read(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from_browser], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self._from_browser, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError(f"the browser did not answer {what}" if not ready else "the browser ended")
            self._unread += part
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)

    @contextmanager
    def newcomer(self) -> Iterator[str]:
        """Yield a profile that has never seen a page."""
        profile = self.call("Target.createBrowserContext")["browserContextId"]
        yield profile
        self.call("Target.disposeBrowserContext", browserContextId=profile)

    def open(self, url: str, width: int = 1280, height: int = 900, profile: str | None = None) -> "Page":
        """Open a page in a window of some size, in pixels of CSS."""
        where = {"browserContextId": profile} if profile else {}
        target = self.call("Target.createTarget", url="about:blank", **where)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        page.call("Network.enable")
        page.call("Page.enable")
        page.go(url)
        return page

    def close(self) -> None:
        """End the browser."""
        try:
            self.call("Browser.close")
            self._process.wait(20)
        except (OSError, TimeoutError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to_browser)
        os.close(self._from_browser)


def _become(commands: int, answers: int) -> None:
    """Make two pipes the files 3 and 4 of a new process, from which Chromium reads commands and on which it answers."""
    high = [fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 10) for pipe in (commands, answers)]  # clear of 3 and 4
    for pipe, place in zip(high, (3, 4), strict=True):
        os.dup2(pipe, place)


class Page:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str):
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def go(self, url: str) -> None:
        """Load an address and wait until the document is complete."""
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "script failed"))
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = SECONDS) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            if time.monotonic() > deadline:
                text = self.evaluate("document.body.innerText")
                raise TimeoutError(f"not within {seconds} s: {script}\nThe page says: {text[:1500]}")
            time.sleep(0.1)
        return value

    def wait_for_text(self, text: str) -> None:
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})")

    def click(self, target: str, seconds: float = SECONDS) -> None:
        """Press the mouse, as a person does, on the element that a selector finds, or the innermost one with a text."""
        find = FIND.replace("TARGET", json.dumps(target))
        place = self.wait_for(find, seconds)
        # What scrolls into view or is drawn anew moves: press where it has come to rest.
        while (moved := self.wait_for(find, seconds)) != place:
            place = moved
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **button)

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent" and event.get("sessionId") == self._session
        ]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))
