"""Strangers on the host take every port, lock and name that they can foresee, and lay links into /tmp: the training goes on, and
nothing of the owner's is written."""
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys

from _agent import STEPS, check, run_cases, wait_for
from _harness import Failed as SiteFailed
from _harness import Site


def far_logs(allocation):
    """logs that stay on a node: not through a folder with a foreseeable name that a stranger has made and filled with links"""
    name = f"far{os.getpid()}"
    a = allocation(ranks=257, run=name)
    victim = os.path.join(a.folder, "precious")
    with open(victim, "w", encoding="ascii") as file:
        file.write("precious\n")
    trap = f"/tmp/stoker-{os.getuid()}-{name}-gen-000001"
    os.mkdir(trap)
    try:
        os.symlink(victim, f"{trap}/256.log")
        if os.geteuid() == 0:
            os.lchown(f"{trap}/256.log", 65534, 65534)
            os.chown(trap, 65534, 65534)
        a.orders["command"] = ["/bin/sh", "-c", "echo hello of $RANK; exec sleep 1000"]
        a.start(STOKER_RUN=name)
        wait_for(lambda: b":256] hello of 256" in a.logged(), 120, "rank 256 speaks")
        told = wait_for(lambda: [e["body"]["text"] for e in a.events("notice") if "logs of ranks from 256" in e["body"]["text"]] or
                        open(victim, "rb").read() != b"precious\n", 30, "where the logs are")
        check(open(victim, "rb").read() == b"precious\n", "a stranger's link has led into a file of ours")
        folder = told[0].split(": ")[1].split(" ")[0]
        try:
            info = os.lstat(folder)
            check(info.st_uid == os.getuid() and info.st_mode & 0o7777 == 0o700, f"{folder}: {info}")
            wait_for(lambda: os.path.exists(f"{folder}/256.log") and open(f"{folder}/256.log").read() == "hello of 256\n", 10,
                     "the log of rank 256")
        finally:
            subprocess.run(["rm", "-rf", folder], check=True)
        a.write_control(level="leave_now", run=name)
        check(a.exit_code(limit=90) == 0, "left")
    finally:
        subprocess.run(["rm", "-rf", trap], check=True)


def squatted_ports(_allocation):
    """every port and name that an attempt may want is taken: the kernel's choice will do"""
    if os.geteuid() != 0:
        print("a network of its own needs root: not tried")
        return
    # A network of its own: here we are the stranger, not on the machine's ports.
    done = subprocess.run(["unshare", "--net", sys.executable, os.path.abspath(__file__), "squatted_here"], text=True,
                          capture_output=True, timeout=120)
    check(done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:])


SQUATTER = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
def take(family, kind, address):
    taken.append(socket.socket(family, kind))
    taken[-1].bind(address)
for port in range(int(sys.argv[1]), min(int(sys.argv[2]), 32768)):
    take(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", port))
    take(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", port))
    take(socket.AF_UNIX, socket.SOCK_STREAM, f"\\0stoker-port-{port}")
print("taken", flush=True)
sys.stdin.read()
"""


PORT_LINE = re.compile(rb"^\[n01:0\] port (\d+)\n", re.MULTILINE)


def squatted_here(allocation):
    """an attempt starts where strangers hold ports 20000-32767, their locks and the old names of the locks"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x49))  # SIOCSIFFLAGS: UP, LOOPBACK, RUNNING
    squatters = [subprocess.Popen([sys.executable, "-c", SQUATTER, str(first), str(first + 400)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) for first in range(20000, 32768, 400)]
    for squatter in squatters:  # each ends with our end of its stdin
        check(squatter.stdout.readline() == "taken\n", "a squatter has its ports")
    a = allocation()
    a.script("print('port', os.environ['MASTER_PORT'], flush=True)\n" + STEPS)
    a.start()
    a.wait_event("phase", 30, phase="iteration")  # from the heartbeat page, which may be faster than the log
    port = int(wait_for(lambda: PORT_LINE.search(a.logged()), 30, "the rank's port in main.log").group(1))
    check(not 20000 <= port < 32768, f"port {port}")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    site = Site()  # with the embedded scheduler, which leases ports too
    try:
        site.start_daemon()
        site.stoker("run", site.write_files(site.prepare_data()), "--yes")
        site.wait_iteration(3, 60)
    except SiteFailed as failure:
        check(False, failure)
    finally:
        site.close()


run_cases([squatted_here] if "squatted_here" in sys.argv else [far_logs, squatted_ports])
