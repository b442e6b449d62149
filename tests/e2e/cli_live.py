"""Every command of `stoker` with a daemon, without one, without anything: exit codes, JSON, one line an error, closed pipes."""
import json
import os
import shutil
import subprocess
import time

from e2e._harness import BIN, check, main, run_program

STOKER = os.path.join(BIN, "stoker")
SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64, save_every=20)
# Reading commands: (arguments, "document" or "lines").
READING = [(["status"], "document"), (["status", "RUN"], "document"), (["pulse"], "document"), (["pulse", "RUN"], "document"),
           (["why", "RUN"], "document"), (["events", "RUN"], "lines"), (["chronicle", "RUN"], "document"),
           (["nodes"], "lines"), (["nodes", "RUN"], "lines"), (["alerts"], "document"), (["doctor"], "document"),
           (["logs", "RUN", "-n", "20"], "lines")]
ACTING = [["save"], ["stop"], ["pause"], ["resume"], ["restart"], ["rollback", "--to", "20"], ["stacks"]]


def start(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.config = site.write_files(prefix, **SHAPE)
    site.stoker("run", site.config, "--yes")
    site.wait_iteration(25)


def one_line(done, what):
    lines = done.stderr.strip().splitlines()
    check(len(lines) == 1 and lines[0].startswith("stoker: "), f"{what}: not one line: {done.stderr}")


def read_all(site, away):
    for argv, shape in READING:
        argv = [site.run if a == "RUN" else a for a in argv]
        done = site.stoker(*argv, "--json", ok=False)
        what = f"{' '.join(argv)} --json (daemon {'away' if away else 'here'})"
        expected = 2 if away and argv[0] == "pulse" else 0  # an ***ALERT: the run is not observed
        check(done.returncode == expected or argv == ["doctor"], f"{what}: exit {done.returncode} {done.stderr}")
        if shape == "document":
            json.loads(done.stdout)
        else:
            for line in done.stdout.splitlines():
                check(isinstance(json.loads(line), dict), f"{what}: {line}")
        check(not away or "no daemon is running" in done.stderr or argv[0] in ("doctor", "logs"), f"{what} does not say so")
        check(away or "no daemon" not in done.stderr, f"{what}: {done.stderr}")
        plain = site.stoker(*argv, ok=False)
        same = plain.returncode == done.returncode or argv == ["doctor"]  # it asks the machine, which changes
        check(same and plain.stdout.strip(), f"{what} says nothing to people: exit {plain.returncode}, {done.returncode}: {plain.stderr}")
        check("\033" not in plain.stdout + plain.stderr, f"{what}: colours in a pipe")
    status = json.loads(site.stoker("status", site.run, "--json").stdout)
    check(status["stale"] is away, f"stale is {status['stale']}")
    config = json.loads(site.stoker("check", site.config, "--json").stdout)
    check(config["ok"] is True, f"check: {config}")
    check(json.loads(site.stoker("plan", site.config, "--json").stdout)["parameters"] > 0, "plan")
    log = os.path.join(site.directory, "gen-000001", "main.log")
    found = [json.loads(line) for line in site.stoker("parse", log, "--json").stdout.splitlines()]
    check(found and {"iteration", "loss", "lr", "file", "line"} <= found[0].keys(), f"parse: {found[:1]}")


def reading_with_and_without_a_daemon(site):
    start(site)
    read_all(site, False)
    nodes = [json.loads(line) for line in site.stoker("nodes", "--json").stdout.splitlines()]
    check("n01" in [n["node"] for n in nodes], f"nodes: {nodes}")
    site.stoker("exclude", "n[02-03]", "--for", "1h", "--reason", "slow")
    site.wait(lambda: any(n["node"] == "n02" and n["excluded_until"] for n in
                          map(json.loads, site.stoker("nodes", "--json").stdout.splitlines())), 20, "the excluded nodes")
    check("n[02-03]" in site.stoker("nodes").stdout, "nodes are not folded into a hostlist")
    site.stoker("include", "n[02-03]", "--reason", "repaired")

    def excluded():
        return [n["node"] for n in map(json.loads, site.stoker("nodes", "--json").stdout.splitlines()) if n["excluded_until"]]
    site.wait(lambda: not excluded(), 20, "the end of the exclusion")
    slip = site.stoker("exclude", "n01", "n2", "--reason", "a slip of the pen", ok=False)
    check(slip.returncode == 1 and "there is no node n2; near: n0" in slip.stderr, f"an unknown node: {slip.returncode} {slip.stderr}")
    check(not excluded(), f"a refused list excluded something: {excluded()}")
    stacks = site.stoker("stacks", site.run)
    check("rank" in stacks.stdout + stacks.stderr, f"stacks: {stacks.stdout}{stacks.stderr}")
    again = site.stoker("run", site.config)
    check("not changed" in again.stderr, f"the same run again: {again.stderr}")
    site.kill_daemon()
    read_all(site, True)
    check(site.stoker("status", site.directory, "--json").stdout, "RUN as a directory")


def nothing_and_nobody(site):
    """No run, no daemon, no state directory: an answer or one line that says what to do."""
    nowhere = os.path.join(site.folder, "no", "such", "state")
    for state in [nowhere, site.state]:
        def stoker(*argv):
            return run_program("stoker", "--state", state, *argv, ok=False, env=site.env, limit=20)
        check(json.loads(stoker("status", "--json").stdout) == [] and stoker("status").returncode == 0, "status of nothing")
        check(json.loads(stoker("alerts", "--json").stdout) == [], "alerts of nothing")
        for argv in [["pulse"], ["nodes", "--json"]]:
            check(stoker(*argv).returncode == 0 and stoker(*argv).stdout == "", f"{argv} of nothing")
        for verb in [["status"], ["pulse"], ["why"], ["events"], ["chronicle"], ["logs"], *ACTING]:
            done = stoker(verb[0], "nobody", *verb[1:], *(["--reason", "x"] if verb in ACTING[:-1] else []))
            check(done.returncode == 1 and done.stdout == "" and "nobody" in done.stderr, f"{verb}: {done.returncode} {done.stderr}")
            one_line(done, verb[0])
        for argv in [["exclude", "n01", "--reason", "x"], ["include", "n01", "--reason", "x"], ["ack", "x"],
                     ["silence", "kind=hang"]]:
            done = stoker(*argv)
            check(done.returncode == 1 and "stokerd --state" in done.stderr, f"{argv}: {done.returncode} {done.stderr}")
            one_line(done, argv[0])
    check(not os.path.exists(nowhere), "reading made a state directory")
    for argv in [["nonsense"], ["status", "--nope"], ["status", "a", "b"], ["rollback", "x", "--reason", "y"],
                 ["exclude", "n[1-", "--reason", "x"], ["exclude", "n1", "--for", "soon", "--reason", "x"],
                 ["events", "x", "--since", "tomorrow"], ["logs", "x", "-n", "many"], ["check"], ["silence", "x"],
                 ["status", "--color", "purple"]]:
        done = run_program("stoker", "--state", nowhere, *argv, ok=False, env=site.env)
        check(done.returncode == 2 and done.stdout == "", f"{argv}: exit {done.returncode} {done.stdout}{done.stderr}")
        one_line(done, argv)
    check("did you mean \"status\"" in run_program("stoker", "stauts", ok=False, env=site.env).stderr, "no nearest command")


def a_daemon_that_is_starting(site):
    """`stokerd & stoker run`: the run waits for a daemon that begins to listen a second later."""
    config = site.write_files(site.prepare_data(), **SHAPE)
    asking = subprocess.Popen([STOKER, "--state", site.state, "run", config, "--yes"], env=site.env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(1)
    check(asking.poll() is None, "stoker run did not wait for the daemon")
    site.start_daemon()
    said = asking.communicate(timeout=60)[0]
    check(asking.returncode == 0, f"exit {asking.returncode}: {said}")


def following(site):
    start(site)
    for argv in [["events", site.run, "--follow", "--json"], ["logs", site.run, "-f", "-n", "1", "--json"]]:
        child = subprocess.Popen([STOKER, "--state", site.state, *argv], env=site.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        try:
            end = time.monotonic() + 20
            lines = []
            while len(lines) < 3 and time.monotonic() < end:
                if argv[0] == "events":
                    site.stoker("save", site.run, "--reason", "an event")
                lines.append(json.loads(child.stdout.readline()))
            check(len(lines) == 3, f"{argv} shows nothing new: {lines}")
            if argv[0] == "logs":
                check({"generation", "text"} <= lines[0].keys() and any("iteration" in x["text"] for x in lines), f"{lines}")
        finally:
            child.terminate()  # not SIGINT: a test started in the background ignores it, and its children with it
            child.wait(timeout=60)
    only = [json.loads(x) for x in site.stoker("logs", site.run, "--rank", "1", "-n", "3", "--json").stdout.splitlines()]
    check(only and all(x["rank"] == 1 for x in only), f"logs --rank 1: {only}")


def closed_pipes(site):
    """`| head -1` ends a command silently, for any output."""
    start(site)
    site.wait_iteration(400)
    with open(os.path.join(site.directory, "events.jsonl"), encoding="utf-8") as f:
        lines = f.readlines()
    with open(os.path.join(site.directory, "events.jsonl"), "a", encoding="utf-8") as f:
        f.writelines(lines * (1 + 2_000_000 // sum(map(len, lines))))
    for argv in [["events", site.run], ["events", site.run, "--json"], ["why", site.run, "--last", "100000"],
                 ["logs", site.run, "-n", "100000"], ["status"], ["chronicle", site.run], ["--help"]]:
        command = f"'{STOKER}' --state '{site.state}' {' '.join(argv)} 2>stderr.txt | head -1 >head.txt; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], env=site.env, cwd=site.folder, text=True, capture_output=True, timeout=60)
        with open(os.path.join(site.folder, "stderr.txt"), encoding="utf-8") as f:
            said = f.read()
        check(done.stdout.strip() in ("0", "141"), f"{argv}: exit {done.stdout} {said}")
        check(said == "", f"{argv} | head -1 says: {said}")
    full = subprocess.run(["bash", "-c", f"'{STOKER}' --state '{site.state}' status --json > /dev/full"], env=site.env,
                          capture_output=True, text=True, check=False)
    check(full.returncode == 1 and "No space left" in full.stderr, f"a full disk at stdout: {full.returncode} {full.stderr}")


def names_that_are_no_text(site):
    """Bytes that are no UTF-8 in paths: answers stay valid JSON, the terminal stays clean."""
    folder = os.fsencode(site.folder) + b"/b\xff\xfe\x1b[31m"
    os.makedirs(folder)
    with open(folder + b"/run.yaml", "w", encoding="utf-8") as f:
        f.write("run: hello\nscheduler: {nods: 1}\ntrain: {command: [/bin/true]}\n")
    for argv in [[b"check", folder + b"/run.yaml"], [b"check", b"--json", folder + b"/run.yaml"],
                 [b"--state", folder, b"status"], [b"--state", folder, b"status", b"--json"], [b"status", b"\xff\xfe\x1b[31m"],
                 [b"parse", folder + b"/none.log"], [b"run", folder + b"/run.yaml"], [b"doctor", b"--json", b"--state", folder]]:
        done = subprocess.run([STOKER.encode(), *argv], env=site.env, capture_output=True, check=False, timeout=30)
        check(done.returncode in (0, 1, 2), f"{argv}: exit {done.returncode}")
        check(b"\x1b" not in done.stdout + done.stderr, f"{argv}: control characters: {done.stdout}{done.stderr}")
        text = (done.stdout + done.stderr).decode("utf-8")  # raises when it is no UTF-8
        if b"--json" in argv and done.stdout:
            json.loads(done.stdout)
        check(text.strip(), f"{argv} says nothing")


def completions(site):
    for shell, check_only in [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])]:
        path = os.path.join(site.folder, f"completion.{shell}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(run_program("stoker", "completion", shell, env=site.env).stdout)
        if shutil.which(shell) is None:
            print(f"SKIPPED: no {shell} here to read its completions", flush=True)
            continue
        done = subprocess.run([*check_only, path], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and not done.stderr, f"{shell} does not read its completions: {done.stderr}")


def examples_are_good(site):
    """Every example of configs/examples is accepted as it is, and README's first steps lead to a training."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs", "examples")
    folder = os.path.join(site.folder, "examples")
    shutil.copytree(source, folder)
    for name in sorted(os.listdir(os.path.join(folder, "recipes"))):
        done = run_program("stoker", "check", os.path.join(folder, "recipes", name, "RUN.yaml"), ok=False, env=site.env)
        check(done.returncode == 0, f"configs/examples/recipes/{name}: {done.stderr}")
    for name in sorted(n for n in os.listdir(folder) if n != "recipes"):
        if os.path.isdir(os.path.join(folder, name)):  # a mesh of many nodes
            path = os.path.join(folder, name, "run.yaml")
            planned = run_program("stoker", "plan", path, ok=False, env=site.env)
            check(planned.returncode == 0 and "pipeline bubble" in planned.stdout, f"{name}: {planned.stdout}{planned.stderr}")
            done = run_program("stoker", "check", path, ok=False, env=site.env)
            check(done.returncode == 0, f"{name}: {done.stderr}")
            trained = run_program("stoker-train", "--config", os.path.join(folder, name, "train.yaml"), ok=False, env=site.env)
            check(trained.returncode == 22 and "data/" in trained.stderr and trained.stderr.count("\n") == 1,
                  f"{name}: only the data are missing: {trained.stderr}")
        elif name != "train.yaml":
            done = run_program("stoker", "check", name, ok=False, env=site.env, cwd=folder)
            check(done.returncode == 0, f"configs/examples/{name}: {done.stderr}")
    run_program("stoker-train", "prepare", os.path.join(source, "..", "..", "README.md"),
                os.path.join(source, "..", "..", "LICENSE"), "-o", os.path.join(folder, "data", "text"), "--bytes",
                "--documents", "paragraph", env=site.env)
    train = os.path.join(folder, "train.yaml")
    with open(train, encoding="utf-8") as f:
        text = f.read()
    check("data/text" in text, "the example's data are elsewhere")
    with open(train, "w", encoding="utf-8") as f:
        f.write(text.replace("data/text", os.path.join(folder, "data", "text")))
    site.use_run("hello")
    site.directory = os.path.join(site.state, "runs", "hello")
    site.start_daemon()
    site.stoker("run", os.path.join(folder, "hello.yaml"))
    site.wait_iteration(5, 120)
    site.stoker("stop", "hello", "--now", "--reason", "seen enough")
    site.wait_state("stopped", 60)


main(examples_are_good, reading_with_and_without_a_daemon, nothing_and_nobody, a_daemon_that_is_starting, following, closed_pipes, names_that_are_no_text, completions)
