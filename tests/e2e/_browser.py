"""Chromium without a window, driven over its debugging protocol: pages, screenshots, and everything that a page asked for
or complained about."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from e2e._harness import Failed


def missing():
    """Why there is no browser; "" = there is one."""
    return "" if shutil.which("chromium") else "no chromium here (package chromium)"


class Browser:
    """The protocol goes over two pipes (descriptors 3 and 4 of the browser): JSON, each message ends in a zero byte."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stoker-browser-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        for fd in (to_read, to_write):
            os.set_inheritable(fd, True)
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec chromium "$@" 3<&{to_read} 4>&{to_write}', "sh", "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            pass_fds=(to_read, to_write))
        os.close(to_read)
        os.close(to_write)
        self.number, self.asked, self.complaints, self.answers, self.rest, self.session = 0, [], [], {}, b"", None
        tabs = self.wait(self._tabs, 30, "a tab")
        self.session = self.call("Target.attachToTarget", targetId=tabs[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def _tabs(self):
        return [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]

    def _message(self, seconds=30):
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed(f"the browser said nothing for {seconds} s")
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise Failed("the browser is gone")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    @staticmethod
    def wait(condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise Failed(f"waited {seconds} s for {what}")

    def take(self, message):
        """What the browser reports without a request."""
        kind, told = message.get("method"), message.get("params", {})
        if kind == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif kind == "Network.responseReceived":
            self.answers[told["response"]["url"]] = told["response"]["status"]
        elif kind == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:500])
        elif kind == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"])[:500])
        elif kind == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def call(self, method, **arguments):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") != self.number:
                self.take(message)
                continue
            if "error" in message:
                raise Failed(f"{method}: {message['error']}")
            return message["result"]

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failed(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=20):
        return self.wait(lambda: self.value(expression), seconds, expression)

    def look(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def go(self, url):
        self.call("Page.navigate", url=url)

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code,
                      **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}))

    def screenshot(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as f:
            f.write(base64.b64decode(picture["data"]))

    def close(self):
        os.close(self.to)
        os.close(self.back)
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
