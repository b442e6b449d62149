"""A real terminal for tests and for the pictures of docs/: tmux, with a shell in it."""
import os
import subprocess
import time

from e2e._harness import BIN, check


class Screen:
    """A terminal of its own: a tmux server on a socket in the test's folder, with a shell in it."""

    def __init__(self, site, columns=80, rows=24):
        self.site = site
        self.socket = os.path.join(site.folder, "tmux")
        environment = dict(site.env, LC_ALL="C.UTF-8", PS1="$ ", HISTFILE="", PATH=os.path.abspath(BIN) + ":" + os.environ["PATH"])
        for name in ("TMUX", "COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                        "-c", site.folder, "ulimit -c 0; exec bash --norc --noprofile"], env=environment, check=True, timeout=30)
        self.tmux("set-option", "-g", "window-size", "manual")
        self.resize(columns, rows)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *map(str, words)], text=True, capture_output=True, check=True,
                              timeout=30).stdout

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def line(self, text):
        self.tmux("send-keys", "-l", text)
        self.keys("Enter")

    def text(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, condition, seconds, what):
        """Until the screen is so; returns its text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text()
            if condition(text):
                return text
            time.sleep(0.05)
        check(False, f"waited {seconds} s for {what}; the screen:\n{self.text()}")

    def sees(self, *parts, seconds=20):
        return self.wait(lambda text: all(part in text or part in " ".join(text.split()) for part in parts), seconds, f"{parts} on the screen")

    def top_pid(self):
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if parent == shell and os.path.basename(words[0]) == b"stoker":
                return int(pid)
        return None

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False, timeout=30)
