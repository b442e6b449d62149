"""Warm Python standbys learn (train.preload_learned): they import what the script of a rank was seen to import, as far as a standby
may have it. The modules are small ones of the test; ./dev bench restart measures with torch."""
import os
import signal
import subprocess
import sys

from e2e._agent import check, run_cases, wait_for
from e2e._standby import HEAVY, HELPER, TRAIN, folder_with, imports, standby, started, wait_two_standbys

# Installed modules: each writes down who imports it.
INSTALLED = {
    "plain": "import inner\n", "inner": "", "broken": "if 'BREAK' in os.environ:\n    raise ImportError('not here')\n",
    "asks": "os.environ.get('RANK')\n", "opens": "import socket\nkept = socket.socket()\n",
    "starts": "import subprocess\nkept = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"}
LEARNS = """
import importlib, os, sys, time
for name in sys.argv[1].split(","):
    importlib.import_module(name)
import own
print(sorted(set(sys.modules) & {"plain", "inner", "broken", "asks", "opens", "starts", "own"}), "STOKER_PRELOAD_LIST" in os.environ,
      flush=True)
path = os.environ.get("WAIT_FOR")
while path and sys.argv[1].split(",")[-1] not in open(path).read().split():
    time.sleep(0.02)
"""


def installed(names):
    """A folder with the script and the modules; the arguments of standby() for it."""
    folder = folder_with(LEARNS)
    place = os.path.join(folder, "site-packages")
    os.mkdir(place)
    text = "import os\nwith open({!r}, 'a') as file:\n    file.write(f'{{__name__}} {{os.getpid()}}\\n')\n"
    for name, body in INSTALLED.items():
        with open(os.path.join(place, name + ".py"), "w", encoding="utf-8") as file:
            file.write(text.format(os.path.join(folder, "imports")) + body)
    with open(os.path.join(folder, "own.py"), "w", encoding="utf-8") as file:
        file.write("")
    path = os.path.join(folder, "list")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return folder, path, [sys.executable, "train.py", ",".join(names)], {"PYTHONPATH": place, "STOKER_PRELOAD_LIST": path}


def first_life(names):
    """A rank has run by the helper; what it has written down."""
    folder, path, command, more = installed(names)
    env = dict(os.environ, **more, LOCAL_RANK="0", RANK="0", WAIT_FOR=path)
    done = subprocess.run([command[0], HELPER, "heavy", "1"] + command, cwd=folder, env=env, text=True, capture_output=True, timeout=60)
    check(done.returncode == 0, f"{done.stdout} {done.stderr}")
    check(done.stdout.endswith(" False\n"), f"the script sees the list: {done.stdout}")
    return folder, path, command, more


def imported(folder):
    """{module: how many processes have imported it}"""
    lines = open(os.path.join(folder, "imports")).read().split("\n")
    return {name: sum(line.startswith(name + " ") for line in lines) for name in INSTALLED}


def learns(_):
    """what the script of the first rank has imported, the next standby has imported before its order; own modules it has not"""
    folder, path, command, more = first_life(["broken", "plain"])
    listed = open(path).read().split()
    check(listed.index("plain") < listed.index("inner") and "broken" in listed, f"not in the order of the imports: {listed}")
    check("own" not in listed and "heavy" not in listed, f"the training's own files are listed: {listed}")
    before = {}
    ready, code, out, err = standby(folder, command, 1, order={"RANK": "1"}, between=lambda: before.update(imported(folder)), **more)
    check((ready, code) == (b"R", 0) and before["plain"] == before["inner"] == before["broken"] == 2, f"{before} {code} {err}")
    check(imported(folder) == before, f"the script imported again: {imported(folder)}")
    check(out == "['broken', 'inner', 'own', 'plain'] False\n", out)
    ready, code, out, err = standby(folder, command, 1, order={"RANK": "1", "BREAK": "1"}, BREAK="1", **more)
    check(ready == b"R" and code == 1 and "not here" in err, f"a module that cannot be imported ends the standby: {err}")
    check(imported(folder)["broken"] == 4 and imported(folder)["plain"] == 3, str(imported(folder)))


def learned_file_changes(_):
    """a learned module whose file changes after the import is imported from the beginning"""
    folder, _path, command, more = first_life(["plain"])

    def change():
        with open(os.path.join(folder, "site-packages", "plain.py"), "a", encoding="utf-8") as file:
            file.write("print('changed')\n")
    _ready, code, out, err = standby(folder, command, 1, between=change, order={"RANK": "1"}, **more)
    check(code == 0 and out.startswith("changed\n") and "plain.py has changed" in err, f"{code} {out} {err}")


