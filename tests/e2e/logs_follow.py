"""`stoker logs -f`: filters of ranks and nodes, files that are renamed, cut off and replaced, several of them, the next generation,
and how Ctrl-C ends it. The run directory is written here, as agents write it."""
import json
import os
import signal
import subprocess
import threading
import time

from e2e._harness import BIN, check, main, run_program

STOKER = os.path.join(BIN, "stoker")


class Run:
    def __init__(self, site):
        self.site = site
        self.folder = os.path.join(site.folder, "hello")
        os.makedirs(os.path.join(self.folder, "switch"))
        os.makedirs(os.path.join(self.folder, "orders"))

    def path(self, name, generation=1):
        return os.path.join(self.folder, f"gen-{generation:06d}", name)

    def write(self, text, name="main.log", generation=1, mode="a"):
        path = self.path(name, generation)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode, encoding="utf-8") as f:
            f.write(text)


class Follower:
    def __init__(self, run, *arguments):
        # Tests that run in the background ignore SIGINT; a person's shell does not.
        self.child = subprocess.Popen([STOKER, "logs", run.folder, "-f", *arguments], env=run.site.env, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.lines = []
        threading.Thread(target=lambda: [self.lines.append(x.rstrip("\n")) for x in self.child.stdout], daemon=True).start()

    def wait(self, wanted, what):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.lines != wanted:
            time.sleep(0.05)
        check(self.lines == wanted, f"{what}: {self.lines} instead of {wanted}")

    def close(self):
        if self.child.poll() is None:
            self.child.terminate()
        self.child.wait(timeout=20)


def filters(site):
    run = Run(site)
    run.write("".join(f"[n{r // 2 + 1:02d}:{r}] step {i}\n" for i in range(3) for r in range(4)) + "no label\n")
    for arguments, wanted in [
            (["--rank", "2"], [f"[n02:2] step {i}" for i in range(3)]),
            (["--rank", "0,2-3", "-n", "3"], ["[n01:0] step 2", "[n02:2] step 2", "[n02:3] step 2"]),
            (["--node", "n02", "-n", "2"], ["[n02:2] step 2", "[n02:3] step 2"]),
            (["--node", "n[01-02]", "--rank", "1", "-n", "1"], ["[n01:1] step 2"]),
            (["-n", "1"], ["no label"]), (["--rank", "7"], []), (["--node", "n0"], [])]:
        done = run_program("stoker", "logs", run.folder, *arguments, env=site.env)
        check(done.stdout.splitlines() == wanted, f"{arguments}: {done.stdout}")
    follower = Follower(run, "--rank", "1", "--json", "-n", "1")
    try:
        end = time.monotonic() + 20
        while not follower.lines and time.monotonic() < end:
            time.sleep(0.05)
        run.write("[n01:1] \x1b[31mred\n[n01:0] other\n[n01:1] half")
        run.write(" a line\n")
        first = '{"generation":"gen-000001","node":"n01","rank":1,"text":'
        end = time.monotonic() + 20
        while len(follower.lines) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        found = [json.loads(x) for x in follower.lines]
        check([x["text"] for x in found] == ["step 2", "\x1b[31mred", "half a line"], f"{found}")
        check(all(x["rank"] == 1 and x["node"] == "n01" and x["generation"] == "gen-000001" for x in found), f"{first}: {found}")
    finally:
        follower.close()
    for wrong in [["--rank", "x"], ["--rank", "3-1"], ["--rank", "1,"], ["--rank", "4294967296"], ["--node", "n[1-"]]:
        done = run_program("stoker", "logs", run.folder, *wrong, ok=False, env=site.env)
        check(done.returncode == 2 and len(done.stderr.splitlines()) == 1, f"{wrong}: {done.returncode} {done.stderr}")


def rotation(site):
    run = Run(site)
    run.write("[n01:0] one\n")
    follower = Follower(run)
    seen = ["[n01:0] one"]
    try:
        follower.wait(seen, "what was there")
        run.write("[n01:0] two\n")
        os.rename(run.path("main.log"), run.path("main.log.1"))
        run.write("[n01:0] last of the old\nunfinished", "main.log.1")
        time.sleep(0.6)
        run.write("[n01:0] first of the new\n")
        seen += ["[n01:0] two", "[n01:0] last of the old", "unfinished", "[n01:0] first of the new"]
        follower.wait(seen, "through a renamed file")
        run.write("", mode="w")
        time.sleep(0.6)
        run.write("[n01:0] cut\n")
        seen += ["[n01:0] cut"]
        follower.wait(seen, "a file that was cut off")
        with open(run.path("main.log.new"), "w", encoding="utf-8") as f:
            f.write("[n01:0] replaced\n")
        os.replace(run.path("main.log.new"), run.path("main.log"))
        seen += ["[n01:0] replaced"]
        follower.wait(seen, "a file put in its place")
        run.write("[n01:0] bye\n")
        run.write("[n02:0] hello again\n", generation=2)
        seen += ["[n01:0] bye", "[n02:0] hello again"]
        follower.wait(seen, "the next generation")
    finally:
        follower.close()


def several_files(site):
    run = Run(site)
    run.write("[n01:0] main\n")
    for rank in (0, 3):
        run.write(f"own {rank}\n", f"ranks/{rank}.log")
    follower = Follower(run, "--rank", "0,3")
    try:
        follower.wait(["[0] own 0", "[3] own 3"], "two ranks' own files")
        run.write("more\n", "ranks/3.log")
        follower.wait(["[0] own 0", "[3] own 3", "[3] more"], "what one of them gained")
        os.rename(run.path("ranks/3.log"), run.path("ranks/3.log.1"))
        run.write("new\n", "ranks/3.log")
        run.write("too\n", "ranks/0.log")
        end = time.monotonic() + 20
        while len(follower.lines) < 5 and time.monotonic() < end:
            time.sleep(0.05)
        check(sorted(follower.lines[3:]) == ["[0] too", "[3] new"], f"{follower.lines}")
    finally:
        follower.close()


def how_it_ends(site):
    run = Run(site)
    nobody = run_program("stoker", "logs", run.folder, ok=False, env=site.env)
    check(nobody.returncode == 1 and "no generation" in nobody.stderr, f"{nobody.stderr}")
    follower = Follower(run)
    time.sleep(0.5)
    run.write("[n01:0] at last\n")
    follower.wait(["[n01:0] at last"], "a run that starts later")
    follower.child.send_signal(signal.SIGINT)
    check(follower.child.wait(timeout=20) == -signal.SIGINT, f"Ctrl-C: {follower.child.returncode}, a shell expects 130")
    check("Traceback" not in follower.child.stderr.read(), "Ctrl-C is no failure to talk about")


main(filters, rotation, several_files, how_it_ends)
