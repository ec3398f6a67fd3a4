# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium over its debugging pipe: JSON messages that end in a zero byte (Chrome DevTools
Protocol). No packages needed."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable():
    """Returns the path of a Chromium on this machine, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="espalier-chromium-")
        to_child, self.writer = os.pipe()
        self.reader, from_child = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder}",
                 "--remote-debugging-pipe", "about:blank"]

        def pipes():
            # Chromium reads descriptor 3 and writes descriptor 4; the pipes may have these numbers themselves.
            one, two = os.dup(to_child), os.dup(from_child)
            os.dup2(one, 3)
            os.dup2(two, 4)
        self.process = subprocess.Popen([path, *flags], close_fds=False, preexec_fn=pipes, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.pending, self.number, self.events = b"", 0, []
        target = self.call("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.call("Browser.close", session=None)
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self):
        while b"\0" not in self.pending:
            part = os.read(self.reader, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.pending += part
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, parameters=None, session=""):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters or {}}
        if session is not None:
            request["sessionId"] = self.session
        os.write(self.writer, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, script):
        """Returns the value of an expression of the page; waits for promises."""
        answer = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def screen(self, width, height=900, dark=False, ratio=1, media=""):
        self.call("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False})
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def open(self, file, ready="document.documentElement?.dataset.ready === 'yes'", limit=60):
        """Opens a file; returns the seconds until the page is ready."""
        began = time.monotonic()
        self.call("Page.navigate", {"url": f"file://{file}"})
        here = f"decodeURI(location.href).endsWith({json.dumps(str(file))}) && {ready}"  # not the page before
        while not self.value(here):
            if time.monotonic() - began > limit:
                raise RuntimeError(f"{file} is not ready after {limit} s; {self.complaints()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def frame(self):
        """Waits until pending changes are drawn."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def key(self, key, code=None):
        text = key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": code or key, **({"text": text} if text and kind == "keyDown" else {})})

    def complaints(self):
        """Returns errors of scripts, of the console and of the security policy, and everything except itself that the
        page tried to load."""
        out = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                out.append(json.dumps(parameters["exceptionDetails"])[:400])
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                out.append(parameters["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                out.append(json.dumps(parameters["args"])[:400])
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "about:")):
                out.append("loads " + parameters["request"]["url"][:200])
        return out

    def picture(self, file, clip=None, whole=False):
        parameters = {"format": "png", "captureBeyondViewport": whole or clip is not None}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = (0, 0, size["width"], min(size["height"], 12000))
        if clip:
            x, y, width, height = clip
            parameters["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", parameters)["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))

    def pdf(self, file):
        data = self.call("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69})["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))
