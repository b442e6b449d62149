"""deploy/stokerd@.service without systemd: stokerd keeps a run alive under a seccomp filter of the
unit's own list, without new privileges, without memory that becomes executable, and with the unit's
families of sockets."""
import ctypes
import errno
import os
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from e2e._harness import BIN, check, main, skip

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
UNIT = os.path.join(ROOT, "deploy", "stokerd@.service")
NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_MDWE = 38, 22, 65
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
X86_64 = 0xC000003E
NO_FILTER = 99  # exit status
TRAINING = """
i=0
while true; do
  i=$((i+1)); echo "step=$i loss=1.5"; sleep 0.05
done
"""


def setting(name):
    with open(UNIT, encoding="utf-8") as file:
        return re.findall(rf"^{name}=(.*)$", file.read(), re.M)


def members(group):
    """The system calls of a group, as systemd has them; groups in it are resolved."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True,
                          capture_output=True, text=True).stdout
    found = set()
    for word in (line.strip() for line in text.split("\n")):
        if word.startswith("@") and word != group:
            found |= members(word)
        elif re.fullmatch(r"[a-z0-9_]+", word):
            found.add(word)
    return found


def allowed():
    """The lines of SystemCallFilter= in their order."""
    names = set()
    for line in setting("SystemCallFilter"):
        for word in line.lstrip("~").split():
            these = members(word) if word.startswith("@") else {word}
            names = names - these if line.startswith("~") else names | these
    return names


def program(names, families):
    """The filter in the kernel's form: the calls of these names, sockets of these families."""
    with open(NUMBERS, encoding="ascii") as file:
        numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", file.read()))

    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)
    out = [step(LOAD, 0, 0, 4), step(EQUAL, 1, 0, X86_64), step(RETURN, 0, 0, KILL),
           step(LOAD, 0, 0, 0)]
    for name in sorted(names - {"socket"}):
        if name in numbers:
            out += [step(EQUAL, 0, 1, int(numbers[name])), step(RETURN, 0, 0, ALLOW)]
    out += [step(EQUAL, 1, 0, int(numbers["socket"])), step(RETURN, 0, 0, REFUSE | errno.EPERM),
            step(LOAD, 0, 0, 16)]
    for family in families:
        out += [step(EQUAL, 0, 1, family), step(RETURN, 0, 0, ALLOW)]
    return b"".join([*out, step(RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT)])


def confine():
    """This process and all that it starts."""
    families = setting("RestrictAddressFamilies")[0].split()
    code = program(allowed(), [getattr(socket, name) for name in families])
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(code, len(code))
    rule = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept))
    libc.prctl(PR_SET_MDWE, 1, 0, 0, 0)  # kernels before 6.3 have none
    for action, value in ((PR_SET_NO_NEW_PRIVS, 1), (PR_SET_SECCOMP, 2)):
        kept_rule = ctypes.create_string_buffer(rule) if action == PR_SET_SECCOMP else 0
        if libc.prctl(action, value, kept_rule, 0, 0) != 0:
            print(f"this kernel takes no seccomp filter: {os.strerror(ctypes.get_errno())}")
            sys.exit(NO_FILTER)


def inside(*argv):
    return [sys.executable, os.path.abspath(__file__), "--inside", *argv]


FORBIDDEN = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
print(libc.mount(b"x", b"/", b"tmpfs", 0, None), ctypes.get_errno())
print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError as error:
    print(error.errno)
socket.socket().close()
"""


def the_filter_bites(_site):
    said = subprocess.run(inside(sys.executable, "-c", FORBIDDEN), capture_output=True, text=True,
                          timeout=60)
    refused = ["-1", str(errno.EPERM), "-1", str(errno.EPERM), str(errno.EAFNOSUPPORT)]
    check(said.stdout.split() == refused, f"the unit forbids this: {said.stdout}{said.stderr}")


def a_run_lives_in_it(site):
    site.daemon = subprocess.Popen(inside(os.path.join(BIN, "stokerd"), "--state", site.state),
                                   env=site.env, stdin=subprocess.DEVNULL, stdout=site.log,
                                   stderr=site.log, start_new_session=True)
    socket_file = os.path.join(site.state, "stokerd.sock")
    site.wait(lambda: os.path.exists(socket_file)
              and site.stoker("status", ok=False).returncode == 0, 30, "the daemon's socket")
    with open(f"/proc/{site.daemon.pid}/status", encoding="ascii", errors="replace") as file:
        words = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    check(words["Seccomp"] == "2" and words["NoNewPrivs"] == "1",
          f"the daemon is not confined: {words}")
    script = os.path.join(site.folder, "train.sh")
    with open(script, "w", encoding="ascii") as file:
        file.write(TRAINING)
    config = os.path.join(site.folder, "run.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"run: {site.run}\ndirectory: {site.directory}\n"
                   "scheduler: {kind: local, nodes: 1, time_limit: 1h,\n"
                   "            array: {tasks: 3, top_up_below: 1}}\n"
                   f"train: {{command: [/bin/sh, {script}], ranks_per_node: 2,\n"
                   "        exit_before_limit: 4s}\n"
                   "watch: {progress: {iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}\n")
    site.stoker("run", config, "--yes")
    site.wait_iteration(5, 60)
    os.kill(site.ranks()[1], signal.SIGKILL)
    site.wait(lambda: site.status().get("restarts") == 1
              and site.status().get("state") == "training", 60, "the restart")
    site.stoker("why", site.run)
    site.stoker("stop", site.run, "--now", "--reason", "seen enough")
    site.wait_state("stopped", 60)
    site.audit()


if sys.argv[1:2] == ["--inside"]:
    confine()
    os.execv(sys.argv[2], sys.argv[2:])
if platform.machine() != "x86_64":
    skip("the seccomp filter is written for x86-64")
if not shutil.which("systemd-analyze"):
    skip("systemd-analyze, which knows the groups of system calls, is not here")
probe = subprocess.run(inside("/bin/true"), capture_output=True, text=True, check=False)
if probe.returncode == NO_FILTER:
    skip(probe.stdout.strip())
main(the_filter_bites, a_run_lives_in_it)
