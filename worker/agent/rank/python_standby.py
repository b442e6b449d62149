"""Warm standby of a Python rank (train.preload): imports modules, says that it is ready, waits for its order, and then runs the
script or module of the rank's command as the interpreter itself would. Protocol: wire/standby.hpp. stoker-agent starts it as

    python [its options] python_standby.py MODULES AT COMMAND...

where COMMAND is the rank's and its word AT is the script or -m. It opens no port. It holds no GPU, and ends where a module has taken
one, unless STOKER_PRELOAD_CUDA=1 (train.preload_cuda) allows that: then it initialises CUDA. Where a file of an imported module has
changed meanwhile, it executes the rank's command from the beginning instead.

It learns (train.preload_learned): the first rank of a node, which is run by this file too, writes the names of the installed modules
that its script has imported into the file STOKER_PRELOAD_LIST; standbys import these as well. A module that shows while it is imported
that a standby must not have it (it asks which rank this is, takes a GPU, opens a socket, starts a process) is struck off there as
"-NAME", and the standby begins again without it. Without STOKER_STANDBY_FD the command runs at once."""
import _thread
import builtins
import importlib
import importlib.machinery
import importlib.util
import json
import os
import runpy
import select
import signal
import stat
import sys
import time
import types

LIST_BYTES, LIST_NAMES = 256 << 10, 5000
BEGINNINGS = 5  # of one standby that meets modules it must not have; then it does without what was learned
LEARN_FOR_S = 1800  # of a rank's life
FIRST_FOR_S = 0.1  # that rank 0 has for itself at most
# What an order sets and a standby cannot know (tests/agent/preload_test.cpp compares it with the agent's).
OF_RANK = frozenset("""RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
    MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE
    SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_NTASKS_PER_NODE
    STOKER_ATTEMPT STOKER_STORE_PREFIX STOKER_HEARTBEAT STOKER_LOAD""".split())


def files():
    """Of all imported modules: path -> what shows a change."""
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path != __file__:
            try:
                entry = os.stat(path)
                found[path] = (entry.st_mtime_ns, entry.st_size, entry.st_ino)
            except OSError:
                found[path] = None
    return found


def search_path(command):
    """As the interpreter sets it: the folder of the script, or the working directory of -m."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return
    sys.path[0] = os.getcwd() if command[0] == "-m" else os.path.dirname(os.path.realpath(command[0]))


def links(descriptors="/proc/self/fd"):
    """What this process has open."""
    for name in os.listdir(descriptors):
        try:
            yield os.readlink(os.path.join(descriptors, name))
        except OSError:
            continue


def holds_gpu(descriptors="/proc/self/fd"):
    """Whether this process has opened a GPU, or torch has initialised CUDA. /dev/nvidiactl alone is no GPU: NVML opens it."""
    for path in links(descriptors):
        if path.removeprefix("/dev/nvidia")[:1].isdigit() or path == "/dev/nvidia-uvm":
            return True
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized()


def use_cuda():
    """The driver and torch's part of it; the context of a device, with its memory, begins where the script first uses the device."""
    if "torch" not in sys.modules:
        sys.exit("stoker: train.preload_cuda: none of the modules of train.preload has imported torch; add torch")
    sys.modules["torch"].cuda.init()


def is_name(text):
    return text.isascii() and len(text) <= 256 and all(part.isidentifier() for part in text.split("."))


def installed(path):
    """Below the interpreter's own library or a folder of installed packages: not the training's own files, which may do anything."""
    return isinstance(path, str) and (path.startswith(os.path.dirname(os.__file__) + os.sep) or
                                      not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep)))


def trusted(fd):
    """A regular file that is ours and that only we can write, and no longer than a list may be."""
    entry = os.fstat(fd)
    return (stat.S_ISREG(entry.st_mode) and entry.st_uid == os.geteuid() and not entry.st_mode & 0o022 and
            entry.st_size <= LIST_BYTES)


def append(path, text):
    """Opened each time: a script may close descriptors that it does not know. False: it cannot be or must not be written."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return trusted(fd) and os.fstat(fd).st_size + len(text) <= LIST_BYTES and os.write(fd, text.encode()) == len(text)
    finally:
        os.close(fd)


def read_list(path):
    """The names in the order of their import and those struck off; None: no list, or none that can be trusted."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not trusted(fd):
            return None
        *lines, _ = file.read(LIST_BYTES).decode("ascii", "replace").split("\n")
    if len(lines) > LIST_NAMES or not all(is_name(line.removeprefix("-")) for line in lines):
        return None
    refused = {line[1:] for line in lines if line.startswith("-")}
    return [line for line in lines if not line.startswith("-")], refused


