"""Three users of one login node, made by root for one test and removed after it: the owner of a run, a colleague of its group,
a stranger. SharedSite runs all of stoker's programs as the owner."""
import atexit
import grp
import json
import os
import pwd
import shutil
import subprocess

from e2e._harness import BIN, Failed, Site, check, on_any_disk, skip

TAG = f"stk{os.getpid() % 100000}"
OWNER, MATE, STRANGER, GROUP = TAG + "own", TAG + "mate", TAG + "else", TAG + "run"
SECRET = "s3cr3t-" + TAG

TRAINING = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
i = 0
while True:
    i += 1
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
"""
RUN = """\
run: {run}
directory: {directory}
group: {group}
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 3, top_up_below: 1}}}}
train:
  command: [{command}]
  ranks_per_node: 1
  finished: exit_zero
  exit_before_limit: 4s
  environment: {{HF_TOKEN: {secret}}}
watch: {{progress: {{iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}}}
alerts: {{sinks: {{chat: {{kind: webhook, url: "http://127.0.0.1:9/{secret}"}}}}, routes: [{{severity: critical, to: [chat]}}]}}
"""
# Talks to the control socket as its user: one answer a request, as a JSON list.
KNOCK = """
import json, socket, sys
out = []
for request in json.load(sys.stdin):
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(sys.argv[1])
            s.sendall(json.dumps(request).encode() + b"\\n")
            text = b""
            while not text.endswith(b"\\n"):
                more = s.recv(65536)
                if not more:
                    break
                text += more
            out.append(json.loads(text))
    except OSError as error:
        out.append({"ok": False, "message": str(error), "barred": True})
print(json.dumps(out))
"""


def remove_users(tag=TAG):
    for end in ("own", "mate", "else"):
        subprocess.run(["userdel", "-f", tag + end], capture_output=True, check=False)
    subprocess.run(["groupdel", tag + "run"], capture_output=True, check=False)


def begin_of(pid):
    """When a process began, in the kernel's ticks; None where it is no more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def remove_left_users():
    """Those of tests that were killed: each user's comment names the process that made it."""
    for entry in pwd.getpwall():
        words = entry.pw_gecos.split()
        if words[:2] == ["stoker", "test"] and len(words) == 4 and entry.pw_name.endswith("own") and begin_of(words[2]) != words[3]:
            remove_users(entry.pw_name.removesuffix("own"))


def make_users():
    if os.geteuid() != 0 or not shutil.which("useradd"):
        skip("three users need root and useradd")
    remove_left_users()
    atexit.register(remove_users)
    subprocess.run(["groupadd", GROUP], check=True)
    comment = f"stoker test {os.getpid()} {begin_of(os.getpid())}"
    for user, groups in ((OWNER, GROUP), (MATE, GROUP), (STRANGER, "")):
        subprocess.run(["useradd", "-M", "-U", "-c", comment, "-G", groups, "-s", "/bin/sh", user], check=True, capture_output=True)


class SharedSite(Site):
    """The owner's daemon and run; every program of the site runs as the owner."""
    umask = 0o022  # of all users

    def __init__(self):
        super().__init__("shared")
        self.bin = os.path.join(self.folder, "bin")  # the build's own folder may be closed to others
        os.mkdir(self.bin)
        for program in ("stoker", "stokerd", "stoker-agent"):
            shutil.copy(os.path.join(BIN, program), self.bin)
        for path in (self.folder, self.bin, self.state):
            os.chmod(path, 0o755)
            os.chown(path, *self.ids(OWNER))
        self.env.update(PATH=self.bin + ":/usr/bin:/bin:/usr/sbin", HOME=self.folder, USER=OWNER)
        self.script = os.path.join(self.folder, "train.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(TRAINING)
        os.chmod(self.script, 0o755)
        self.crowds = []

    @staticmethod
    def ids(user):
        entry = pwd.getpwnam(user)
        return entry.pw_uid, entry.pw_gid

    def become(self, user):
        """Arguments of subprocess that make a program this user's."""
        uid, gid = self.ids(user)
        return dict(user=uid, group=gid, extra_groups=os.getgrouplist(user, gid), umask=self.umask,
                    env=dict(self.env, USER=user), cwd="/")

    def as_user(self, user, *argv, text=None, ok=False):
        done = subprocess.run([*map(str, argv)], **self.become(user), input=text, text=True, capture_output=True, timeout=90,
                              errors="replace")
        if ok and done.returncode != 0:
            raise Failed(f"{user}: {argv}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def stoker(self, *argv, ok=True):
        return self.as_user(OWNER, os.path.join(self.bin, "stoker"), "--state", self.state, *argv, ok=ok)

    def stoker_of(self, user, *argv):
        return self.as_user(user, os.path.join(self.bin, "stoker"), "--state", self.state, *argv)

    def socket_file(self):
        try:
            info = os.lstat(os.path.join(self.state, "stokerd.sock"))
        except OSError:
            return None
        return info.st_ino, info.st_ctime_ns

    def start_daemon(self, *arguments):
        before = self.socket_file()  # of a killed daemon, say
        self.daemon = subprocess.Popen([os.path.join(self.bin, "stokerd"), "--state", self.state, *arguments],
                                       **self.become(OWNER), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                       start_new_session=True)
        self.wait(lambda: self.socket_file() not in (None, before), 20, "the daemon's socket")
        self.wait(lambda: self.knock(OWNER, {"verb": "ping"})[0]["ok"], 20, "the daemon's answer")

    def config(self, command=None):
        path = os.path.join(self.folder, self.run + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(on_any_disk(RUN.format(run=self.run, directory=self.directory, group=GROUP, secret=SECRET,
                                           command=command or f"/usr/bin/python3, {self.script}")))
        os.chmod(path, 0o600)
        os.chown(path, *self.ids(OWNER))
        return path

    def start(self, *arguments):
        self.start_daemon(*arguments)
        self.stoker("run", self.config(), "--yes")
        self.wait_iteration(5)
        gid = grp.getgrnam(GROUP).gr_gid
        self.wait(lambda: os.stat(os.path.join(self.state, "stokerd.sock")).st_gid == gid, 10, "the socket's group")

    def knock(self, user, *requests, uid=None):
        """Answers of the control socket; with `uid` as that one, with the run's group and the groups that `user` has."""
        them = dict(self.become(user), **({} if uid is None else {"user": uid, "group": grp.getgrnam(GROUP).gr_gid}))
        done = subprocess.run(["/usr/bin/python3", "-c", KNOCK, os.path.join(self.state, "stokerd.sock")], **them, timeout=90,
                              input=json.dumps(requests), text=True, capture_output=True)
        check(done.returncode == 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def background(self, user, code, *argv):
        crowd = subprocess.Popen(["/usr/bin/python3", "-c", code, *argv], **self.become(user), stdout=subprocess.PIPE, text=True)
        self.crowds.append(crowd)
        check(crowd.stdout.readline() == "here\n", "the attacker did not start")
        return crowd

    def marks(self):
        return [n for n in os.listdir(self.folder) if n.startswith("owned")]

    def close(self):
        for crowd in self.crowds:
            crowd.kill()
            crowd.wait()
        super().close()
