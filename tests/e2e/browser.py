"""Headless Chromium by its own protocol over a pipe: no driver, no package. Used where there is Chromium."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `said`: what its console and its errors said."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mgc-chromium-", ignore_cleanup_errors=True)
        out, theirs = os.pipe()
        ours, self.to = os.pipe()
        self.answers, self.buffer, self.number, self.said, self.session = out, b"", 0, [], None
        argv = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                "--user-data-dir=" + self.folder.name, "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{ours} 4>&{theirs}', "sh", *argv], pass_fds=(ours, theirs),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours)
        os.close(theirs)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        self.folder.cleanup()

    def read(self, until):
        """Messages, one after the other, until the time."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.answers, 1 << 16)
            if not more:
                raise RuntimeError("Chromium ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        kind, what = message.get("method"), message.get("params", {})
        if kind == "Runtime.consoleAPICalled":
            self.said.append(str([a.get("value", a.get("description")) for a in what["args"]]))
        elif kind == "Runtime.exceptionThrown":
            self.said.append(json.dumps(what["exceptionDetails"]))
        elif kind == "Log.entryAdded":
            self.said.append(what["entry"]["text"])
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 120
        while time.monotonic() < end:
            answer = self.read(end)
            if answer and answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]
        raise RuntimeError(f"no answer to {method}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def eval(self, code):
        r = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"])
        return r["result"].get("value")

    def wait(self, code, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.eval(code)
            if value:
                return value
            time.sleep(0.1)
        raise RuntimeError(f"never true: {code}; {self.said}")

    def key(self, key, shift=False):
        more = {"text": key} if len(key) == 1 else {}
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **(more if kind == "keyDown" else {}))

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
