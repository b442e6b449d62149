"""What another user can keep the lock of in the kernel, by a page of FUSE that never comes: a site with two runs of the owner."""
import os
import subprocess

from e2e._harness import check
from e2e._users import GROUP, OWNER, SharedSite
import e2e._users as users

FUSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_fuse.py")
# write(2) from a page that never comes keeps the file's lock, and unlink(2) of that file waits for it with the folder's.
LOCK = """
import ctypes, mmap, os, sys, time
page, victim = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
shown = os.open(page, os.O_RDONLY)
os.fstat(shown)  # its length is known from now on
memory = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, shown, 0)
file = os.open(victim, os.O_CREAT | os.O_RDWR, 0o664)
if os.fork() == 0:
    libc.write(file, memory, 4096)
    os._exit(0)
time.sleep(1)
if os.fork() == 0:
    os.unlink(victim)
    os._exit(0)
time.sleep(1)
print("here", flush=True)
time.sleep(1000)
"""

# getdents(2), or a direct read(2), into a page that never comes: permission to read is enough.
READ_LOCK = """
import ctypes, mmap, os, sys, time
page, victim = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
shown = os.open(page, os.O_RDONLY)
os.fstat(shown)
memory = libc.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, shown, 0)
folder = os.path.isdir(victim)
file = os.open(victim, os.O_RDONLY | (os.O_DIRECTORY if folder else os.O_DIRECT))
if os.fork() == 0:
    libc.syscall(217 if folder else 0, file, memory, 4096)
    os._exit(0)
time.sleep(1)
print("here", flush=True)
time.sleep(1000)
"""


class LockedSite(SharedSite):
    """A second run of the owner, without a group, beside the shared one."""

    def __init__(self):
        super().__init__()
        self.helpers = []

    def start_both(self, logs=""):
        plain, users.RUN = users.RUN, users.RUN.replace("watch: {{", f'watch: {{{{logs: ["{logs}/*.log"], ' if logs else "watch: {{")
        try:
            self.start()
        finally:
            users.RUN = plain
        with open(self.config(), encoding="utf-8") as f:
            text = f.read()
        path = os.path.join(self.folder, "other.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("run: shared", "run: other").replace(self.directory, os.path.join(self.folder, "other"))
                    .replace(f"group: {GROUP}\n", ""))
        os.chmod(path, 0o600)
        os.chown(path, *self.ids(OWNER))
        self.stoker("run", path, "--yes")
        self.wait(lambda: self.of("other").get("iteration", 0) > 5, 30, "the other run's training")

    def log_text(self):
        with open(os.path.join(self.folder, "stokerd.log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def of(self, run):
        before, self.run = self.run, run
        try:
            return self.status()
        finally:
            self.run = before

    def show_page(self, user):
        page = os.path.join(self.folder, "page")
        with open(page, "w", encoding="utf-8"):
            pass
        os.chown(page, *self.ids(user))
        self.page = page
        server = subprocess.Popen(["/usr/bin/python3", FUSE, page, str(self.ids(user)[0])], stdout=subprocess.PIPE, text=True)
        self.helpers.append(server)
        check(server.stdout.readline() == "here\n", "the FUSE program did not start")
        return page

    def lock(self, user, folder):
        self.background(user, LOCK, self.show_page(user), os.path.join(folder, "zz.log"))

    def lock_by_reading(self, user, victim):
        self.background(user, READ_LOCK, self.show_page(user), victim)

    def let_go(self):
        for server in self.helpers:
            server.kill()
            server.wait()
        subprocess.run(["umount", "-l", self.page], check=False, capture_output=True)
        self.helpers = []

    def close(self):
        if self.helpers:
            self.let_go()
        super().close()
