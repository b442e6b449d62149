"""`stoker top` in a real terminal (tmux): a run is seen, opened and saved; a dead daemon, a resize, a signal, no full screen."""
import json
import os
import shutil
import signal
import subprocess
import time

from e2e._harness import BIN, check, main, skip
from e2e._screen import Screen

STOKER = os.path.join(BIN, "stoker")
SHAPE = dict(samples=400000, save_every=1000000, hidden=64, ffn=256, sequence=64)


def in_screen(test):
    def with_screen(site):
        if shutil.which("tmux") is None:
            skip("tmux is not installed")
        screen = Screen(site)
        try:
            test(site, screen)
        finally:
            screen.close()
    with_screen.__name__ = test.__name__
    return with_screen


def start(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait_iteration(5)


def settings_of(screen, name):
    """The terminal's settings by stty, by the shell in it."""
    path = os.path.join(screen.site.folder, name)
    screen.line(f"stty -g > {path}.part && mv {path}.part {path}")
    screen.site.wait(lambda: os.path.exists(path), 20, "stty")
    with open(path, encoding="utf-8") as f:
        return f.read()


@in_screen
def seen_opened_saved_stale_resized(site, screen):
    start(site)
    before = settings_of(screen, "before")
    screen.line("echo mark-of-the-shell; stoker top; echo exit code $?")
    screen.sees("stoker top", "daemon ok", site.run, "training")
    check("mark-of-the-shell" not in screen.text(), "the shell's text is on the full screen")
    screen.keys("Enter")
    screen.sees("[why]", "because")
    screen.keys("2")
    screen.sees("[nodes]", "n01", "ranks (", "tenths of the hang limit")
    screen.keys("Tab")
    screen.sees("[logs]", "lm loss")
    check(site.status()["checkpoint"] is None, "there is a checkpoint before one was asked for")
    screen.keys("s")
    screen.sees(f"save {site.run}: would", "do it? y/N")
    screen.keys("n")
    screen.sees("nothing was done")
    check(not asked_for(site, "save"), "a dry run, or a no, saved")
    screen.keys("s")
    screen.sees("do it? y/N")
    screen.keys("y")
    site.wait(lambda: asked_for(site, "save"), 20, "the request in the journal")
    check("asked for in stoker top" in json.dumps(asked_for(site, "save")), "the reason is not recorded")
    iteration = site.wait(lambda: site.status()["checkpoint"], 30, "the checkpoint")["iteration"]
    screen.keys("q")
    screen.sees(f"checkpoint  iteration {iteration:,}")
    screen.keys("p")
    screen.sees(f"pause {site.run}: would")
    screen.keys("Escape")
    screen.sees("nothing was done")
    screen.keys("g")
    os.kill(site.daemon.pid, signal.SIGSTOP)
    screen.sees("STALE: the daemon has not answered for", seconds=5)
    os.kill(site.daemon.pid, signal.SIGCONT)
    screen.wait(lambda text: "daemon ok" in text and "STALE" not in text, 10, "the end of the banner")
    site.kill_daemon()
    killed = time.monotonic()
    screen.sees("STALE: no daemon is running", "stokerd --state", seconds=5)
    check(time.monotonic() - killed <= 5, "the banner came late")
    for columns, rows in [(60, 15), (200, 50), (10, 6), (80, 24)]:
        screen.resize(columns, rows)
        text = screen.wait(lambda text, c=columns: drawn_for(text, c), 10, f"the screen of {columns} x {rows}")
        check(len(text.splitlines()) <= rows, f"{columns} x {rows}:\n{text}")
    screen.keys("q")
    screen.sees("mark-of-the-shell", "exit code 0")
    check("daemon" not in screen.text(), f"the full screen stays after q:\n{screen.text()}")
    check(settings_of(screen, "after") == before, "the terminal's settings are others after q")


def drawn_for(text, columns):
    """The table's head is there, as wide as this many columns allow."""
    wanted = {10: "> ", 60: "CKPT", 80: "BUDGET", 200: "BUDGET"}[columns]
    rows = text.splitlines()
    foot = [row for row in rows if row.startswith("Enter open")]
    return wanted in text and foot and all(len(row) <= columns for row in rows) and ("q quit" in foot[0]) == (columns >= 60)


def asked_for(site, verb):
    return [e for e in site.events() if e["kind"] == "operator_asked" and e["event"].get("verb") == verb]


@in_screen
def signals_give_the_terminal_back(site, screen):
    before = settings_of(screen, "before")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT):
        screen.line("clear; stoker top")
        screen.sees("stoker top", "NO DAEMON", "no runs")
        pid = site.wait(screen.top_pid, 10, "the process")
        os.kill(pid, number)
        site.wait(lambda: screen.top_pid() is None, 10, f"the end by signal {number}")
        screen.line("echo exit code $?")
        screen.sees(f"exit code {128 + number}")
        check("NO DAEMON" not in screen.text(), f"the screen is not restored after {number}")
        check(settings_of(screen, f"after-{number}") == before, f"the terminal's settings are others after signal {number}")
    screen.line("clear; stoker top")
    screen.sees("no runs")
    screen.keys("C-c")
    site.wait(lambda: screen.top_pid() is None, 10, "the end by Ctrl-C")
    screen.line("echo exit code $?")
    screen.sees("exit code 130")


