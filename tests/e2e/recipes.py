"""The recipes of docs/recipes.md with the real libraries: as they are, and with the lines of their stoker.diff.

Each trains, loses a rank to kill -9, resumes from its own checkpoint, and finishes. Plain MPI takes Debian's Open MPI and mpi4py;
the others take the Python that python_package.py takes ($STOKER_TORCH_PYTHON, or with --long one that pip fills from PyPI).

To add a recipe: configs/examples/recipes/NAME with RUN.yaml, train.py (400 steps, saved every 50 in checkpoints/, loss printed)
and stoker.diff, a section of docs/recipes.md with its blocks (./dev docs fills them), and a row of LIBRARIES here.
"""
import glob
import math
import os
import re
import shutil
import signal
import subprocess

from e2e._harness import check, main
from e2e._python import DEBIAN, ROOT, has, package, torch_python

RECIPES = os.path.join(ROOT, "configs", "examples", "recipes")
STEPS, SAVE_EVERY = 400, 50  # of every train.py
STEP_SECONDS = 0.05  # at least: a fast machine would be through before a rank can be killed
LOOP = re.compile(r"^( *)(?:for step in range\(first|def training_step\().*:\n", re.MULTILINE)


def slow_down(script):
    with open(script, encoding="utf-8") as file:
        text, loops = LOOP.subn(lambda at: f"{at[0]}{at[1]}    __import__('time').sleep({STEP_SECONDS})\n", file.read())
    check(loops == 1, f"{script} has {loops} training loops that this test knows")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text)


