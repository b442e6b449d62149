"""When a person is needed: a crash loop is held with its reason and stops submitting; a command that does not exist, too."""
import json
import os

from e2e._harness import check, main


def orders(site):
    return len(os.listdir(os.path.join(site.directory, "orders")))


def crash_loop_is_held(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, command="sh, -c, 'echo no luck; exit 3'", without_progress=2)
    site.stoker("run", config, "--yes")
    held = site.wait_state("held", 90)
    check("3" in held["reason"], f"the reason has no numbers: {held['reason']}")
    check(any(a["severity"] == "critical" and a["command"] for a in held["alerts"]), "no critical alert with a command")
    before, name, folder = orders(site), site.run, site.directory
    # While another run lives its whole life here, nothing is done for the one that is held.
    site.use_run("beside")
    site.stoker("run", site.write_files(prefix), "--yes")
    site.wait_state("finished", 90)
    site.run, site.directory = name, folder
    check(orders(site) == before and site.status()["state"] == "held", "a held run was submitted again")
    check(not site.page_pids(), "ranks of a held run are alive")
    runs_leave_the_list(site)
    site.audit()


def listed(site):
    return {run["run"] for run in json.loads(site.stoker("status", "--json").stdout)}


def has_no_job(site, run):
    """A finished run's job ends a moment after its training; until then the run keeps its name."""
    asked = site.stoker("rename", run, "kept", "--yes", "--dry-run", ok=False)
    check(asked.returncode == 0 or "has not ended yet" in asked.stderr, f"{run} cannot be renamed: {asked.stderr}")
    return asked.returncode == 0


def runs_leave_the_list(site):
    """`rename` keeps the history; `forget` takes only a run that is over, once, and leaves its files where they are."""
    done = site.stoker("forget", site.run, "--yes", ok=False)
    check(done.returncode == 1 and "is held since" in done.stderr and f"stoker stop {site.run}" in done.stderr,
          f"a held run was forgotten, or no word what to do: {done.stderr}")
    folder = os.path.join(os.path.dirname(site.directory), "beside")
    decided = json.loads(site.stoker("why", "beside", "--last", "50", "--json").stdout)
    done = site.stoker("rename", "beside", site.run, "--yes", ok=False)
    check(done.returncode == 1 and "already" in done.stderr, f"two runs of one name: {done.stderr}")
    done = site.stoker("rename", "beside", "a/b", "--yes", ok=False)
    check(done.returncode == 1 and "expected 1 to 64" in done.stderr, f"a name with a slash: {done.stderr}")
    site.wait(lambda: has_no_job(site, "beside"), 60, "the end of the finished run's job")
    done = site.stoker("rename", "beside", "kept", "--yes")
    check(f"directory: {folder}" in done.stdout, f"not said what RUN.yaml must say: {done.stdout}")
    site.wait(lambda: listed(site) == {site.run, "kept"}, 20, "the new name in status")
    check(json.loads(site.stoker("status", "kept", "--json").stdout)["state"] == "finished", "the renamed run is not finished")
    site.wait(lambda: "ename requested by" in open(os.path.join(folder, "chronicle.md"), encoding="utf-8").read(), 20,
              "the new name in the chronicle")
    after = json.loads(site.stoker("why", "kept", "--last", "50", "--json").stdout)
    check([d["seq"] for d in decided] == [d["seq"] for d in after][-len(decided):] or
          {d["seq"] for d in decided} <= {d["seq"] for d in after}, "decisions were lost with the name")
    checkpoints = sorted(os.listdir(os.path.join(folder, "checkpoints")))
    done = site.stoker("forget", "kept", "--dry-run")
    check("would: forget requested" in done.stdout, f"the dry run says {done.stdout}")
    done = site.stoker("forget", "kept", ok=False)
    check(done.returncode == 1 and "--yes" in done.stderr and "kept" in listed(site), f"not asked: {done.stdout}{done.stderr}")
    site.stoker("forget", "kept", "--yes", "--reason", "published")
    site.wait(lambda: listed(site) == {site.run}, 20, "a list without the forgotten run")
    site.wait(lambda: not os.path.exists(os.path.join(site.state, "published", "runs", "kept")), 20, "its copy gone")
    site.wait(lambda: not os.path.exists(os.path.join(folder, "owner.json")), 20, "a directory without an owner")
    check(sorted(os.listdir(os.path.join(folder, "checkpoints"))) == checkpoints and checkpoints, "checkpoints are gone")
    done = site.stoker("forget", folder, "--yes")
    check("already" in done.stdout, f"asked twice: {done.stdout}{done.stderr}")
    done = site.stoker("forget", "nosuchrun", "--yes", ok=False)
    check(done.returncode == 1 and "nosuchrun" in done.stderr, f"a run that never was: {done.stderr}")
    site.kill_daemon()
    site.start_daemon()
    check(listed(site) == {site.run}, "the forgotten run is back after kill -9")
    with open(os.path.join(folder, "events.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line)["seq"] for line in f]
    check(len(rows) == len(set(rows)) and rows == sorted(rows), "events.jsonl has a row twice")
    # The same name in the same folder begins a new history behind the old generations.
    newest = max(n for n in os.listdir(folder) if n.startswith("gen-"))
    name, own = site.run, site.directory
    site.run, site.directory = "beside", folder
    site.stoker("run", os.path.join(site.folder, "beside.yaml"), "--yes")
    site.wait_state("finished", 90)
    check(max(n for n in os.listdir(folder) if n.startswith("gen-")) > newest, "a generation was used twice")
    check("ename requested by" not in open(os.path.join(folder, "chronicle.md"), encoding="utf-8").read(), "the old story goes on")
    site.run, site.directory = name, own


def a_refused_configuration_is_held(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix)
    site.stoker("run", config, "--yes")
    site.wait_state("finished", 90)
    site.use_run("second")
    config = site.write_files(prefix, samples=80000)
    site.stoker("run", config, "--yes")
    site.wait_iteration(5)
    train = config.replace(".yaml", ".train.yaml")
    with open(train, "a", encoding="utf-8") as f:
        f.write("nonsense: true\n")
    for pid in site.page_pids().values():
        os.kill(pid, 9)
    held = site.wait_state("held", 60)
    check("configuration" in held["reason"], f"the reason does not name the configuration: {held['reason']}")


main(crash_loop_is_held, a_refused_configuration_is_held)
