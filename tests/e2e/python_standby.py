"""Warm standbys of Python ranks (train.preload): what a script sees is what the plain interpreter shows it, and a restart
does not import again. The modules are small ones of the test; ./dev bench restart measures with torch."""
import atexit
import json
import os
import signal
import subprocess
import shutil
import sys
import tempfile

from e2e._agent import check, run_cases, wait_for
from e2e._standby import HELPER, TRAIN, folder_with, imports, standby, started, wait_two_standbys

SEEN = """
import json, multiprocessing, os, sys
import heavy

class Mine:
    pass

def child(queue):
    queue.put(__name__)

if __name__ == "__main__":
    import pickle
    queue = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(queue,))
    process.start()
    print(json.dumps({"argv": sys.argv, "name": __name__, "file": __file__, "path": sys.path[0], "rank": os.environ.get("RANK"),
                      "spawned": queue.get(), "pickled": type(pickle.loads(pickle.dumps(Mine()))).__name__,
                      "word": heavy.WORD, "module": sys.modules["__main__"].child is child,
                      "standby": os.environ.get("STOKER_STANDBY_FD"), "optimized": sys.flags.optimize}), flush=True)
    process.join()
    sys.exit(int(sys.argv[-1]))
"""


def as_the_interpreter(_):
    """a script and a module see what the plain interpreter shows them, and their exit code is theirs"""
    for words in (["train.py", "--size", "3"], ["-O", "train.py", "7"], ["-m", "train", "5"], ["-X", "utf8", "-m", "train", "0"]):
        folder = folder_with(SEEN)
        command = [sys.executable] + words
        at = next(i for i, w in enumerate(command) if i > 0 and w in ("-m", "train.py"))
        plain = subprocess.run(command, cwd=folder, env=dict(os.environ, RANK="3"), text=True, capture_output=True, timeout=60)
        ready, code, out, err = standby(folder, command, at, order={"RANK": "3"})
        check(ready == b"R", f"{words}: not ready: {err}")
        check(code == plain.returncode == int(words[-1]), f"{words}: exit {code}, plain {plain.returncode}: {err}{plain.stderr}")
        seen, wanted = json.loads(out), json.loads(plain.stdout)
        differ = {key: (seen[key], wanted[key]) for key in wanted if seen[key] != wanted[key]}
        check(not differ, f"{words}: it sees something else (standby, plain): {differ}")


def ends_quietly(_):
    """no order: it ends with 0 and without a word; a module that does not exist: it ends with its error before it is ready"""
    folder = folder_with(SEEN)
    command = [sys.executable, "train.py", "0"]
    ready, code, out, err = standby(folder, command, 1)
    check((ready, code, out, err) == (b"R", 0, "", ""), str((ready, code, out, err)))
    ready, code, out, err = standby(folder, command, 1, order={}, modules="no_such_module")
    check(ready == b"" and code == 1 and "no_such_module" in err, str((ready, code, err)))


def changed_files(_):
    """a module whose file changed after the import is imported from the beginning; a changed script is simply the new one"""
    folder = folder_with(SEEN)

    def change():
        with open(os.path.join(folder, "heavy.py"), "w", encoding="utf-8") as file:
            file.write("WORD = 'the second one'\n")
    _, code, out, err = standby(folder, [sys.executable, "train.py", "0"], 1, between=change, order={"RANK": "1"})
    seen = json.loads(out)
    check(code == 0 and seen["word"] == "the second one" and seen["rank"] == "1", f"{code} {out} {err}")
    check("heavy.py has changed" in err, err)

    def another():
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
            file.write("print('new script')\n")
    _, code, out, err = standby(folder, [sys.executable, "train.py", "0"], 1, between=another, order={})
    check((code, out, err) == (0, "new script\n", ""), f"{code} {out} {err}")


TORCH = """
import types
calls = []
cuda = types.SimpleNamespace(init=lambda: calls.append("init"), is_initialized=lambda: bool(calls))
"""


