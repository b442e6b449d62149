"""What every user of a host can take or use up: the page's port while the daemon is away, all ports, process ids, the page's
connections. Runs are supervised all the same, none is held, and no node is accused. In a network of its own, as root."""
import contextlib
import fcntl
import grp
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from _harness import check, main, skip
from _users import GROUP, MATE, OWNER, STRANGER, SharedSite, make_users, remove_users

PAGE = "127.0.0.1:9470"

# Takes a port as soon as it is free.
THIEF = """
import socket, sys, time
print("here", flush=True)
while True:
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("127.0.0.1", int(sys.argv[1])))
        s.listen(1)
        break
    except OSError:
        s.close()
        time.sleep(0.02)
time.sleep(1000)
"""

# Ports FIRST to LAST of one kind on 127.0.0.1, and again what becomes free.
SQUATTER = """
import resource, socket, sys, time
first, last, kind = int(sys.argv[1]), int(sys.argv[2]), socket.SOCK_DGRAM if sys.argv[3] == "udp" else socket.SOCK_STREAM
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
taken = {}
def take():
    for port in range(first, last):
        if port in taken:
            continue
        s = socket.socket(socket.AF_INET, kind)
        try:
            s.bind(("127.0.0.1", port))
            taken[port] = s
        except OSError:
            s.close()
take()
print("here", flush=True)
while True:
    take()
    time.sleep(0.05)
"""

# Forks until it cannot, for so many seconds, and whenever it can again.
FORKER = """
import os, sys, time
print("here", flush=True)
end, children = time.time() + float(sys.argv[1]), []
while time.time() < end:
    try:
        child = os.fork()
        if child == 0:
            time.sleep(max(0, end - time.time()))
            os._exit(0)
        children.append(child)
    except OSError:
        time.sleep(0.001)
for child in children:
    os.waitpid(child, 0)
"""

# Many connections that say the beginning of a TLS hello, or one byte; ended ones come again at once.
CROWD = """
import resource, select, socket, sys
where, words, count = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))
poll, peers = select.epoll(), {}
def come():
    s = socket.socket(socket.AF_UNIX if "/" in where else socket.AF_INET)
    s.setblocking(False)
    try:
        s.connect(where if "/" in where else ("127.0.0.1", int(where)))
    except BlockingIOError:
        if "/" in where:
            return s.close()
    except OSError:
        return s.close()
    peers[s.fileno()] = s
    poll.register(s.fileno(), select.EPOLLOUT | select.EPOLLIN | select.EPOLLHUP | select.EPOLLRDHUP)
print("here", flush=True)
while True:
    for _ in range(200):
        if len(peers) < count:
            come()
    for fd, event in poll.poll(0.01, 512):
        s = peers[fd]
        if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP):
            poll.unregister(fd)
            peers.pop(fd).close()
            continue
        try:
            s.send(words)
        except OSError:
            pass
        poll.modify(fd, select.EPOLLIN | select.EPOLLHUP | select.EPOLLRDHUP)
"""


def kill_a_rank(site):
    """One that is no guardian."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            if site.script.encode() in words and b"guardian" not in words:
                return os.kill(int(pid), signal.SIGKILL)
    check(False, "no rank lives")


def a_page_without_a_port(site):
    """The page's port is taken while the daemon is away: the next daemon supervises, says so, and has its page later."""
    site.start("--listen", PAGE)
    thief = site.background(STRANGER, THIEF, PAGE.rpartition(":")[2])
    site.kill_daemon()
    site.wait(lambda: socket.socket().connect_ex(("127.0.0.1", 9470)) == 0, 10, "the thief's port")
    site.start_daemon("--listen", PAGE)
    check("there is no page: " in site.tail_of_log() and f"by {STRANGER}" in site.tail_of_log(), site.tail_of_log())
    reached = site.status()["iteration"]
    site.wait_iteration(reached + 20)
    thief.kill()
    thief.wait()
    site.wait(lambda: "the page is on " + PAGE in site.tail_of_log(), 30, "the page")


def squat(site, kind):
    hard = int(subprocess.run(["bash", "-c", "ulimit -Hn"], capture_output=True, text=True, check=True).stdout)
    step = min(60000, hard - 100)
    return [site.background(STRANGER, SQUATTER, str(first), str(min(first + step, 65536)), kind) for first in range(1024, 65536, step)]


def every_lock(site):
    """All UDP ports of loopback, which agents use as locks, are a stranger's: a killed rank comes again all the same."""
    site.start()
    squat(site, "udp")
    kill_a_rank(site)
    site.wait(lambda: site.status().get("attempt", 0) >= 2 and site.status()["state"] == "training", 40, "the second attempt")


