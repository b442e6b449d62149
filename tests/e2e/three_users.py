"""A shared login node: the owner of a run, a colleague of its group and a stranger. What each of the two can do to the owner:
nothing is executed, written or stalled that is not theirs, and nothing secret is read. Needs root for the three users."""
import json
import os
import signal
import socket
import sys
import time

from e2e._harness import check, main
from e2e._users import GROUP, MATE, OWNER, SECRET, STRANGER, TRAINING, SharedSite, make_users, remove_users

# Tries to make, replace and read what is the owner's; prints what worked.
MEDDLE = """
import os, sys
worked = []
for folder in sys.argv[1:]:
    for name in ("999999.json", "planted", "control.json", "status.json", "stop"):
        path = os.path.join(folder, name)
        for act in (lambda: open(path, "x"), lambda: open(path, "r+"), lambda: os.unlink(path),
                    lambda: os.rename(path, path + ".away"), lambda: os.mkdir(path + ".d")):
            try:
                act()
                worked.append(path)
            except OSError:
                pass
print("\\n".join(sorted(set(worked))))
"""
# Forty peers that connect, say nothing, and connect again as soon as they are closed.
CROWD = """
import select, socket, sys
def connect():
    s = socket.socket(socket.AF_INET if ":" in sys.argv[1] else socket.AF_UNIX)
    s.settimeout(5)
    host, _, port = sys.argv[1].rpartition(":")
    s.connect((host, int(port)) if host else sys.argv[1])
    return s
peers = []
print("here", flush=True)
while True:
    while len(peers) < 40:
        try:
            peers.append(connect())
        except OSError:
            break
    for s in select.select(peers, [], [], 0.05)[0]:
        try:
            alive = s.recv(4096)
        except OSError:
            alive = b""
        if not alive:
            s.close()
            peers.remove(s)
"""
# Listens in the place of the daemon; prints what it receives.
IMPOSTOR = """
import os, socket, sys
try:
    os.unlink(sys.argv[1])
except OSError:
    pass
with socket.socket(socket.AF_UNIX) as s:
    s.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o777)
    s.listen(8)
    print("here", flush=True)
    while True:
        with s.accept()[0] as peer:
            peer.settimeout(5)
            print(peer.recv(65536).decode(), flush=True)
            peer.sendall(b'{"version":1,"ok":true,"message":"done","data":{}}\\n')
"""


def drop(site, user, name, text=""):
    return site.as_user(user, "/usr/bin/python3", "-c", "import sys; open(sys.argv[1], 'x').write(sys.argv[2])",
                        os.path.join(site.directory, "switch", name), text)


def the_socket_acts_on_one_run(site):
    """A colleague may save; run, reload and what reaches other runs are the owner's. No secret is in an answer."""
    site.start()
    command = f"/bin/sh, -c, 'touch {site.folder}/owned; sleep 100'"
    evil = open(site.config(command), encoding="utf-8").read()
    mine = evil.replace("run: shared", "run: mine").replace(site.directory, os.path.join(site.folder, "mine"))
    site.config()
    path = os.path.join(site.folder, "shared.yaml")
    forbidden = [dict(verb="run", run="shared", text=text, arguments={"path": path}) for text in (evil, mine)]
    forbidden += [dict(verb=v, run="shared", nodes=["n01"], arguments={"kind": "x", "id": "y"})
                  for v in ("reload", "alerts-test", "exclude", "include", "silence", "ack", "nothing")]
    for user in (MATE, STRANGER):
        for request, answer in zip(forbidden, site.knock(user, *forbidden)):
            check(not answer["ok"] and ("may not act" in answer["message"] or user == STRANGER),
                  f"{user} may {request['verb']}: {answer}")
    answers = site.knock(MATE, dict(verb="rollback", run="shared", dry_run=True, arguments={"to": "0"}),
                      dict(verb="restart", run="shared", dry_run=True), dict(verb="save", run="shared"))
    check(answers[2]["ok"] or "may not act" not in answers[2]["message"], f"a colleague may not save: {answers[2]}")
    check(SECRET not in json.dumps(answers), "a dry run shows the environment of the orders")
    check(site.knock(STRANGER, {"verb": "ping"})[0].get("barred"), "a stranger reaches the socket")
    check(site.stoker("status", "mine", ok=False).returncode != 0, "the colleague's run was taken")
    check(not site.marks(), "a colleague executed a command as the owner")


