"""deploy/debian-packages.txt holds nothing that is not used: where each package shows, as a pattern over the tracked files.

To add a package: its line there, and its pattern here when its name alone does not show its use.
"""
import re

LIST = "deploy/debian-packages.txt"
SHOWS = {
    "ninja-build": r"-G[\", ]+Ninja|\bninja\b", "python3-yaml": r"^\s*import yaml", "libfmt-dev": r"#include <fmt/", "libspdlog-dev": r"#include <spdlog/",
    "libcli11-dev": r"#include <CLI/", "nlohmann-json3-dev": r"#include <nlohmann/", "libyaml-cpp-dev": r"#include <yaml-cpp/",
    "libsqlite3-dev": r"#include <sqlite3", "libcurl4-openssl-dev": r"#include <curl/", "libssl-dev": r"#include <openssl/",
    "libxxhash-dev": r"#include <xxhash", "libboost-dev": r"#include <boost/",
    "libboost-context-dev": r"#include <boost/context/", "libre2-dev": r"#include <re2/", "libvectorscan-dev": r"#include <hs",
    "liblzma-dev": r"#include <lzma", "libzstd-dev": r"#include <zstd", "libbz2-dev": r"#include <bzlib", "liblz4-dev": r"#include <lz4",
    "libjs-dygraphs": r"dygraph", "zlib1g-dev": r"#include <zlib", "libncurses-dev": r"#include <(?:n?curses|term)",
    "doctest-dev": r"#include <doctest/", "librapidcheck-dev": r"#include <rapidcheck", "libtorch-dev": r"#include <torch/", "libgloo-dev": r"\bgloo\b",
    "libopenblas0-pthread": r"#include <torch/",  # the BLAS that Debian's LibTorch is run with
    "pkg-config": r"PkgConfig", "libclang-rt-14-dev": r"sanitize=fuzzer", "slurm-wlm": r"\bslurmctld\b", "slurm-wlm-jwt-plugin": r"auth/jwt", "mariadb-server": r"\b(?:mariadbd|mysqld)\b",
    "munge": r"\bmunged\b", "nginx-light": r"\bnginx\b", "python3-aiosmtpd": r"aiosmtpd", "python3-rich": r"^\s*from rich", "prometheus": r"\bpromtool\b|\"prometheus\"",
    "prometheus-alertmanager": r"prometheus-alertmanager", "systemd": r"\bsystemd-analyze\b", "openmpi-bin": r"\bmpirun\b",
    "python3-mpi4py": r"import mpi4py|from mpi4py", "python3-torch": r"^import torch$", "dpkg-dev": r"DEBIAN_PACKAGE_SHLIBDEPS", "python3-venv": r"-m\", \"venv\"",
}


def unused(read, names):
    """The listed packages that none of `names` uses; a list that is not there has none."""
    try:
        lines = read(LIST).split("\n")
    except FileNotFoundError:
        return
    listed = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    text = "\n".join(read(name) for name in names if not name.startswith("tests/lint/"))
    for number, package in listed:
        if not re.search(SHOWS.get(package, rf"\b{re.escape(package)}(?!\w)"), text, re.M):
            yield f"{LIST}:{number}: {package} is used nowhere (tests/lint/packages.py says how its use is found)"