def every_port(site):
    """All TCP ports are a stranger's: the run waits with its job, says why, and goes on when they are free."""
    site.start()
    job = site.status()["job"]
    squatters = squat(site, "tcp")
    kill_a_rank(site)
    site.wait(lambda: any(a["kind"] == "machine_short" for a in site.status().get("alerts", [])), 30, "the alert")
    time.sleep(30)  # four failures in a row took 22 s before: what must not happen has an end of its own, below
    state = site.status()
    check(state["state"] != "held" and state["job"] == job, f"{state['state']}: {state['reason']}")
    for one in squatters:
        one.kill()
        one.wait()
    site.wait(lambda: site.status()["state"] == "training" and site.status()["job"] == job, 40, "the training")
    check(not site.status().get("alerts"), f"{site.status()['alerts']}")


def cgroup_of_pids():
    """A new cgroup that can limit process ids."""
    for base in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if not os.path.exists(base + "/cgroup.procs"):
            continue
        folder = f"{base}/stoker-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(folder)
        if os.path.exists(folder + "/pids.max"):
            return folder
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return None


def move_to(folder, pid):
    with open(folder + "/cgroup.procs", "w", encoding="ascii") as f:
        f.write(str(pid))


def no_process_ids(site):
    """A stranger has all process ids: a killed rank waits for one, no node is accused, no run held."""
    group = cgroup_of_pids()
    if group is None:
        print("process ids: not tried, there is no cgroup that limits them")
        return
    seconds = 100 if os.environ.get("STOKER_LONG") else 25
    move_to(group, os.getpid())
    try:
        site.start()
        with open(group + "/pids.current", encoding="ascii") as f:
            now = int(f.read())
        with open(group + "/pids.max", "w", encoding="ascii") as f:
            f.write(str(now + 150))
        site.background(STRANGER, FORKER, str(seconds))
        move_to(os.path.dirname(group), os.getpid())  # we ask by programs of our own
        time.sleep(3)
        kill_a_rank(site)
        site.wait(lambda: any(a["kind"] == "machine_short" for a in site.status().get("alerts", [])), seconds, "the alert")
        site.wait(lambda: site.status()["state"] == "training" and site.status()["attempt"] >= 2, seconds + 60, "the training")
        told = str(site.events())
        check("exit code 127" not in told and "is excluded" not in told, told[-3000:])
    finally:
        with open(group + "/pids.max", "w", encoding="ascii") as f:
            f.write("max")
        move_to(os.path.dirname(group), os.getpid())
        site.close()
        with contextlib.suppress(OSError):
            os.rmdir(group)


def ask(site, *where):
    done = site.as_user(OWNER, "/usr/bin/curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", "--max-time", "40", *where)
    return done.stdout


def page_flooded(site):
    """A stranger's crowd at the TLS page, a colleague's at the page's socket: the owner gets his answers."""
    if not shutil.which("curl"):
        print("the page's crowds: not tried, there is no curl")
        return
    cert, key = site.folder + "/page.pem", site.folder + "/page.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    for path, mode in ((cert, 0o644), (key, 0o600)):
        os.chmod(path, mode)
        os.chown(path, *site.ids(OWNER))
    site.start("--listen", PAGE, "--tls-cert", cert, "--tls-key", key)
    with open(site.state + "/http-token", encoding="ascii") as f:
        token = f.read().strip()
    crowd = site.background(STRANGER, CROWD, PAGE.rpartition(":")[2], "16030102000100", "100")
    time.sleep(3)
    for turn in range(5):
        said = ask(site, "-H", "Authorization: Bearer " + token, f"https://localhost:{PAGE.rpartition(':')[2]}/healthz")
        check(said == "200", f"TLS, question {turn + 1}: {said!r}")
    crowd.kill()
    crowd.wait()
    site.kill_daemon()
    door = site.folder + "/door"
    os.mkdir(door)
    os.chown(door, site.ids(OWNER)[0], grp.getgrnam(GROUP).gr_gid)
    os.chmod(door, 0o2750)
    site.start_daemon("--listen", door + "/page.sock")
    site.background(MATE, CROWD, door + "/page.sock", "47", "2000")
    time.sleep(3)
    answers = [ask(site, "--unix-socket", door + "/page.sock", "http://localhost/healthz") for _ in range(20)]
    check(answers.count("200") >= 10, f"by the socket: {answers}")


def in_a_network_of_its_own():
    if os.environ.get("STOKER_OWN_NETWORK"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x49))  # SIOCSIFFLAGS: UP, LOOPBACK, RUNNING
        return
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        skip("a network of its own needs root")
    os.environ["STOKER_OWN_NETWORK"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])


in_a_network_of_its_own()
make_users()
try:
    main(a_page_without_a_port, every_lock, every_port, no_process_ids, page_flooded, site_of=SharedSite)
finally:
    remove_users()
    sys.stdout.flush()