def the_run_directory_is_the_owners(site):
    """Only switch/ can be written, by the group alone; what was planted before is passed over and reported."""
    site.start()
    d = site.directory
    folders = [d, *(os.path.join(d, n) for n in sorted(os.listdir(d)) if n != "switch" and os.path.isdir(os.path.join(d, n))),
               os.path.join(d, "gen-000001", "ranks"), site.state, os.path.join(site.state, "published")]
    for user in (MATE, STRANGER):
        worked = site.as_user(user, "/usr/bin/python3", "-c", MEDDLE, *folders, ok=True).stdout.split()
        check(not worked, f"{user} wrote {worked}")
    check(drop(site, MATE, "save").returncode == 0, "a colleague cannot use switch/")
    check(drop(site, STRANGER, "kill").returncode != 0, "a stranger writes into switch/")
    site.stoker("stop", site.run, "--now", "--reason", "test")
    site.wait_state("stopped", 60)
    site.kill_daemon(signal.SIGTERM)
    # As an older version left it: open to the group, which used it.
    newest = os.path.join(d, "orders", max(os.listdir(os.path.join(d, "orders"))))
    with open(newest, encoding="utf-8") as f:
        evil = json.load(f)
    evil.update(number=999999, command=["/bin/sh", "-c", f"touch {site.folder}/owned; sleep 100"])
    for folder in (d, os.path.join(d, "orders"), os.path.join(d, "claims")):
        os.chmod(folder, 0o2770)
    for name in ("orders/999999.json", "control.json"):
        os.path.exists(os.path.join(d, name)) and os.unlink(os.path.join(d, name))
        with open(os.path.join(d, name), "w", encoding="utf-8") as f:
            json.dump(evil, f)
        os.chown(os.path.join(d, name), *site.ids(MATE))
    os.mkdir(os.path.join(d, "gen-000099"))
    os.chown(os.path.join(d, "gen-000099"), *site.ids(MATE))
    site.start_daemon()
    site.wait(lambda: os.stat(d).st_mode & 0o22 == 0 and os.stat(os.path.join(d, "orders")).st_mode & 0o77 == 0, 20,
              "the run directory to be closed")
    site.stoker("resume", site.run, "--reason", "go on")
    site.wait(lambda: site.status().get("generation") == 2 and site.status().get("state") == "training", 60, "generation 2")
    events = json.dumps(site.events())
    check("999999.json" in events and "refused" in events and MATE in events, "the planted orders are not reported")
    check(not site.marks(), "planted orders were executed")


# Makes what trainings make: a folder of checkpoints, a cache, a file.
MAKES = """
import os
os.makedirs("checkpoints/iter_1")
open("checkpoints/iter_1/model.pt", "w").close()
os.makedirs("cache/kernels")
"""


def what_the_training_makes_is_the_owners(site):
    """Many sites give the umask 0002; the training loads what it made in the run's directory, so no colleague may write it."""
    site.umask = 0o002
    with open(site.script, "w", encoding="utf-8") as f:
        f.write(MAKES + TRAINING)
    site.start()
    made = os.path.join(site.directory, "checkpoints", "iter_1", "model.pt")
    check(os.path.exists(made) and site.as_user(MATE, "cat", made).returncode == 0, "a colleague cannot read what was made")
    writable = site.as_user(MATE, "find", site.directory, site.state, "-writable", "-not", "-type", "l").stdout.split()
    check(writable == [os.path.join(site.directory, "switch")], f"a colleague can write {writable}")


def lent_uids_are_nobodys(site):
    """A user namespace lends a colleague thousands of uids, in the group that he has: no member, and no pace of their own. Nor is a
    stranger a member who has the group by a setgid program, or by a shell from before."""
    site.start()
    seq = site.events()[-1]["seq"]
    for uid in (345678, 345679, site.ids(STRANGER)[0]):
        answers = site.knock(MATE, *[dict(verb="stacks", run="shared")] * 3, uid=uid)
        check(not any(a["ok"] for a in answers) and "may not act" in answers[0]["message"], f"uid {uid} acts: {answers[0]}")
    check(not [e for e in site.events() if int(e["seq"]) > int(seq) and e["kind"] == "operator_asked"], "a lent uid is in the journal")


def batch_folder_of_another(site):
    """A folder where jobs are made that is another user's: nothing is submitted, and that is said."""
    site.start_daemon()
    for path, owner in ((site.directory, OWNER), (os.path.join(site.directory, "orders"), MATE)):
        os.mkdir(path)
        os.chown(path, *site.ids(owner))
    done = site.stoker("run", site.config(), "--yes", ok=False)
    check(done.returncode != 0 and MATE in done.stderr, f"a colleague's orders folder was taken: {done.stdout}{done.stderr}")