def cuda_only_when_allowed(_):
    """a standby does not initialise CUDA and ends where a module did; preload_cuda allows both (torch is a fake one)"""
    folder = folder_with("import sys\nprint('torch' in sys.modules and sys.modules['torch'].calls)\n")
    for name, text in (("torch.py", TORCH), ("greedy.py", "import torch\ntorch.cuda.init()\n")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def after(modules, cuda):
        return standby(folder, [sys.executable, "train.py"], 1, order={}, modules=modules, cuda=cuda)
    ready, code, out, err = after("torch", False)
    check((ready, code, out) == (b"R", 0, "[]\n"), f"it was initialised without the key: {(ready, code, out, err)}")
    ready, code, out, err = after("torch,greedy", False)
    check(ready == b"" and code == 1 and "importing greedy has taken a GPU" in err, str((ready, code, err)))
    ready, code, out, err = after("torch", True)
    check((ready, code, out) == (b"R", 0, "['init']\n"), f"it was not initialised: {(ready, code, out, err)}")
    check(after("torch,greedy", True)[0] == b"R", "a module that initialises CUDA is refused with preload_cuda")
    ready, code, out, err = after("heavy", True)
    check(ready == b"" and code == 1 and "add torch" in err, str((ready, code, err)))


def open_gpu_is_seen(_):
    """a GPU that a library has opened is found among the descriptors; that of NVML is not one"""
    sys.path.insert(0, os.path.dirname(HELPER))
    import python_standby as helper
    folder = tempfile.mkdtemp(prefix="stoker-standby-")
    atexit.register(shutil.rmtree, folder)
    os.symlink("/dev/nvidiactl", os.path.join(folder, "3"))
    os.symlink("/dev/null", os.path.join(folder, "4"))
    check(not helper.holds_gpu(folder), "nvidiactl counts as a GPU")
    for number, device in enumerate(("/dev/nvidia0", "/dev/nvidia12", "/dev/nvidia-uvm"), 5):
        link = os.path.join(folder, str(number))
        os.symlink(device, link)
        check(helper.holds_gpu(folder), f"{device} is not seen")
        os.unlink(link)


def under_agents(allocation):
    """a crash under agents: the next attempt runs in the interpreters that stood by, and new ones are made behind it"""
    a = started(allocation, TRAIN, ranks=2)
    wait_for(lambda: sum(b["body"].get("reporting", 0) == 2 for b in a.events("beat")), what="both ranks iterate")
    wait_two_standbys(a)
    waiting = {pid for pid, who in imports(a) if who == "standby"}
    victim = next(pid for pid, who in imports(a) if who == "1")
    os.kill(int(victim), signal.SIGKILL)
    check(a.wait_event("attempt_started", attempt=2)["standby"], "attempt 2 is not from warm processes")
    a.wait_event("phase", attempt=2, phase="iteration")
    log = a.read("gen-000001/main.log").decode()
    second = {line.split()[-1] for line in log.splitlines() if "attempt 2 rank" in line}
    check(second == waiting, f"attempt 2 ran in {second}, the standbys were {waiting}")
    check(sum(who in ("0", "1") for _, who in imports(a)) == 2, f"attempt 2 imported again: {imports(a)}")
    wait_for(lambda: sum(who == "standby" for _, who in imports(a)) == 4, what="standbys behind attempt 2")
    a.agents["n01"].kill()
    a.nothing_left()


PRINTS = """
sys.path.insert(0, os.path.dirname(__file__))
import heavy
for i in range(1, 100000):
    if os.environ["RANK"] == "0":
        print(f"iteration {i:8d}/  100000 | consumed samples: {i * 4:12d} | lm loss: 1.000000E+00 |", flush=True)
    time.sleep(0.02)
"""


def one_rank_prints(allocation):
    """a script whose rank 0 alone shows iterations, without a heartbeat page: the silent rank holds no standby back"""
    a = started(allocation, PRINTS, ranks=2)
    wait_two_standbys(a)
    os.kill(int(next(pid for pid, who in imports(a) if who == "1")), signal.SIGKILL)
    check(a.wait_event("attempt_started", attempt=2)["standby"], "attempt 2 is not from warm processes")
    a.agents["n01"].kill()
    a.nothing_left()


def import_fails(allocation):
    """a module that cannot be imported: the training runs without standbys, and one line says why"""
    a = started(allocation, TRAIN, modules="no_such_module")
    told = wait_for(lambda: [e for e in a.events("notice") if "no warm standby" in e["body"]["text"]], what="the notice")
    check("standby.n01.log" in told[0]["body"]["text"], told[0]["body"]["text"])
    check(b"no_such_module" in a.read("gen-000001/ranks/standby.n01.log"), "the log does not say why")
    check(not a.events("attempt_ended"), "the training was hurt")
    os.kill(int(imports(a)[0][0]), signal.SIGKILL)
    check(not a.wait_event("attempt_started", attempt=2)["standby"], "warm without a standby")
    a.agents["n01"].kill()
    a.nothing_left()


run_cases([as_the_interpreter, ends_quietly, changed_files, cuda_only_when_allowed, open_gpu_is_seen, under_agents, one_rank_prints,
           import_fails])