def unfit_modules(_):
    """a module that asks for its rank, opens a socket or starts a process is struck off, and the standby holds nothing of it"""
    folder, path, command, more = first_life(["asks", "opens", "starts", "plain"])
    seen = []
    ready, code, out, err = standby(folder, command, 1, order={"RANK": "1"}, between=lambda: seen.append(imported(folder)), **more)
    check(ready == b"R" and code == 0, f"{ready} {code} {err}")
    check({"-asks", "-opens", "-starts"} <= set(open(path).read().split()), open(path).read())
    check(seen[0]["plain"] == 2 and err.count("beginning again") == 3, f"{seen} {err}")
    check(out == "['asks', 'inner', 'opens', 'own', 'plain', 'starts'] False\n", out)
    del seen[:]
    standby(folder, command, 1, order={"RANK": "1"}, between=lambda: seen.append(imported(folder)), **more)
    check(seen[0]["asks"] == 3 and seen[0]["plain"] == 3, f"the next standby imports what was struck off: {seen}")


def learns_while_it_waits(_):
    """what is written down after a standby is ready is imported too, also where that makes it begin again"""
    folder, path, command, more = installed(["asks", "plain"])

    def later():
        with open(path, "a", encoding="utf-8") as file:
            file.write("asks\nplain\n")
        wait_for(lambda: os.path.exists(os.path.join(folder, "imports")) and imported(folder)["plain"] == 1, what="the late import")
    ready, code, out, err = standby(folder, command, 1, order={"RANK": "1"}, between=later, **more)
    check(ready == b"R" and code == 0 and imported(folder)["plain"] == 1 and imported(folder)["asks"] == 2, f"{imported(folder)} {err}")


def hostile_lists(_):
    """a list that others own or can write, a link, one too long, one with what is no name: refused, and the standby does without"""
    def foreign(path):
        os.chown(path, 65534, -1)

    def link(path):
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)

    def longer(path):
        with open(path, "a", encoding="utf-8") as file:
            file.write("plain\n" * 45000)

    def many(path):
        with open(path, "a", encoding="utf-8") as file:
            file.write("plain\n" * 5001)

    def nonsense(path):
        with open(path, "a", encoding="utf-8") as file:
            file.write("plain;os\n")
    ways = [link, longer, many, nonsense, lambda path: os.chmod(path, 0o620)] + ([foreign] if os.geteuid() == 0 else [])
    for spoil in ways:
        folder, path, command, more = installed(["plain"])
        with open(path, "w", encoding="utf-8") as file:
            file.write("plain\n")
        spoil(path)
        seen = []
        ready, code, _out, err = standby(folder, command, 1, order={"RANK": "1"}, **more,
                                         between=lambda: seen.append(os.path.exists(os.path.join(folder, "imports"))))
        check((ready, code, seen) == (b"R", 0, [False]) and "nothing is learned" in err, f"{spoil.__name__}: {ready} {code} {seen} {err}")


LATER = TRAIN.replace("import heavy\n", "import heavy, later\n")


def learns_under_agents(allocation):
    """what the first attempt imported, attempt 2 does not import again; the list is the agent's alone and goes with it; 0: no list"""
    for learned in ("1", "0"):
        a = started(allocation, LATER, ranks=2, environment={"STOKER_PRELOAD_LEARNED": learned})
        before = {name for name in os.listdir("/dev/shm") if name.endswith(".modules")}
        wait_two_standbys(a)
        lists = [os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm") if name.endswith(".modules") and name not in before]

        def imported():
            path = os.path.join(a.directory, "site-packages", "later")
            return [line.split()[0] for line in open(path).read().splitlines()] if os.path.exists(path) else []
        waiting = {pid for pid, who in imports(a) if who == "standby"}
        if learned == "1":
            wait_for(lambda: waiting <= set(imported()), what="standbys that have imported it")
            ours = [path for path in lists if "later" in open(path).read().split()]
            check(len(ours) == 1 and os.stat(ours[0]).st_mode & 0o777 == 0o600, f"{lists}")
        os.kill(int(next(pid for pid, who in imports(a) if who == "1")), signal.SIGKILL)
        a.wait_event("phase", attempt=2, phase="iteration")
        check(len(imported()) == 4, f"learned {learned}: imported {len(imported())} times")
        check(learned == "1" or not lists, f"a list although it is switched off: {lists}")
        os.kill(a.wait_event("agent_joined")["pid"], signal.SIGKILL)  # its keeper tidies up
        a.nothing_left()
        check(not any(map(os.path.exists, lists)), f"left: {lists}")


run_cases([learns, learned_file_changes, unfit_modules, learns_while_it_waits, hostile_lists, learns_under_agents])