def nothing_secret_is_read(site):
    """State is the owner's; a colleague reads what is published and the logs; no token in anything that is shown."""
    for name in ("journal.db-old", "stokerd.lock"):
        with open(os.path.join(site.state, name), "w", encoding="utf-8"):
            os.chown(os.path.join(site.state, name), *site.ids(OWNER))
    site.start()
    drop(site, MATE, "save")
    site.wait(lambda: "operator_asked" in json.dumps(site.events()), 20, "the switch to be seen")
    readable = {}
    for user in (MATE, STRANGER):
        readable[user] = site.as_user(user, "find", site.state, site.directory, "-type", "f", "-readable").stdout.split()
        found = site.as_user(user, "grep", "-rl", SECRET, site.state, site.directory).stdout.split()
        check(not found, f"{user} reads a secret in {found}")
        for name in ("journal.db", "journal.db-wal", "stokerd.lock", "http-token", "identity"):
            path = os.path.join(site.state, name)
            check(site.as_user(user, "flock", "-n", path, "true").returncode != 0 or not os.path.exists(path),
                  f"{user} can lock {name}")
    check(not readable[STRANGER], f"a stranger reads {readable[STRANGER][:5]}")
    outside = [p for p in readable[MATE] if p.startswith(site.state) and "/published/" not in p]
    check(not outside, f"a colleague reads {outside}")
    for word in ("status.json", "events.jsonl", "chronicle.md", "gen-000001/main.log"):
        check(any(p.endswith(word) for p in readable[MATE]), f"a colleague cannot read {word}")
    for argv in (("status", site.run), ("logs", site.run), ("events", site.run), ("why", site.run)):
        done = site.stoker_of(MATE, *argv)
        check(done.returncode == 0, f"a colleague cannot ask {argv}: {done.stderr}")
    shown = "".join(site.stoker(*argv, ok=False).stdout for argv in (
        ("status", site.run, "--json"), ("events", site.run, "--json"), ("why", site.run), ("chronicle", site.run)))
    check(SECRET not in shown and "hf_token" in shown.lower(), "a secret is shown, or the name of its variable is not")
    site.log.flush()
    check(SECRET not in open(site.log.name, encoding="utf-8", errors="replace").read(), "a secret is in the daemon's log")
    check(os.stat(site.state).st_mode & 0o777 == 0o710, f"the state directory has mode {oct(os.stat(site.state).st_mode)}")


def junk_hides_no_kill(site):
    site.start()
    make = "import os, sys\nfor i in range(300):\n    open(os.path.join(sys.argv[1], f'aa{i}'), 'x')\n"
    site.as_user(MATE, "/usr/bin/python3", "-c", make, os.path.join(site.directory, "switch"), ok=True)
    check(drop(site, MATE, "kill", "a colleague\u202eeert").returncode == 0, "no kill")
    site.wait_state("stopped", 60)
    for argv in (("why", site.run), ("events", site.run), ("status", site.run)):
        check("\u202e" not in site.stoker(*argv, ok=False).stdout, f"{argv[0]} shows a control that reorders text")


CHURN = """
import os, sys, time
for turn in range(16):
    for i in range(58):
        with open(os.path.join(sys.argv[1], f"junk{i}"), "w") as file:
            file.write("x" * (turn % 7))
    time.sleep(0.6)
"""


def a_colleague_fills_nothing(site):
    """Long words, many requests and switch files that change all the time: the journal stays short, the owner is heard."""
    site.start()
    events = os.path.join(site.directory, "events.jsonl")
    before = os.path.getsize(events)
    answers = site.knock(MATE, *[dict(verb="save", run="shared", reason="A" * 10000) for _ in range(25)])
    check(not any(a["ok"] for a in answers) and "10000 bytes" in answers[0]["message"], f"a long reason: {answers[0]['message'][:200]}")
    names = [f"{i:04d}" + "n" * 240 for i in range(400)]
    answers = site.knock(MATE, *[dict(verb="save", run="shared", nodes=names) for _ in range(3)])
    check(all("more than 16384 bytes" in a["message"] for a in answers), f"names of 100,000 bytes: {answers[0]['message'][:200]}")
    answers = site.knock(MATE, *[dict(verb="stacks", run="shared", dry_run=True) for _ in range(60)])
    check(answers[0]["ok"] and any("too many requests" in a["message"] for a in answers), "a colleague asks without end")
    site.as_user(MATE, "/usr/bin/python3", "-c", CHURN, os.path.join(site.directory, "switch"), ok=True)
    site.wait(lambda: "switch_refused" in json.dumps(site.events()), 20, "a refusal to be reported")
    rows = sum(e["kind"] == "switch_refused" for e in site.events())
    check(rows <= 20, f"{rows} rows for junk in switch/")
    check(os.path.getsize(events) - before < 100000, f"a colleague wrote {os.path.getsize(events) - before} bytes")
    answers = site.knock(OWNER, *[dict(verb="ping")] * 40, dict(verb="save", run="shared", dry_run=True))
    check("too many" not in answers[-1]["message"], f"the owner is not served: {answers[-1]}")