class Order:
    """The order in which imports begin (sys.modules has that of their ends). It finds nothing itself."""

    def __init__(self):
        self.names = []

    def find_spec(self, name, path=None, target=None):
        if len(self.names) < 4 * LIST_NAMES:
            self.names.append(name)
        return None


def write_what_is_imported(path, order):
    """In a thread of a rank: adds what the script has imported, while attempts are young. A look costs microseconds."""
    try:
        found = read_list(path)
        began, known, count, at = time.monotonic(), set(found[0] if found else []), len(found[0] if found else []), 0
        while found and time.monotonic() - began < LEARN_FOR_S and count <= LIST_NAMES:
            time.sleep(min(max(0.2, (time.monotonic() - began) / 20), 30))
            names, at = finished_imports(order.names, at)
            names = [name for name in names if name not in known]
            if names and not append(path, "".join(name + "\n" for name in names)):
                break
            known.update(names)
            count += len(names)
    except Exception:  # a script may do anything to its modules: the worst that may come of this is a slower restart
        pass
    if order in sys.meta_path:
        sys.meta_path.remove(order)


def finished_imports(names, at):
    """The installed modules among names[at:], up to one that is being imported: what it imports comes behind it. And the next `at`."""
    finished = []
    for at in range(at, len(names)):
        module = sys.modules.get(names[at])
        if not isinstance(module, types.ModuleType) or isinstance(module, importlib.util._LazyModule):
            continue  # it failed, or was only looked for
        spec = object.__getattribute__(module, "__dict__").get("__spec__")  # a module's own __getattr__ may do anything
        place = getattr(spec, "origin", None)
        if not installed(place) or not is_name(names[at]):
            continue
        if getattr(spec, "_initializing", False):
            return finished, at
        finished.append(names[at])
    return finished, len(names)


class Watched(os._Environ):
    """The environment while a learned module is imported: `asked` becomes true where it asks for what only a rank has."""
    asked = False

    def __getitem__(self, key):
        if key in OF_RANK:
            Watched.asked = True
        return super().__getitem__(key)


def held():
    """What a standby must not have more of: sockets and child processes."""
    found = {path for path in links() if path.startswith("socket:")}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                found.update(file.read().split())
        except OSError:
            continue
    return found


def can_learn(name, seen={}):
    """Whether the package of this module is an installed one where we look for modules."""
    top = name.partition(".")[0]
    if top not in seen:
        try:
            spec = importlib.util.find_spec(top)
            places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
            seen[top] = bool(places) and all(installed(place) for place in places)
        except (AttributeError, ImportError, ValueError):
            seen[top] = False
    return seen[top]


class Learned:
    """The modules of the list, imported as far as a standby may have them."""

    def __init__(self, path, cuda, again):
        self.path, self.cuda, self.again, self.size, self.tried = path, cuda, again, -1, set()

    def grown(self):
        try:
            return bool(self.path) and os.stat(self.path).st_size != self.size
        except OSError:
            return False

    def take(self, stop=lambda: False):
        """Imports what is new in the list, until `stop`."""
        if not self.grown():
            return
        self.size = os.stat(self.path).st_size
        found = read_list(self.path)
        if found is None:
            print(f"stoker: train.preload_learned: {self.path} is not a list that we alone write: nothing is learned",
                  file=sys.stderr, flush=True)
            self.path = ""
            return
        names, refused = found
        for name in names:
            if stop():
                self.size = -1
                return
            parts = name.split(".")
            if name in sys.modules or name in self.tried or any(".".join(parts[:n + 1]) in refused for n in range(len(parts))):
                continue
            self.tried.add(name)
            if can_learn(name):
                self.take_one(name)

    def take_one(self, name):
        before, Watched.asked = held(), False
        plain, os.environ.__class__ = os.environ.__class__, Watched
        try:
            importlib.import_module(name)
        except (Exception, SystemExit):  # it was imported in the script's order of things; the script will see the error itself
            pass
        finally:
            os.environ.__class__ = plain
        why = ("asks for the rank's variables" if Watched.asked else "takes a GPU" if not self.cuda and holds_gpu() else
               "opens a socket or starts a process" if held() - before else "")
        if why:
            for pid in filter(str.isdigit, held() - before):
                os.kill(int(pid), signal.SIGKILL)
            print(f"stoker: train.preload_learned: importing {name} {why}: beginning again without it", file=sys.stderr, flush=True)
            self.again(append(self.path, f"-{name}\n"))


