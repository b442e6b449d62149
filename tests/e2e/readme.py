"""README's section "Use", exactly as printed, by a shell in a folder that has what a built clone has: it leads to a training."""
import os
import re
import subprocess

from e2e._harness import BIN, check, main

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def section(name):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        return f.read().partition(f"## {name}\n")[2].partition("\n## ")[0]


def blocks(text, kind):
    fences = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)  # prose, kind, block, "", prose, kind, ...
    return [block for opened, block in zip(fences[1::4], fences[2::4]) if opened == kind]


def as_printed(site):
    clone = os.path.join(site.folder, "clone")
    os.makedirs(os.path.join(clone, "build"))
    os.symlink(BIN, os.path.join(clone, "build", "bin"))
    os.symlink(os.path.join(ROOT, "configs"), os.path.join(clone, "configs"))
    commands = blocks(section("Use"), "")
    check(len(commands) == 1, f"README's Use has {len(commands)} blocks of commands")
    end = "[ -z \"$!\" ] || { kill $!; wait $!; }"
    script = f"set -e\ntrap '{end}' EXIT\n" + commands[0]
    environment = {"HOME": site.folder, "PATH": "/usr/bin:/bin", "STOKER_STATE": site.state}
    done = subprocess.run(["bash", "-c", script], cwd=clone, env=environment, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=240, check=False)
    check(done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    for word in ("* hello", "hello"):
        check(word in done.stdout, f"{word!r} is not in what the commands print:\n{done.stdout}")


def smallest_file_is_the_example(_site):
    """The RUN.yaml shown is configs/examples/hello.yaml, but for its comments."""
    shown = blocks(section("Use"), "yaml")
    check(len(shown) == 1, "README's Use shows one RUN.yaml")
    with open(os.path.join(ROOT, "configs", "examples", "hello.yaml"), encoding="utf-8") as f:
        example = [line for line in f.read().splitlines() if not line.startswith("#")]
    check(shown[0].splitlines() == example, f"README shows\n{shown[0]}")


main(as_printed, smallest_file_is_the_example)