def copied(site, name, lines, python, launcher):
    """A folder of its own with the recipe, as docs/recipes.md says it is tried; `lines`: with the change."""
    folder = os.path.join(site.folder, name)
    shutil.copytree(os.path.join(RECIPES, name), folder)
    site.run, site.directory = name, os.path.join(folder, "run")
    path = os.environ.get("STOKER_TORCH_PATH", "")
    if lines:
        with open(os.path.join(folder, "stoker.diff"), encoding="utf-8") as change:
            done = subprocess.run(["patch", "--fuzz=0"], cwd=folder, stdin=change, text=True, capture_output=True)
        check(done.returncode == 0, f"{name}: {done.stdout}{done.stderr}")
        path = package(os.path.join(site.folder, "site")) + os.pathsep + path
    slow_down(os.path.join(folder, "train.py"))
    site.env["PYTHONPATH"] = path.strip(os.pathsep)  # of the daemon; the ranks get it from there
    install(site, "python3", python)
    if launcher:  # it finds another python3 than the first in PATH
        install(site, os.path.basename(launcher), launcher, OMPI_ALLOW_RUN_AS_ROOT="1",
                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    return os.path.join(folder, "RUN.yaml")


def install(site, name, program, **variables):
    """In PATH, under this name, a program of this machine with what a user's environment gives it."""
    folder = os.path.join(site.folder, "bin")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
        file.write("#!/bin/sh\n" + "".join(f"export {key}='{value}'\n" for key, value in variables.items()))
        file.write(f"exec '{program}' \"$@\"\n")
    site.env["PATH"] = folder + os.pathsep + site.env["PATH"].removeprefix(folder + os.pathsep)


def ranks_of(site):
    """The processes that run train.py itself, without a launcher."""
    found = []
    for pid in site.our_processes():
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                argv = file.read().split("\0")
        except OSError:
            continue
        if os.path.basename(argv[0]).startswith("python") and any(word.endswith("train.py") for word in argv[1:3]):
            found.append(pid)
    return found


def on_disk(site):
    """The iterations of which the training has a checkpoint."""
    names = os.listdir(os.path.join(site.directory, "checkpoints"))
    return {int(re.findall(r"\d+", name)[-1]) for name in names if re.search(r"\d(\.pt|\.ckpt)?$", name)}


def saved(site):
    return (site.status().get("checkpoint") or {}).get("iteration", 0)


def output_of(site):
    text = ""
    for path in sorted(glob.glob(os.path.join(site.directory, "gen-*", "main.log"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            text += file.read()
    return text


def last_loss_of(site):
    """What the training itself has printed last; empty: its lines have no loss."""
    found = re.findall(r"\bloss[= ]([0-9.]+)", output_of(site))
    return float(found[-1]) if found else None


def between(site):
    """Iterations of checkpoints that are not the training's own."""
    return {at for at in on_disk(site) if at % SAVE_EVERY}


def saves_on_request(site):
    """A checkpoint between two of the training's own; a request that falls on one of them is repeated."""
    for _ in range(5):
        before = saved(site)
        said = site.stoker("save", site.run, "--reason", "try").stdout
        check("acknowledged" in said, f"stoker save: {said}")
        site.wait(lambda: saved(site) > before, 60, "a checkpoint after the request")
        if between(site):
            return
    check(False, f"no save between two others: {sorted(on_disk(site))}")


def begun(site):
    """The status, once the training has saved and goes on; what it printed, where it is held."""
    now = site.status()
    check(now.get("state") != "held", f"{now.get('reason')}\n{output_of(site)[-3000:]}")
    return saved(site) >= SAVE_EVERY and now["iteration"] > SAVE_EVERY and now


def goes_through(site, name, lines, python, last=STEPS, total=STEPS, launcher=""):
    """`last`, `total`: what stoker learns of the iterations without the change."""
    config = copied(site, name, lines, python, launcher)
    site.start_daemon()
    site.stoker("check", config)
    site.stoker("run", config, "--yes")
    now = site.wait(lambda: begun(site), 300, "the first checkpoint and what follows it")
    total = STEPS if lines else total
    check(now.get("total", 0) == total, f"total {now.get('total')} instead of {total}")
    check(len(ranks_of(site)) == 2, f"ranks: {ranks_of(site)}")
    os.kill(max(ranks_of(site)), signal.SIGKILL)
    again = site.wait(lambda: [e["reason"] for e in site.events() if "raining again from iteration" in e["reason"]], 120,
                      "training again")[0]
    first = int(re.search(r"again from iteration (\d+)", again).group(1))
    check(first >= SAVE_EVERY and first % SAVE_EVERY == 0, f"it did not resume from a checkpoint: {again}")
    if lines:
        saves_on_request(site)
    else:
        done = site.stoker("save", site.run, "--reason", "try", ok=False)
        check(done.returncode == 1 and "writes no heartbeat page and train.save_signal is not set" in done.stderr,
              f"a save that the training cannot do: exit {done.returncode}: {done.stdout}{done.stderr}")
    done = site.wait_state("finished", 400)
    check(done["iteration"] == (STEPS if lines else last), f"iteration {done['iteration']}")
    check(saved(site) == STEPS and STEPS in on_disk(site), f"last checkpoint {saved(site)}, {sorted(on_disk(site))}")
    printed = last_loss_of(site)
    loss = done.get("loss")
    if printed is None and not lines:
        check(loss is None, f"loss {loss} of lines without a loss")
    else:
        check(loss is not None and 0 <= loss < 1000, f"loss {loss}")
        check(printed is None or math.isclose(loss, printed, rel_tol=0.01, abs_tol=0.001), f"loss {loss}, it printed {printed}")
    check(done["restarts"] == 1, f"restarts: {done['restarts']}: {done['reason']}")
    site.audit()


def mpi(site, lines):
    done = shutil.which("mpirun") and subprocess.run([DEBIAN, "-c", "from mpi4py import MPI"], capture_output=True, text=True)
    if not done or done.returncode != 0:
        return print(f"not tested: mpirun or mpi4py of {DEBIAN} is missing (openmpi-bin, python3-mpi4py)", flush=True)
    goes_through(site, "mpi", lines, DEBIAN, launcher=shutil.which("mpirun"))


# Of each recipe in Python: the modules that it imports, and what stoker learns of it as it is.
LIBRARIES = {
    "ddp": (["torch"], {}),
    "accelerate": (["accelerate", "tqdm"], {}),
    "lightning": (["lightning.pytorch"], dict(total=0)),
    "deepspeed": (["deepspeed"], dict(total=0)),
    "jax": (["jax", "orbax.checkpoint"], {}),
}


def with_python(site, name, lines):
    modules, learned = LIBRARIES[name]
    if has(*modules):
        goes_through(site, name, lines, torch_python(), **({} if lines else learned))


def cases():
    for name in ("mpi", *LIBRARIES):
        for lines in (False, True):
            def case(site, name=name, lines=lines):
                if name == "mpi":
                    mpi(site, lines)
                else:
                    with_python(site, name, lines)
            case.__name__ = f"{name}_{'with_lines' if lines else 'as_it_is'}"
            yield case


main(*cases())
