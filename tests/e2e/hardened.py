"""Programs and units that meet strangers: the release preset compiles and links with every check that this compiler has, the units
bind the daemon as far as they can."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, "build", "bin")
DEPLOY = os.path.join(ROOT, "deploy")
SAMPLE = """
#include <cstdio>
#include <cstring>
int main(int argc, char** argv) {
  char text[64];
  std::strcpy(text, argv[argc - 1]);
  return std::printf("%s\\n", text) < 0;
}
"""


def say(*argv, **options):
    return subprocess.run(argv, text=True, capture_output=True, check=True, **options).stdout


def check(condition, text):
    if not condition:
        print(f"not ok: {text}")
        sys.exit(1)


def linked_well(program):
    """What is wrong with a program's headers; "" = nothing."""
    head, segments, dynamic = (say("readelf", "-W", flag, program) for flag in ("-h", "-l", "-d"))
    wrong = []
    if not re.search(r"Type:\s+DYN", head):
        wrong.append("no position-independent program")
    if "GNU_RELRO" not in segments:
        wrong.append("no read-only relocations")
    if not re.search(r"\(FLAGS(_1)?\).*\b(NOW|BIND_NOW)\b", dynamic):
        wrong.append("symbols are bound late")
    if re.search(r"GNU_STACK.*RWE", segments):
        wrong.append("an executable stack")
    return ", ".join(wrong)


def checked_well(program):
    symbols = say("readelf", "-W", "--dyn-syms", program)
    return ", ".join(what for name, what in (("__stack_chk_fail", "no stack protector"), ("_chk@", "no checked buffers"))
                     if name not in symbols)


def flags_of(folder):
    """(compile, link) flags of the agent as CMake gives them to Ninja."""
    commands = json.loads(open(os.path.join(folder, "compile_commands.json"), encoding="utf-8").read())
    command = next(c["command"] for c in commands if c["file"].endswith("worker/agent/main.cpp"))
    words = [w for w in shlex.split(command) if re.match(r"-[fmODU]|-std", w) and not w.startswith(("-fdiagnostics", "-DSTOKER"))]
    ninja = open(os.path.join(folder, "build.ninja"), encoding="utf-8").read()
    block = ninja.split("build bin/stoker-agent:", 1)[1].split("\n\n", 1)[0]
    link = re.search(r"^  LINK_FLAGS = (.*)$", block, re.M)
    return words, shlex.split(link.group(1)) if link else []


def preset():
    with tempfile.TemporaryDirectory(prefix="stoker-hardened-") as folder:
        made = os.path.join(folder, "build")
        say("cmake", "--preset", "release", "-B", made, "-DSTOKER_TRAIN=OFF", cwd=ROOT)
        words, link = flags_of(made)
        source, program, thing = (os.path.join(folder, name) for name in ("sample.cpp", "sample", "sample.o"))
        with open(source, "w", encoding="ascii") as file:
            file.write(SAMPLE)
        say("c++", *words, "-c", source, "-o", thing)
        say("c++", *words, *link, thing, "-o", program)
        wrong = ", ".join(filter(None, (linked_well(program), checked_well(program))))
        check(not wrong, f"preset release ({' '.join(words + link)}): {wrong}")
        if os.uname().machine == "x86_64":
            notes = say("readelf", "-n", thing)
            check("IBT" in notes and "SHSTK" in notes, f"no control-flow protection: {notes}")
        plain = os.path.join(folder, "plain")  # the checks can fail
        say("c++", "-O2", "-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro,-z,lazy,-z,execstack", source,
            "-o", plain)
        check(linked_well(plain).count(",") == 3 and checked_well(plain).count(",") == 1,
              f"the checks see nothing in a plain program: {linked_well(plain)}; {checked_well(plain)}")
    print("ok preset release")


def programs():
    cache = os.path.join(os.path.dirname(BIN), "CMakeCache.txt")
    if not os.path.exists(cache) or "STOKER_HARDEN:BOOL=ON" not in open(cache, encoding="utf-8").read():
        return print("this build has STOKER_HARDEN=OFF: its programs are not checked")
    for name in ("stokerd", "stoker", "stoker-agent"):
        wrong = ", ".join(filter(None, (linked_well(os.path.join(BIN, name)), checked_well(os.path.join(BIN, name)))))
        check(not wrong, f"{name}: {wrong}")
    print("ok programs")


def units():
    if not shutil.which("systemd-analyze"):
        return print("systemd-analyze is not here: units not checked")
    with tempfile.TemporaryDirectory(prefix="stoker-units-") as folder:
        unit = os.path.join(folder, "stokerd@operator.service")
        shutil.copy(os.path.join(DEPLOY, "stokerd@.service"), unit)
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=40", unit], text=True,
                              capture_output=True)
        if "Unknown" in done.stderr or "unrecognized option" in done.stderr:
            return print(f"an older systemd-analyze: units not checked: {done.stderr.strip()}")
        check(done.returncode == 0, f"stokerd@.service: {done.stdout[-300:]}{done.stderr}")
        print("ok units:", done.stdout.strip().split("\n")[-1])


for tool in ("cmake", "c++", "readelf"):
    if not shutil.which(tool):
        print(f"SKIPPED: {tool} is not here")
        sys.exit(77)
preset()
programs()
units()