@in_screen
def without_a_full_screen(site, screen):
    screen.line("clear; TERM=dumb stoker top; echo exit code $?")
    screen.sees("no full screen here (TERM=dumb)", "no runs; `stoker run RUN.yaml`", "exit code 0")
    done = site.stoker("top", ok=False)
    check(done.returncode == 0 and "no runs" in done.stdout, f"in a pipe: {done.returncode} {done.stdout}{done.stderr}")
    check(done.stderr.count("no full screen here") == 1 and "\033" not in done.stdout + done.stderr, done.stderr)
    screen.line("clear; stoker status --watch")
    screen.sees("no runs; `stoker run RUN.yaml`")
    screen.keys("C-c")
    publish(site, 3, 4)
    env = dict(site.env, COLUMNS="60", LINES="12")
    once = subprocess.run([STOKER, "top", "--once"], env=env, text=True, capture_output=True, timeout=20, check=True).stdout
    lines = once.splitlines()
    check(len(lines) == 12 and max(map(len, lines)) <= 60 and "run-000" in once, once)
    screen.resize(50, 10)
    screen.line("clear; unset LINES COLUMNS; stoker status --watch")
    text = screen.sees("* run-000", "more lines")
    for i in range(3):
        check(f"* run-{i:03}" in text, f"status --watch lost a run's state:\n{text}")
    screen.keys("C-c")


def publish(site, runs, nodes, iteration=100):
    """What a daemon would have published of many runs, without the runs."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    published = os.path.join(site.state, "published")
    os.makedirs(published, exist_ok=True)

    def write(path, text):
        with open(path + ".part", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".part", path)
    names = [f"n{i:04}" for i in range(nodes)]
    listed = []
    for i in range(runs):
        name = f"run-{i:03}"
        folder, copy = os.path.join(site.folder, "runs", name), os.path.join(published, "runs", name)
        listed.append({"run": name, "directory": folder, "copy": copy})
        document = {"run": name, "directory": folder, "state": "training", "since": now, "published": now, "iteration": iteration,
                    "total": 10000, "loss": 2.5, "step_s": 1.5, "step_norm_s": 1.4, "generation": 1, "attempt": 1, "job": "12",
                    "reason": "first iteration of generation 1 after 12 s", "deadline_s": 20, "eta_s": 60000,
                    "loss_history": [9 - 0.1 * k for k in range(60)], "nodes": names[i * nodes // runs:(i + 1) * nodes // runs]}
        for where in (folder, copy):
            os.makedirs(where, exist_ok=True)
            write(os.path.join(where, "status.json"), json.dumps(document) + "\n")
    write(os.path.join(published, "site.json"), json.dumps({"runs": listed}) + "\n")
    write(os.path.join(published, "nodes.jsonl"), "".join(
        json.dumps({"node": name, "state": "ok", "evidence": [], "score": 0, "gpus": [], "advice": ""}) + "\n" for name in names))


def seconds_of_cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@in_screen
def cheap_with_many_runs(site, screen):
    """50 runs on 1,000 nodes, all published again each second: at most 2 % of a processor, also on a busy machine."""
    screen.resize(200, 50)
    publish(site, 50, 1000)
    screen.line("stoker top")
    screen.sees("50 runs", "run-000")
    pid = site.wait(screen.top_pid, 10, "the process")
    for keys in ([], ["Enter", "2"]):
        for key in keys:
            screen.keys(key)
        if keys:
            screen.sees("[nodes]", "n0000")
        began, used = time.monotonic(), seconds_of_cpu(pid)
        for i in range(8):
            publish(site, 50, 1000, iteration=200 + i)
            time.sleep(1)
        share = (seconds_of_cpu(pid) - used) / (time.monotonic() - began)
        print(f"# {100 * share:.2f} % of a processor{' on the page of the nodes' if keys else ''}", flush=True)
        check(share < 0.02, f"stoker top uses {100 * share:.1f} % of a processor")
    screen.keys("F10")


main(seen_opened_saved_stale_resized, signals_give_the_terminal_back, without_a_full_screen, cheap_with_many_runs)
