"""clang-tidy over everything that does not include LibTorch, many files a translation unit, with remembered results.

Most of clang-tidy's time goes into the headers, so the files of a folder are checked together (cmake/batches.py); a
batch that does not compile as one is checked file by file. A batch that was clean is not checked again until its text,
a header of ours that it reaches, the flags, .clang-tidy or the version of clang-tidy changes: $XDG_CACHE_HOME/stoker-tidy
(~/.cache/stoker-tidy) holds one empty file a clean batch, named by the hash of all that, for every clone of this user.
"""
import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import layers

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "cmake"))
import batches  # noqa: E402

# The compiler's own warnings are the build's business (g++, -Werror); here clang only parses. clang 14 refuses some of
# fmt's consteval format strings that g++ takes.
FLAGS = ["-std=c++20", "-I" + ROOT, "-I" + ROOT + "/tests/cuda_on_cpu/emulator", "-w", "-DFMT_SHARED", "-DFMT_CONSTEVAL=", '-DSTOKER_VERSION="lint"',
         '-DSTOKER_SOURCE_DIR="."',
         '-DSTOKER_STATES_PAGE="."', '-DSTOKER_GOLDEN_DIR="."', '-DSTOKER_LEAD_DIR="."', '-DSTOKER_LYING_SHIM="."',
         '-DSTOKER_LYING_SCENARIO="."', '-DSTOKER_FAKE_NCCL="."', '-DSTOKER_FAKE_GPU="."']
# Where clean batches are remembered, and for how long when nobody asks for them.
CLEAN = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stoker-tidy")
KEPT_S = 30 * 86400


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:2] if parts[0] in ("worker", "tests") else parts[:1])


def without_torch(names):
    """The sources that clang-tidy sees."""
    out = []
    for name in names:
        if name.startswith((layers.TORCH_HOME, "tests/train_torch/")) or not name.endswith(".cpp"):
            continue
        if not re.search(r'#include\s+(<(torch|c10|ATen)/|"' + layers.TORCH_HOME + ")", read(name)):
            out.append(name)
    return out


def reached(name, seen):
    """All files of ours that `name` includes, itself too, in the order met."""
    if name in seen or not os.path.isfile(os.path.join(ROOT, name)):
        return seen
    seen[name] = read(name)
    for other in re.findall(r'#include\s+"([^"]+)"', seen[name]):
        reached(other, seen)
        reached(os.path.join(os.path.dirname(name), other), seen)
    return seen


def key_of(files, version):
    seen = {}
    for file in files:
        reached(file, seen)
    parts = [version, read(".clang-tidy"), "\0".join(FLAGS).replace(ROOT, "."), "\0".join(files)]
    for name in sorted(seen):
        parts += [name, seen[name]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def check(files, folder):
    """What clang-tidy says of these files as one translation unit: (compiled, findings)."""
    name = hashlib.sha256("\0".join(files).encode()).hexdigest()[:12]
    unit = os.path.join(folder, f"{files[0].replace('/', '_')[:-4]}_{name}.cpp")
    with open(unit, "w", encoding="utf-8") as f:
        f.writelines(f'#include "{file}"\n' for file in files)
    # Cases may be long, and what they feed in is wrapped inside lists.
    extra = (["--checks=-readability-function-size,-bugprone-suspicious-missing-comma"]
             if files[0].startswith("tests/") else [])
    run = subprocess.run(["clang-tidy", "--quiet", "--config-file=" + os.path.join(ROOT, ".clang-tidy"), *extra,
                          "--header-filter=^" + re.escape(ROOT) + "/", unit, "--", *FLAGS],
                         cwd=ROOT, text=True, capture_output=True)
    os.unlink(unit)
    found, compiled = set(), run.returncode == 0 or "clang-diagnostic-error" not in run.stdout
    for line in run.stdout.split("\n"):
        if re.search(r": (error|warning): ", line) and not line.startswith(unit):
            found.add(line.removeprefix(ROOT + "/"))
    return compiled, found


def check_batch(files, folder, version):
    """The findings of a batch; nothing is run when it was clean before."""
    clean = os.path.join(CLEAN, key_of(files, version))
    if os.path.exists(clean):
        os.utime(clean)
        return set()
    compiled, found = check(files, folder)
    if not compiled and len(files) > 1:
        print(f"    clang-tidy: one by one, as they do not compile together: {' '.join(files)}", file=sys.stderr)
        found = set().union(*(check_batch([file], folder, version) for file in files))
    elif not compiled and not found:
        found = {f"{files[0]}: clang-tidy cannot parse it"}
    if not found:
        open(clean, "w").close()
    return found


def forget_old():
    for entry in os.scandir(CLEAN):
        if time.time() - entry.stat().st_mtime > KEPT_S:
            os.unlink(entry.path)


def findings(names, build):
    """All findings of clang-tidy on these sources, each once."""
    folder = os.path.join(os.path.abspath(build), "tidy")
    for path in (folder, CLEAN):
        os.makedirs(path, exist_ok=True)
    forget_old()
    version = subprocess.run(["clang-tidy", "--version"], text=True, capture_output=True, check=True).stdout
    by_folder = {}
    for name in without_torch(names):
        by_folder.setdefault(folder_of(name), []).append(name)
    work = []
    for files in by_folder.values():
        mains = [file for file in files if file.endswith("main.cpp")]
        work += [[file] for file in mains]
        work += batches.batches([file for file in files if file not in mains], read)
    found = set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, lines in enumerate(pool.map(lambda files: check_batch(files, folder, version), work), 1):
            if sys.stderr.isatty():
                print(f"\rclang-tidy {done}/{len(work)}", end="", file=sys.stderr)
            found |= lines
    return sorted(found)