# Makes a file of its own folder and moves it.
MOVE = """
import os, sys, tempfile
with tempfile.TemporaryDirectory() as own:
    with open(own + "/made", "w") as file:
        file.write(sys.argv[2])
    os.rename(own + "/made", sys.argv[1])
"""


def what_is_refused_no_agent_obeys(site):
    """The agents judge switch files as the daemon does: they take no refused one for an order that a silent daemon left."""
    site.start()
    folder = os.path.join(site.directory, "switch")
    site.as_user(MATE, "/usr/bin/python3", "-c", MOVE, os.path.join(folder, "kill"), json.dumps({"by": OWNER, "reason": "mine"}), ok=True)
    site.wait(lambda: "moved here" in json.dumps(site.events()), 20, "the refusal")
    site.wait_iteration(site.status()["iteration"] + 120)  # six seconds: the agents take a silent daemon's switch after two
    check(site.status()["state"] == "training", f"the agents obeyed what the daemon has refused: {site.status()['reason']}")
    before = len(site.events())
    change = "import sys, time\nfor i in range(60):\n    with open(sys.argv[1], 'w') as f:\n        f.truncate(70000 + i)\n    time.sleep(0.1)\n"
    site.as_user(MATE, "/usr/bin/python3", "-c", change, os.path.join(folder, "stop"), ok=True)
    rows = len(site.events()) - before
    check(rows <= 40, f"a refused file that changes makes {rows} rows in six seconds")
    check(sum(a["kind"] == "switch_refused" for a in site.status()["alerts"]) == 1, "each refused name is an open alert of its own")


def the_owners_order_is_the_owners(site):
    """By file too: a colleague neither writes into it nor gives it a second name, and stops no file from being put away."""
    site.start()
    folder = os.path.join(site.directory, "switch")
    site.daemon.send_signal(signal.SIGSTOP)
    try:
        site.stoker("pause", site.run, "--reason", "by file")
        mine = os.path.join(folder, "pause")
        edit = "import sys; open(sys.argv[1], 'r+').write('x')"
        check(site.as_user(MATE, "/usr/bin/python3", "-c", edit, mine).returncode != 0, "a colleague writes into the owner's order")
        if open("/proc/sys/fs/protected_hardlinks", encoding="ascii").read().strip() == "1":
            check(site.as_user(MATE, "ln", mine, os.path.join(folder, "kill")).returncode != 0, "a colleague links the owner's order")
        seq = int(site.events()[-1]["seq"])
        traps = "import os, sys\nfor n in range(int(sys.argv[2]), int(sys.argv[2]) + 300):\n    os.makedirs(f'{sys.argv[1]}/.handled-pause-shared-{n}-0/x')\n"
        site.as_user(MATE, "/usr/bin/python3", "-c", traps, folder, seq, ok=True)
    finally:
        site.daemon.send_signal(signal.SIGCONT)
    site.wait(lambda: not os.path.exists(mine), 20, "the order to be put away")
    check("paused" in site.status()["conditions"], f"the order was not obeyed: {site.status()}")
    check(not any(e["kind"] == "effect_failed" for e in site.events()), "a folder in the way of the file makes the effect fail")


def a_folder_keeps_no_order_out(site):
    """A colleague makes directories with the names of orders: the owner's and another's order by file comes through nevertheless."""
    site.start()
    folder = os.path.join(site.directory, "switch")
    site.daemon.send_signal(signal.SIGSTOP)
    try:
        site.as_user(MATE, "mkdir", "-p", f"{folder}/pause/x", f"{folder}/kill/x", f"{folder}/KILL", f"{folder}/Kill", ok=True)
        site.stoker("pause", site.run, "--reason", "mine")
        done = site.stoker("stop", site.run, "--now", "--reason", "mine")
        check("switch/kill" in done.stdout, f"not the plain name: {done.stdout}")
    finally:
        site.daemon.send_signal(signal.SIGCONT)
    site.wait_state("stopped", 60)
    check("paused" in site.status()["conditions"], f"one order was not obeyed: {site.status()}")