def wait(link, learned, known):
    """Until the order comes; meanwhile what is learned later is imported. Returns the environment of the rank; None: no order."""
    pause = 2.0
    while not select.select([link], [], [], pause)[0]:
        if learned.grown():
            learned.take(lambda: bool(select.select([link], [], [], 0)[0]))
            for path, entry in files().items():
                known.setdefault(path, entry)
        pause = min(pause * 1.5, 60)
    line = b""
    while not line.endswith(b"\n"):
        piece = link.read(65536)
        if not piece:
            return None
        line += piece
    return json.loads(line)["environment"]


def listens(port):
    """Whether a socket of this host waits for connections at this port; found without one to it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                if any(words[3] == "0A" and words[1].endswith(f":{port:04X}") for words in map(str.split, file)):
                    return True
        except OSError:
            continue
    return False


def give_way():
    """Warm ranks are so fast that others ask for rank 0's store before it listens, and torch then sleeps 250 to 750 ms between two
    tries: the others begin a little later."""
    if "torch.distributed" not in sys.modules or os.environ.get("RANK", "0") == "0":
        return
    if os.environ.get("GROUP_RANK") != "0":
        return time.sleep(FIRST_FOR_S / 2)  # rank 0 is on another node
    end = time.monotonic() + FIRST_FOR_S
    while time.monotonic() < end and not listens(int(os.environ.get("MASTER_PORT", "0"))):
        time.sleep(0.002)


def stand_by(standby, modules, whole, command):
    os.set_inheritable(standby, False)
    cuda = os.environ.get("STOKER_PRELOAD_CUDA") == "1"
    beginnings = int(os.environ.pop("STOKER_PRELOAD_BEGINNINGS", "1"))
    begun = dict(os.environ)
    for name in modules:
        importlib.import_module(name)
        if not cuda and holds_gpu():
            sys.exit(f"stoker: train.preload: importing {name} has taken a GPU, which a standby must not hold beside the training; "
                     "remove the module, or allow it with train.preload_cuda: true")
    if cuda:
        use_cuda()

    def again(listed):
        os.set_inheritable(standby, True)
        begun.update(STOKER_STANDBY_FD=str(standby), STOKER_PRELOAD_BEGINNINGS=str(beginnings + 1) if listed else str(BEGINNINGS + 1))
        os.execvpe(whole[0], whole[:len(whole) - len(command)] + [__file__] + sys.argv[1:], begun)

    learned = Learned(os.environ.get("STOKER_PRELOAD_LIST", "") if beginnings <= BEGINNINGS else "", cuda, again)
    learned.take()
    sys.stdout.flush()
    sys.stderr.flush()
    known = files()
    with os.fdopen(standby, "r+b", buffering=0) as link:
        try:
            link.write(b"R")
        except BrokenPipeError:
            pass  # begun again after its order was sent
        environment = wait(link, learned, known)
    if environment is None:
        os._exit(0)
    os.environ.update(environment)
    changed = [path for path, then in files().items() if known.get(path, then) != then]
    if changed:
        print(f"stoker: {changed[0]} has changed since it was imported: starting without the standby", file=sys.stderr, flush=True)
        os.environ.pop("STOKER_PRELOAD_LIST", None)
        os.execvp(whole[0], whole)
    give_way()


def main():
    modules, whole = sys.argv[1].split(","), sys.argv[3:]
    command = whole[int(sys.argv[2]):]
    search_path(command)
    standby = os.environ.pop("STOKER_STANDBY_FD", "")
    if standby:
        stand_by(int(standby), modules, whole, command)
    path = os.environ.pop("STOKER_PRELOAD_LIST", "")
    if path and os.environ.get("LOCAL_RANK") == "0":
        order = Order()
        sys.meta_path.insert(0, order)
        _thread.start_new_thread(write_what_is_imported, (path, order))
    sys.argv = command[1:] if command[0] == "-m" else command
    run(command)


def run(command):
    if command[0] == "-m":
        return runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    if not os.path.isfile(command[0]) or not command[0].endswith(".py"):
        return runpy.run_path(command[0], run_name="__main__")  # a folder or an archive with __main__.py
    path = os.path.abspath(command[0])
    with open(path, "rb") as file:  # as runpy, but __file__ is absolute and sys.argv[0] as it was written
        code = compile(file.read(), path, "exec")
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None,
                           __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


if __name__ == "__main__":
    main()
