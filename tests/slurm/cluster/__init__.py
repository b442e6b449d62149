"""A real SLURM for one test: slurmctld, a slurmd for each node (eight) and munged on loopback, all under one temporary folder.
`Cluster(accounting=True)` also has slurmdbd and a MariaDB; `Cluster(rest=True)` a slurmrestd on loopback, which wants a token,
and one on a socket of the user's own.

    with Cluster() as cluster:
        cluster.run("sinfo")                     # as the cluster's ordinary user
        cluster.kill_node("n03"); cluster.revive("n03")

The daemons run as root, commands and jobs as a user made for this cluster. Nothing survives: a janitor process holds the
other end of a pipe and, when it closes (end of the `with`, or kill -9 of the test), kills every process that belongs to the
folder, removes the user and the folder. Several clusters run side by side: ports, munge key, socket and job ids are their own.
"""
import contextlib
import fcntl
import glob
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from slurm.cluster.janitor import USERS
from slurm.cluster.rest import Rest
from slurm.cluster.users import free_user_id

SLURM_CONF = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={cred_expire}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
{accounting}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters={scheduler_parameters}
ReturnToService={return_to_service}
SlurmctldTimeout=60
SlurmdTimeout={slurmd_timeout}
KillWait=5
UnkillableStepTimeout=20
MinJobAge={min_job_age}
FirstJobId={first_job}
SlurmdParameters=config_overrides
{more}
NodeName=n[01-{last}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] CPUs={cpus} RealMemory=1000
PartitionName=main Nodes=n[01-{last}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:4
PartitionName=service Nodes=n[01-{last}] MaxTime=INFINITE State=UP OverSubscribe=YES:8
"""
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge/socket
{keep_comments}"""
KEEP_COMMENTS = ["AccountingStoreJobComment=YES", "AccountingStoreFlags=job_comment"]
SLURMDBD_CONF = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=stoker
StorageLoc=slurm_acct_db
"""
NODES = [f"n{i:02}" for i in range(1, 9)]
JANITOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "janitor.py")


class Unavailable(Exception):
    """SLURM or root is missing here."""


def why_not(accounting=False, rest=False):
    """Why no cluster can run here; "" when it can."""
    if os.geteuid() != 0:
        return "the daemons of a test cluster run as root"
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    needed = ["slurmctld", "slurmd", "munged", "mungekey", "sbatch", "useradd"]
    needed += ["slurmdbd", "mariadbd", "mariadb-install-db", "mariadb", "sacct"] if accounting else []
    needed += ["slurmrestd"] if rest else []
    missing = [p for p in needed if not shutil.which(p, path=search)]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def locked(path):
    """One process at a time on this machine; in a folder of root's, where no other user can put a link or a FIFO."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free_ports(count):
    """The first of `count` neighbouring free ports, below the range of outgoing connections."""
    for _ in range(200):
        first = random.randrange(10240, 32000 - count)
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
    raise RuntimeError("no free ports")


class Cluster(Rest):
    def __init__(self, slurmd_timeout=15, min_job_age=300, more="", scheduler_parameters="sched_interval=5,bf_interval=5",
                 keep=False, accounting=False, return_to_service=2, cred_expire=120, cpus=4, rest=False, nodes=8):
        reason = why_not(accounting, rest)
        if reason:
            raise Unavailable(reason)
        self.folder = tempfile.mkdtemp(prefix="stoker-slurm-")
        os.chmod(self.folder, 0o755)
        self.name = "test" + secrets.token_hex(3)
        self.user = "stoker" + secrets.token_hex(3)
        self.keep = keep or bool(os.environ.get("STOKER_KEEP"))
        self.options = dict(slurmd_timeout=slurmd_timeout, min_job_age=min_job_age, more=more, scheduler_parameters=scheduler_parameters,
                            first_job=random.randrange(1000, 60_000_000), return_to_service=return_to_service, cred_expire=cred_expire, cpus=cpus)
        self.accounting, self.rest = accounting, rest
        self.nodes = [f"n{i:02}" for i in range(1, nodes + 1)]
        self.conf = os.path.join(self.folder, "slurm.conf")
        self.munge_socket = os.path.join(self.folder, "munge", "socket")
        self.daemons = {}
        self.janitor = None

    # ---- life
    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def start(self):
        command = [sys.executable, JANITOR, self.folder, self.user] + (["--keep"] if self.keep else [])
        self.janitor = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self.make_user()
        self.write_files()
        self.start_munge()
        if self.accounting:
            self.start_database()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        if self.rest:
            self.start_rest()
        self.wait(lambda: self.idle_nodes() == len(self.nodes), 60, "all nodes idle")
        return self

    def close(self):
        if self.janitor:
            self.janitor.stdin.close()
            self.janitor.wait(timeout=60)
            self.janitor = None
        elif os.path.isdir(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    def make_user(self):
        self.home = os.path.join(self.folder, "home")
        with locked(USERS):
            subprocess.run(["useradd", "-M", "-U", "-u", str(free_user_id()), "-d", self.home, "-s", "/bin/bash", self.user], check=True,
                           env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
        entry = pwd.getpwnam(self.user)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        self.scratch = os.path.join(self.folder, "shared")
        for path in (self.home, self.scratch):
            os.mkdir(path)
            os.chown(path, self.uid, self.gid)

    def write_files(self):
        for name, mode in (("state", 0o755), ("spool", 0o755), ("run", 0o755), ("log", 0o755), ("munge", 0o755)):
            os.mkdir(os.path.join(self.folder, name), mode)
        self.controller_port = free_ports(len(self.nodes) + 4)
        if self.rest:
            self.make_rest_key()
        ports = dict(port=self.port(1), database_port=self.port(2))
        accounting = ACCOUNTING.format(folder=self.folder, keep_comments=KEEP_COMMENTS[self.version() >= (21, 8)], **ports) if self.accounting else "AccountingStorageType=accounting_storage/none"
        path = os.path.join(self.folder, "slurmdbd.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(SLURMDBD_CONF.format(folder=self.folder, **ports))
        os.chmod(path, 0o600)
        if self.version() >= (23, 11):  # daemons without systemd and without control groups of their own
            with open(os.path.join(self.folder, "cgroup.conf"), "w", encoding="utf-8") as f:
                f.write("CgroupPlugin=disabled\n")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(SLURM_CONF.format(name=self.name, folder=self.folder, controller_port=self.controller_port,
                                      accounting=accounting, first_port=self.controller_port + 1,
                                      last_port=self.port(0), last=self.nodes[-1][1:], **self.options))

    def port(self, beyond):
        """0: the last node's; 1: slurmdbd's; 2: MariaDB's; 3: slurmrestd's (the nodes' are behind the controller's)."""
        return self.controller_port + len(self.nodes) + beyond

    def version(self):
        """(22, 5) of the SLURM that is here."""
        said = subprocess.run(["slurmctld", "-V"], env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}, text=True, capture_output=True).stdout
        return tuple(int(n) for n in said.split()[-1].split(".")[:2])

    def root_environment(self):
        return {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "SLURM_CONF": self.conf, "LC_ALL": "C"}

    def start_daemon(self, name, argv, **environment):
        log = open(os.path.join(self.folder, "log", name + ".out"), "ab")
        self.daemons[name] = subprocess.Popen(argv, env={**self.root_environment(), **environment}, stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder)
        log.close()

    def start_munge(self):
        folder = os.path.join(self.folder, "munge")
        key = os.path.join(folder, "key")
        if not os.path.exists(key):
            subprocess.run(["mungekey", "--create", "--keyfile", key], check=True, env=self.root_environment())
        self.start_daemon("munged", ["munged", "--foreground", "--force", "--key-file", key, "--socket", self.munge_socket,
                                     "--pid-file", folder + "/pid", "--seed-file", folder + "/seed"])
        self.wait(lambda: subprocess.run(["munge", "-n", "-S", self.munge_socket], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL).returncode == 0, 20, "munged")

    def start_database(self):
        """MariaDB and slurmdbd in this folder, root's, on loopback; the cluster and its user are known to them."""
        data, port = os.path.join(self.folder, "database"), self.port(2)
        socket_path = os.path.join(self.folder, "database.sock")
        self.run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--auth-root-authentication-method=normal",
                 "--skip-test-db", "--force", root=True)  # also where the host's own name cannot be looked up
        self.start_daemon("mariadbd", ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket_path}", f"--port={port}",
                                       "--bind-address=127.0.0.1", f"--pid-file={self.folder}/run/mariadb.pid", "--innodb-buffer-pool-size=32M",
                                       "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
                                       "--performance-schema=0", "--skip-log-bin"])
        admin = ["mariadb", "--no-defaults", f"--socket={socket_path}", "-u", "root", "-e"]
        self.wait(lambda: self.run(*admin, "SELECT 1", root=True, ok=False).returncode == 0, 60, "MariaDB")
        self.run(*admin, "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'stoker'; GRANT ALL ON *.* TO slurm@'127.0.0.1'; "
                 "CREATE USER slurm@localhost IDENTIFIED BY 'stoker'; GRANT ALL ON *.* TO slurm@localhost; CREATE DATABASE slurm_acct_db", root=True)
        # slurmdbd looks for its configuration beside slurm.conf
        self.start_daemon("slurmdbd", ["slurmdbd", "-D"])
        self.wait(lambda: self.run("sacctmgr", "-i", "add", "cluster", self.name, root=True, ok=False).returncode == 0, 60, "slurmdbd")
        self.run("sacctmgr", "-i", "add", "account", "physics", "Description=none", "Organization=none", root=True)
        self.run("sacctmgr", "-i", "add", "user", self.user, "Account=physics", root=True)

    def start_controller(self, clean=False):
        self.start_daemon("slurmctld", ["slurmctld", "-D", "-f", self.conf] + (["-c"] if clean else []))
        self.wait(lambda: self.run("scontrol", "ping", ok=False).stdout.find("is UP") >= 0, 60, "slurmctld")

    def start_node(self, node):
        self.start_daemon(node, ["slurmd", "-D", "-N", node, "-f", self.conf])

    # ---- commands, as the cluster's user
    def environment(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": self.home, "USER": self.user, "LOGNAME": self.user, "LC_ALL": "C.UTF-8",
                "SLURM_CONF": self.conf, **more}

    def popen(self, argv, env=None, **options):
        return subprocess.Popen(argv, env=env or self.environment(), user=self.uid, group=self.gid, extra_groups=[],
                                stdin=subprocess.DEVNULL, cwd=options.pop("cwd", self.scratch), **options)

    def run(self, *argv, ok=True, root=False, env=None, limit=120):
        """Runs a command as the cluster's user (or root); anything but exit 0 is an error unless allowed."""
        who = {} if root else dict(user=self.uid, group=self.gid, extra_groups=[])
        done = subprocess.run([str(a) for a in argv], env=env or (self.root_environment() if root else self.environment()),
                              cwd=self.scratch, stdin=subprocess.DEVNULL, text=True, errors="replace", capture_output=True,
                              timeout=limit, **who)
        if ok and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def idle_nodes(self):
        done = self.run("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D", ok=False)
        return sum(int(n) for n in done.stdout.split() if n.isdigit()) if done.returncode == 0 else 0

    def node_state(self, node):
        return self.run("sinfo", "-h", "-p", "main", "-n", node, "-o", "%T").stdout.strip()

    def jobs(self, *options):
        """[(id, task, state, reason, name)] of every job that the controller knows; further lines of a name are no jobs."""
        done = self.run("squeue", "-a", "-h", "-r", "-t", "all", *options, "-o", "%F\x1f%K\x1f%T\x1f%r\x1f%j")
        return [tuple(line.split("\x1f")) for line in done.stdout.split("\n") if line.count("\x1f") >= 4]

    def live_jobs(self):
        return [j for j in self.jobs() if j[2] in ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")]

    # ---- faults
    def stop(self, name, how=signal.SIGKILL):
        """Ends one daemon: "slurmctld", "munged" or the slurmd of a node (network loss: its ranks live on)."""
        process = self.daemons.pop(name)
        process.send_signal(how)
        process.wait(timeout=60)

    def kill_node(self, node):
        """slurmd, its step daemons and every process of this node: the node is dead. All are stopped first: a process that saw another
        one's end would write it down, or report it to slurmctld, which a dead node does not. Children end before their parents: the
        kernel wakes the stopped members of a process group whose last parent ends (SIGHUP, SIGCONT), and srun would end its step."""
        if node in self.daemons:
            self.stop(node)
        for _ in range(20):
            left = stepds_of(self.folder, node) + processes_with(f"SLURMD_NODENAME={node}", self.folder)
            if not left:
                return
            for sent in (signal.SIGSTOP, signal.SIGKILL):
                for pid in reversed(left):  # step daemons, then their processes, each by its number
                    with contextlib.suppress(OSError):
                        os.kill(pid, sent)
            time.sleep(0.05)
        raise RuntimeError(f"processes of {node} cannot be killed: {left}")

    def revive(self, node):
        shutil.rmtree(os.path.join(self.folder, "spool", node), ignore_errors=True)
        self.start_node(node)

    # ---- waiting
    def wait(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            for name, process in self.daemons.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}\n{self.tail(name)}")
            time.sleep(0.1)
        raise RuntimeError(f"waited {seconds}s for {what}\n{self.tail('slurmctld')}")

    def tail(self, name, lines=15):
        text = ""
        for path in glob.glob(os.path.join(self.folder, "log", name + ".*")):
            with open(path, errors="replace") as f:
                text += f"--- {os.path.basename(path)}\n" + "".join(f.readlines()[-lines:])
        return text


def environment_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
        return f.read()
    return b""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processes_with(setting, folder):
    """Pids whose environment has this NAME=VALUE and speaks of this cluster's folder."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        text = b"\0" + environment_of(pid) + b"\0"
        if b"\0" + setting.encode() + b"\0" in text and folder.encode() in text and pid != os.getpid() and is_alive(pid):
            found.append(pid)
    return found


def stepds_of(folder, node):
    """Pids of the slurmstepd of a node: its spool folder or its log is an open file or the working directory."""
    spool, log = os.path.join(folder, "spool", node), os.path.join(folder, "log", node + ".log")
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"slurmstepd" not in f.read():
                    continue
            links = [os.readlink(f"/proc/{pid}/cwd")]
            links += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if any(link in (spool, log) or link.startswith(spool + "/") for link in links) and is_alive(pid):
            found.append(pid)
    return found
