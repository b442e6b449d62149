"""Heartbeat client of stoker for Python trainings; copy it. Layout: wire/heartbeat_page.hpp, version 1. Without stoker it
does nothing. leave_wanted(): 0 = go on, 1 = save and leave, 2 = leave without saving. `path` "": no page."""
import mmap, os, struct, time

PHASES = ("startup", "load", "iteration", "evaluation", "checkpoint", "shutdown")

class Heartbeat:
    def __init__(self, path=None):
        path = os.environ.get("STOKER_HEARTBEAT") if path is None else path
        with open(path, "r+b") if path else open(os.devnull) as file:
            self.page = mmap.mmap(file.fileno(), 8192) if path else bytearray(8192)
        if path and (self.page[:8] != b"STOKERHB" or self.get("<I", 8) != 1):
            raise ValueError(f"{path}: not a heartbeat page of version 1")
        self.write(("<I", 16, int(os.environ.get("STOKER_ATTEMPT", "0"))), ("<I", 128, os.getpid()))

    def get(self, code, offset):
        return struct.unpack_from(code, self.page, offset)[0]

    def write(self, *fields):  # the sequence is odd while we write
        sequence = self.get("<I", 12) & ~1
        struct.pack_into("<I", self.page, 12, sequence + 1)
        for code, offset, value in fields + (("<q", 32, time.monotonic_ns()),):
            struct.pack_into(code, self.page, offset, value)
        struct.pack_into("<I", self.page, 12, sequence + 2)

    def phase(self, name):
        self.write(("<I", 20, PHASES.index(name)), ("<q", 24, time.monotonic_ns()))

    def step(self, iteration, total=0, samples=0, tokens=0, loss=None, seconds=0.0, lr=0.0, steps=0):
        self.write(("<Q", 40, iteration), ("<Q", 48, total), ("<Q", 56, samples), ("<Q", 136, tokens), ("<d", 80, seconds),
                   ("<Q", 120, steps), ("<d", 64, loss or 0.0), ("<I", 132, int(loss is not None)), ("<d", 72, lr))

    def save_wanted(self):
        return self.get("<Q", 2048) > self.get("<Q", 144)

    def saved(self, iteration):
        self.write(("<Q", 112, iteration), ("<Q", 144, self.get("<Q", 2048)))

    def leave_wanted(self):
        return self.get("<I", 2056)
