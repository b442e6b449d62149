"""For the tests of warm Python standbys: the helper as the agent starts it, and allocations whose script has them."""
import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile

from e2e._agent import ROOT, STEPS, wait_for

HELPER = os.path.join(ROOT, "worker", "agent", "rank", "python_standby.py")


def folder_with(script, heavy="WORD = 'first'\n"):
    folder = os.path.realpath(tempfile.mkdtemp(prefix="stoker-standby-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in (("train.py", script), ("heavy.py", heavy)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


def standby(folder, command, at, between=lambda: None, order=None, modules="heavy,json", cuda=False, **more):
    """Starts the helper as the agent does; what happens between its import and its order is the caller's."""
    ours, theirs = socket.socketpair()
    env = dict(os.environ, STOKER_STANDBY_FD=str(theirs.fileno()), **({"STOKER_PRELOAD_CUDA": "1"} if cuda else {}), **more)
    env.pop("RANK", None)
    process = subprocess.Popen(command[:at] + [HELPER, modules, str(at)] + command, cwd=folder, env=env, text=True,
                               pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    theirs.close()
    ours.settimeout(60)
    ready = ours.recv(1)
    between()
    if order is not None and ready == b"R":
        ours.sendall(json.dumps({"version": 1, "environment": order}).encode() + b"\n")
    ours.close()
    out, err = process.communicate(timeout=60)
    return ready, process.returncode, out, err


HEAVY = """
import os
with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as file:
    file.write(f"{os.getpid()} {os.environ.get('RANK', 'standby')}\\n")
"""
TRAIN = """
sys.path.insert(0, os.path.dirname(__file__))
import heavy
print(f"attempt {os.environ['STOKER_ATTEMPT']} rank {os.environ['RANK']} pid {os.getpid()}", flush=True)
""" + STEPS


def imports(a):
    path = os.path.join(a.directory, "imports")
    return [line.split() for line in open(path).read().splitlines()] if os.path.exists(path) else []


def started(allocation, script, modules="heavy", environment={}, **more):
    """An allocation that runs `script` with standbys of `modules`; site-packages in its directory has the module `later`."""
    a = allocation(orders={"environment": {"STOKER_PRELOAD": modules, **environment}, "orphan_grace": 0}, **more)
    place = os.path.join(a.directory, "site-packages")
    a.orders["environment"]["PYTHONPATH"] = place
    os.mkdir(place)
    with open(os.path.join(place, "later.py"), "w", encoding="utf-8") as file:
        file.write(HEAVY.replace('"imports"', '"later"').replace("os.environ.get('RANK', 'standby')", "'-'"))
    a.script(script)
    with open(os.path.join(a.directory, "heavy.py"), "w", encoding="utf-8") as file:
        file.write(HEAVY)
    a.start()
    return a


def wait_two_standbys(a):
    """Two standbys that the lead knows of."""
    wait_for(lambda: sum(who == "standby" for _, who in imports(a)) == 2, what="two standbys")
    beats = len(a.events("beat"))
    wait_for(lambda: len(a.events("beat")) > beats + 3, what="beats that tell the lead of both")
