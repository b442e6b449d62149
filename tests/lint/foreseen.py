"""Lint rule: no file or folder below /tmp whose name can be foreseen. There another user may have made it before: what we write
goes where a link of theirs leads, and what we execute is theirs.

What is needed once lies in mktemp, mkdtemp or testing::Folder; what tests keep, in kept() of tests/kept.py.
"""
import re

SHELL = r"/tmp/[\w.-]*\$|>>?\s*[\"']?/tmp/"
PYTHON = r"\bgettempdir\(|[\"'](?:/var)?/tmp/"
CPP = r"\btemp_directory_path\(\)|\"(?:/var)?/tmp/"
UNFORESEEN = r"XXXXXX\""  # mkdtemp and mkostemp put what is not known in its place

# What names /tmp and makes or executes nothing there.
MAY = {
    "cli/commands/support.cpp": "an example of the help",
    "worker/agent/node/node.cpp": "the beginning of a name: make_private_folder() ends it",
    "cli/doctor/slurm_checks.cpp": "likewise, make_lasting_folder()",
    "tests/agent/protocol_test.cpp": "a name in a message", "tests/configs/run_checks_test.cpp": "a name in a run file",
    "tests/fuzz/main.cpp": "its caller gives it a TMPDIR of its own",
    "tests/e2e/bad_input.py": "a directory that is refused",
    "tests/packages/clean_root.py": "leaves it out of a search",
    "tests/e2e/strangers.py": "plays the stranger who makes such names",
    "tests/slurm/real/measured.py": "looks whether a job's name was executed; a stranger's file only fails the test",
}


def findings(names, read):
    for name in names:
        if name in MAY or name.startswith("tests/lint/"):
            continue
        wrong = CPP if name.endswith((".cpp", ".hpp", ".cu")) else PYTHON if name.endswith(".py") else SHELL
        for number, line in enumerate(read(name).split("\n"), 1):
            if re.search(wrong, line) and not re.search(UNFORESEEN, line):
                yield f"{name}:{number}: a name in /tmp that can be foreseen: take mktemp, or kept() of tests/kept.py"
