#!/usr/bin/env python3
"""The wheel: `pip install stoker-*.whl` puts stoker, stokerd and stoker-agent on PATH, and the Python package `stoker` beside them.

The programs are those of the bundle (deploy/bundle.py), with its loader and libraries in PREFIX/lib/stoker-bundle; what stands in
PREFIX/bin is a launcher without libraries. So nothing in it is loaded by the system's loader, and the tag names the oldest
glibc on which it was seen to run (tests/packages/pip_install.py), not the one that it was built with.
"""
import argparse
import base64
import hashlib
import os
import platform
import stat
import sys
import zipfile

import bundle

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
TAG = f"py3-none-manylinux_2_31_{platform.machine()}"
HOME = "lib/stoker-bundle"
FIRST = (1980, 1, 1, 0, 0, 0)  # the same files give the same wheel
METADATA = """Metadata-Version: 2.1
Name: stoker
Version: {version}
Summary: keeps a training run alive on a cluster for months
License: Apache-2.0
Requires-Python: >=3.8
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: stoker\nRoot-Is-Purelib: false\nTag: {tag}\n"


def package_files():
    """(name in the wheel, path) of the Python package; the heartbeat client is the one of wire/."""
    folder = os.path.join(ROOT, "python", "stoker")
    found = {f"stoker/{name}": os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")}
    found["stoker/heartbeat.py"] = os.path.join(ROOT, "wire", "heartbeat_client.py")
    return found


def program_files(made, launchers, version):
    data = f"stoker-{version}.data"
    found = {}
    for folder, _, names in os.walk(made):
        for name in names:
            path = os.path.join(folder, name)
            found[f"{data}/data/{HOME}/{os.path.relpath(path, made)}"] = path
    for name in bundle.PROGRAMS:
        found[f"{data}/scripts/{name}"] = os.path.join(launchers, name)
    return found


def is_current(build, made):
    """Whether the bundle is of the programs that were built last."""
    pairs = [(os.path.join(made, "libexec", name), os.path.join(build, "bin", name)) for name in bundle.PROGRAMS]
    return all(os.path.exists(copy) and os.path.getmtime(copy) >= os.path.getmtime(program) for copy, program in pairs)


def write(target, version, files):
    """Wheels are zip files with a list of what they hold."""
    info = f"stoker-{version}.dist-info"
    texts = {f"{info}/METADATA": METADATA.format(version=version), f"{info}/WHEEL": WHEEL.format(tag=TAG)}
    record = ""
    with zipfile.ZipFile(target + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
        def add(name, content, mode):
            nonlocal record
            entry = zipfile.ZipInfo(name, FIRST)
            entry.external_attr, entry.compress_type = (stat.S_IFREG | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record += f"{name},sha256={digest},{len(content)}\n"
        for name, path in sorted(files.items()):
            with open(path, "rb") as file:
                add(name, file.read(), 0o755 if os.access(path, os.X_OK) and not name.endswith(".py") else 0o644)
        for name, text in texts.items():
            add(name, text.encode(), 0o644)
        name = f"{info}/RECORD"
        wheel.writestr(zipfile.ZipInfo(name, FIRST), record + f"{name},,\n")
    os.replace(target + ".new", target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    made = os.path.join(options.build, "bundle")
    if not is_current(options.build, made):
        bundle.make(options.build, made)
    version = bundle.packed_name(made).split("-")[1]
    launchers = os.path.join(options.build, "wheel-launchers")
    os.makedirs(launchers, exist_ok=True)
    for program in bundle.PROGRAMS:
        bundle.launcher(os.path.join(launchers, program), HOME)
    folder = os.path.join(options.build, "packages")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, f"stoker-{version}-{TAG}.whl")
    write(target, version, {**package_files(), **program_files(made, launchers, version)})
    print(f"wheel: {target} ({os.path.getsize(target) / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
