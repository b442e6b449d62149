"""Warm standby of a Python rank (train.preload): imports modules, says that it is ready, waits for its order, and then runs the
script or module of the rank's command as the interpreter itself would. Protocol: wire/standby.hpp. stoker-agent starts it as

    python [its options] python_standby.py MODULES AT COMMAND...

where COMMAND is the rank's and its word AT is the script or -m. It opens no port. It holds no GPU, and ends where a module has taken
one, unless STOKER_PRELOAD_CUDA=1 (train.preload_cuda) allows that: then it initialises CUDA. Where a file of an imported module has
changed meanwhile, it executes the rank's command from the beginning instead."""
import builtins
import importlib
import importlib.machinery
import json
import os
import runpy
import sys
import types


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


def order(standby):
    """The environment of the rank; None: the agent needs no standby any more."""
    with os.fdopen(standby, "r+b", buffering=0) as link:
        link.write(b"R")
        line = b""
        while not line.endswith(b"\n"):
            piece = link.read(65536)
            if not piece:
                return None
            line += piece
    return json.loads(line)["environment"]


def holds_gpu(descriptors="/proc/self/fd"):
    """Whether this process has opened a GPU, or torch has initialised CUDA. /dev/nvidiactl alone is no GPU: NVML opens it."""
    for name in os.listdir(descriptors):
        try:
            path = os.readlink(os.path.join(descriptors, name))
        except OSError:
            continue
        if path.removeprefix("/dev/nvidia")[:1].isdigit() or path == "/dev/nvidia-uvm":
            return True
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized()


def use_cuda():
    """The driver and torch's part of it; the context of a device, with its memory, begins where the script first uses the device."""
    if "torch" not in sys.modules:
        sys.exit("stoker: train.preload_cuda: none of the modules of train.preload has imported torch; add torch")
    sys.modules["torch"].cuda.init()


def main():
    modules, whole = sys.argv[1].split(","), sys.argv[3:]
    command = whole[int(sys.argv[2]):]
    standby = int(os.environ.pop("STOKER_STANDBY_FD"))
    os.set_inheritable(standby, False)
    search_path(command)
    cuda = os.environ.get("STOKER_PRELOAD_CUDA") == "1"
    for name in modules:
        importlib.import_module(name)
        if not cuda and holds_gpu():
            sys.exit(f"stoker: train.preload: importing {name} has taken a GPU, which a standby must not hold beside the training; "
                     "remove the module, or allow it with train.preload_cuda: true")
    if cuda:
        use_cuda()
    sys.stdout.flush()
    sys.stderr.flush()
    known = files()
    environment = order(standby)
    if environment is None:
        os._exit(0)
    os.environ.update(environment)
    changed = [path for path, then in files().items() if known.get(path, then) != then]
    if changed:
        print(f"stoker: {changed[0]} has changed since it was imported: starting without the standby", file=sys.stderr, flush=True)
        os.execvp(whole[0], whole)
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