def a_former_colleague_orders_nothing(site):
    """`group` leaves RUN.yaml: switch/ is the owner's alone, for the daemon and for the agents that run already."""
    site.start()
    path = site.config()
    with open(path, encoding="utf-8") as f:
        text = f.read().replace(f"group: {GROUP}\n", "")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    site.stoker("run", path, "--yes")
    site.wait(lambda: os.stat(os.path.join(site.directory, "switch")).st_mode & 0o22 == 0, 20, "switch/ to be closed")
    check(drop(site, MATE, "stop").returncode != 0, "a former colleague writes into switch/")


def a_crowd_stalls_nothing(site):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site.start("--listen", f"127.0.0.1:{port}")
    site.background(MATE, CROWD, os.path.join(site.state, "stokerd.sock"))
    site.background(STRANGER, CROWD, f"127.0.0.1:{port}")
    with open(os.path.join(site.state, "http-token"), encoding="utf-8") as f:
        token = f.read().strip()
    for _ in range(5):
        site.stoker("status", site.run)
        check(site.knock(OWNER, {"verb": "ping"})[0]["ok"], "the owner's ping is not answered")
        page = site.as_user(OWNER, "/usr/bin/python3", "-c", "import sys, urllib.request\n"
                            "print(urllib.request.urlopen(sys.argv[1], timeout=30).status)",
                            f"http://127.0.0.1:{port}/healthz?token={token}")
        check(page.stdout == "200\n", f"the page is starved: {page.stderr[-300:]}")
    done = site.stoker("stop", site.run, "--now", "--reason", "in the crowd")
    check("switch file" not in done.stdout, f"the owner had to use the switch file: {done.stderr}")
    site.wait_state("stopped", 60)


def a_silent_daemon_gets_orders_by_file(site):
    site.start()
    site.daemon.send_signal(signal.SIGSTOP)
    try:
        done = site.stoker("stop", site.run, "--now", "--reason", "no answer")
        check("switch/kill" in done.stdout, f"no switch file: {done.stdout}{done.stderr}")
    finally:
        site.daemon.send_signal(signal.SIGCONT)
    site.wait_state("stopped", 60)


def an_impostor_is_not_talked_to(site):
    site.start()
    site.kill_daemon(signal.SIGKILL)
    os.chmod(site.state, 0o777)
    attacker = site.background(STRANGER, IMPOSTOR, os.path.join(site.state, "stokerd.sock"))
    done = site.stoker("stop", site.run, "--now", "--reason", "whom do I tell?", ok=False)
    check("refused" in done.stderr and STRANGER in done.stderr, f"the owner talked to a stranger: {done.stdout}{done.stderr}")
    attacker.kill()
    heard = attacker.stdout.read()
    check("whom do I tell" not in heard, f"a stranger heard {heard}")


def leftovers_are_swept(site):
    site.start()
    site.kill_daemon(signal.SIGKILL)
    left = [os.path.join(f, "x.json.new.4711.0") for f in (site.state, site.directory, os.path.join(site.directory, "orders"))]
    for path in left:
        with open(path, "w", encoding="utf-8"):
            os.chown(path, *site.ids(OWNER))
        os.utime(path, (time.time() - 7200,) * 2)
    site.start_daemon()
    site.wait(lambda: not any(map(os.path.exists, left)), 20, "the leftovers to be swept")


make_users()
try:
    main(the_socket_acts_on_one_run, the_run_directory_is_the_owners, what_the_training_makes_is_the_owners,
         lent_uids_are_nobodys, batch_folder_of_another, nothing_secret_is_read, junk_hides_no_kill, a_colleague_fills_nothing,
         what_is_refused_no_agent_obeys, the_owners_order_is_the_owners, a_folder_keeps_no_order_out, leftovers_are_swept,
         a_former_colleague_orders_nothing, a_crowd_stalls_nothing, a_silent_daemon_gets_orders_by_file, an_impostor_is_not_talked_to,
         site_of=SharedSite)
finally:
    remove_users()
    sys.stdout.flush()
