"""A real browser for the pages: headless Chromium, spoken to over two pipes, as its DevTools are."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds for one answer; a machine that is busy elsewhere takes long to start a browser


class Chromium:
    """One browser process; messages are JSON with a NUL behind each."""

    def __init__(self, program, folder):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # the browser reads from 3 and writes to 4; what stands there now must not be in the way
        read, write = (fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (to_browser, from_browser))
        command = [program, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]
        command += [f"--user-data-dir={folder}", "--disable-background-networking", "--hide-scrollbars"]
        command += ["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "bash", *command],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for each in (to_browser, from_browser, read, write):
            os.close(each)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events = []

    def call(self, method, session=None, **params):
        """Asks for something, and waits for the answer; events that come first are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.events.append(message)

    def wait_for(self, method, session):
        """Waits until an event has come, and forgets it and those before it of its kind."""
        while not any((event["method"], event.get("sessionId")) == (method, session) for event in self.events):
            self.events.append(self._receive())
        self.events = [event for event in self.events if event["method"] != method]

    def _receive(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1280, height=900, dark=False):
        """Opens a file as a page of its own, and waits until it is loaded."""
        return Page(self, path, width, height, dark)

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._out)
        os.close(self._in)


class Page:
    """A page that was opened; `faults` collects what it complained of or asked the network for."""

    def __init__(self, browser, path, width, height, dark):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.url = Path(path).absolute().as_uri()
        self.call("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired", self.session)
        self.settle()

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def settle(self):
        """Waits for the next frame to be painted, and what it set off."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def run(self, expression):
        """Computes an expression in the page, and gives its value."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def place(self, selector, index=0):
        """Where the middle of an element is, after it was scrolled to."""
        return self.run(
            f"(() => {{ const each = document.querySelectorAll({json.dumps(selector)})[{index}];"
            "each.scrollIntoView({block: 'center', behavior: 'instant'}); const box = each.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )

    def point(self, selector, index=0):
        """Moves the mouse over an element."""
        x, y = self.place(selector, index)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, selector, index=0):
        x, y = self.place(selector, index)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_CODES[key])
        self.settle()

    def text(self, selector, index=0):
        return self.run(f"document.querySelectorAll({json.dumps(selector)})[{index}].textContent")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.textContent)")

    def screenshot(self, path):
        """Takes a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    @property
    def faults(self):
        """Errors, warnings and messages of the page, and every request but that for the page itself."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") == self.session:
                method, params = event["method"], event["params"]
                if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                    found.append((method, params))
                if method == "Network.requestWillBeSent" and params["request"]["url"] != self.url:
                    found.append((method, params["request"]["url"]))
        return found


_CODES = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "PageUp": 33, "PageDown": 34}
_CODES |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The browser on this machine; without one, what needs it is skipped."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser to drive: none of {', '.join(PROGRAMS)} is on PATH")
    chromium = Chromium(program, tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.close()
