"""A stranger in front of a TCP port: holds silent connections, announces large frames and sends part of them, and knocks at a
rate with words that cannot be right. Started as a program of its own by tests; it ends when its stdin does.

    _flood.py ADDRESS PORT HELD RATE      (rate: connections a second, at most 20000)
"""
import errno
import json
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import time

LARGE = 24
OLD_HELLO = json.dumps({"kind": "hello", "build": "0.1.0", "secret": "guess", "node": "n02", "host": "h", "boot_id": "b", "pid": 1}).encode()
KNOCKS = [struct.pack("<I", 1 + len(OLD_HELLO)) + b"j" + OLD_HELLO, struct.pack("<I", 301) + b"h" + bytes(300), b"GET / HTTP/1.1\r\n\r\n", b""]


class Flood:
    """The other side, for a test: as many programs as the rate needs, one does a few thousand connections a second."""

    def __init__(self, address, port, held, rate):
        many = max(1, rate // 2500)
        self.processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), address, str(port), str(held // many), str(rate // many)],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(many)]
        for process in self.processes:
            process.stdout.readline()  # it has begun

    def end(self):
        """What they did together; each must have lived until now."""
        for process in self.processes:
            if process.poll() is not None:
                raise OSError(f"the flood ended by itself with {process.returncode}")
        all_done = {"knocks": 0, "failed": 0, "seconds": 0}
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            done = json.loads(process.stdout.readline())
            process.wait(timeout=30)
            all_done = {"knocks": all_done["knocks"] + done["knocks"], "failed": all_done["failed"] + done["failed"],
                        "seconds": max(all_done["seconds"], done["seconds"])}
        return all_done


def connect(address, port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT
    s.setblocking(False)
    code = s.connect_ex((address, port))
    if code not in (0, errno.EINPROGRESS):
        s.close()
        return None
    return s


def stock(held, count, address, port):
    while len(held) < count:
        s = connect(address, port)
        if s is None:
            return
        held.append(s)


def refresh(held):
    """Forgets those that the other side has closed."""
    poll = select.poll()
    for s in held:
        poll.register(s.fileno(), select.POLLIN)
    over = {fd for fd, _ in poll.poll(0)}
    for s in [s for s in held if s.fileno() in over]:
        held.remove(s)
        s.close()


def main():
    address, port, count, rate = sys.argv[1], int(sys.argv[2]), min(int(sys.argv[3]), 2000), min(int(sys.argv[4]), 20000)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    held, large, waiting = [], [], []
    done = {"knocks": 0, "failed": 0}
    stock(held, count, address, port)
    print(json.dumps({"held": len(held)}), flush=True)
    began = last = time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        now = time.monotonic()
        if now - last > 0.5:
            last = now
            refresh(held)
            refresh(large)
            stock(held, count, address, port)
            stock(large, LARGE, address, port)
        for s in large:
            try:
                s.send(struct.pack("<I", 8 << 20) + b"j" + bytes(1 << 16))
            except OSError:
                pass
        due = min(int((now - began) * rate) - done["knocks"] - done["failed"], 500)
        for i in range(max(due, 0)):
            s = connect(address, port)
            done["failed" if s is None else "knocks"] += 1
            if s is None:
                break
            try:
                s.send(KNOCKS[i % len(KNOCKS)])
            except OSError:
                pass
            waiting.append(s)
            if len(waiting) > 500:
                waiting.pop(0).close()
        time.sleep(0.002)
    done["seconds"] = time.monotonic() - began
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
