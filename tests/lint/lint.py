#!/usr/bin/env python3
"""The house rules as checks: layering, sizes, words, dead files, formatting, generated docs, clang-tidy.

Prints one line a rule, `ok NAME` or `not ok NAME` with what is wrong, and exits 1 when a rule is broken.
"""
import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import alone  # noqa: E402
import english  # noqa: E402
import foreseen  # noqa: E402
import fuzz_sources  # noqa: E402
import gpu_results  # noqa: E402
import included  # noqa: E402
import layers  # noqa: E402
import packages  # noqa: E402
import pictures  # noqa: E402
import purity  # noqa: E402
import safety  # noqa: E402
import schemas  # noqa: E402
import tidy  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MAX_LINES, MAX_COLUMNS, MAX_FUNCTION = 400, 100, 70
TRANSCRIPT_COLUMNS = 120
BANNED = [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", r"\bHACK\b", r"\bnot implemented\b", r"\bfor now\b",
          r"\bpkill\b", r"\bkillall\b", r"std::regex", r"\bsystem\("]


ONLY = set()  # --changed: no file but these


def tracked(*endings):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                         capture_output=True, check=True).stdout.split("\n")
    return sorted(f for f in out if f.endswith(endings) and (not ONLY or f in ONLY) and os.path.isfile(os.path.join(ROOT, f)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as f:
        return f.read()


CPP = tracked(".cpp", ".hpp", ".cu")
SCRIPTS = tracked(".py", ".sh") + ["dev"]


def rule_layering():
    """Every include goes to a folder that may be included."""
    for name in CPP:
        folder = name.split("/")[0]
        if folder not in layers.LAYERS:
            yield f"{name}: {folder}/ has no row in tests/lint/layers.py"
            continue
        allowed = layers.LAYERS[folder]
        for line_number, line in enumerate(read(name).split("\n"), 1):
            m = re.match(r'\s*#include\s+(["<])([^">]+)[">]', line)
            if not m:
                continue
            target = m.group(2)
            if re.match(r"(torch|c10|ATen|gloo)/", target) and not name.startswith((layers.TORCH_HOME, "tests/")):
                yield f"{name}:{line_number}: LibTorch outside {layers.TORCH_HOME}"
            if layers.OWNED.get(target, name) != name:
                yield f"{name}:{line_number}: <{target}> is included by {layers.OWNED[target]} alone: include that"
            other = target.split("/")[0]
            if m.group(1) == '"' and other in layers.LAYERS and other != folder:
                if allowed is not None and other not in allowed:
                    yield f"{name}:{line_number}: {folder}/ may not include {other}/"


def rule_layer_table():
    """docs/architecture.md and layers.py say the same; rows in words ("all but ...") are only looked for."""
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*\| ([^|]+) \|$", read("docs/architecture.md"), re.M))
    for folder, allowed in layers.LAYERS.items():
        if folder not in rows:
            yield f"docs/architecture.md: no row for {folder}/"
        elif allowed is not None and not re.match(r"all |anything|std", rows[folder]):
            told = re.findall(r"(?:^|, )(\w+)", re.sub(r" \([^)]*\)", "", rows[folder].split(";")[0]))
            if set(told) != set(allowed):
                yield f"docs/architecture.md: {folder}/ may include {', '.join(told)}; layers.py: {', '.join(allowed)}"


def rule_where_to_add():
    """Each file that docs/where-to-add.md names exists; the one to open first says how ("To add")."""
    page = "docs/where-to-add.md"
    for number, line in enumerate(read(page).split("\n"), 1):
        cells = line.strip("| ").split(" | ")
        if len(cells) != 4 or "`" not in line:
            continue
        names = [re.findall(r"`([\w/.-]+/[\w.-]+)`", cell) for cell in cells]
        for name in sum(names[1:], []):
            if not os.path.exists(os.path.join(ROOT, name)):
                yield f"{page}:{number}: {name} does not exist"
            elif name in names[1] and "To add" not in read(name):
                yield f"{page}:{number}: {name} has no comment that begins with \"To add\""


def rule_sizes():
    """Files have at most 400 lines, lines at most 100 columns."""
    for name in CPP + SCRIPTS:
        lines = read(name).rstrip("\n").split("\n")
        if len(lines) > MAX_LINES:
            yield f"{name}: {len(lines)} lines (at most {MAX_LINES})"
        if name in CPP:
            for number, line in enumerate(lines, 1):
                if len(line) > MAX_COLUMNS and "R\"" not in line and "http" not in line:
                    yield f"{name}:{number}: {len(line)} columns (at most {MAX_COLUMNS})"


def rule_transcripts():
    """Transcripts: lines of at most 120 columns, unless one word has more."""
    for name in tracked(".txt"):
        if not name.startswith(("tests/golden/", "tests/lead/")):
            continue
        for number, line in enumerate(read(name).split("\n"), 1):
            if len(line) > TRANSCRIPT_COLUMNS and " " in line.strip():
                yield f"{name}:{number}: {len(line)} columns (at most {TRANSCRIPT_COLUMNS}; an input line may end with a backslash)"


def rule_conflicts():
    """No file holds the marks of a merge that was not finished."""
    for name in CPP + SCRIPTS + tracked(".md", ".txt", ".yaml", ".json", ".cmake"):
        for number, line in enumerate(read(name).split("\n"), 1):
            if re.match(r"(<{7} |>{7} |={7}$)", line):
                yield f"{name}:{number}: a mark of a merge"


def rule_functions():
    """Functions at namespace level have at most 70 lines; a signature may take several."""
    no_function = re.compile(
        r"(namespace|struct|class|enum|union|extern|template <>|constexpr|inline const|const|static const)\b")
    for name in CPP:
        if name.startswith("tests/"):
            continue
        head, start = None, None  # where the newest line at the margin is; where the function at hand begins
        lines = read(name).split("\n")
        for number, line in enumerate(lines, 1):
            if re.match(r"[^\s#/}]", line):
                head = number
            if start is None and head and line.endswith("{") and not line.endswith(("= {", "{{")):  # a table is none
                first = lines[head - 1]
                if not no_function.match(first) and (head == number or first.endswith((",", "("))):
                    start = head
            elif line.startswith("}") and start is not None:
                if number - start + 1 > MAX_FUNCTION:
                    yield f"{name}:{start}: function of {number - start + 1} lines (at most {MAX_FUNCTION})"
                start = None


def rule_words():
    """No unfinished marks, no broad kills, no std::regex, no shell."""
    for name in CPP + SCRIPTS:
        if name.startswith("tests/lint/"):
            continue
        for number, line in enumerate(read(name).split("\n"), 1):
            for word in BANNED:
                if re.search(word, line):
                    yield f"{name}:{number}: {word}"


def rule_english():
    """Documents, messages and comments use the field's words (english.py)."""
    return english.findings(tracked(""), read)


def rule_head_comment():
    """Every C++ file of the product begins with a comment that says what it owns."""
    for name in CPP:
        twin = os.path.join(ROOT, os.path.splitext(name)[0] + ".hpp")
        if name.startswith("tests/") or (not name.endswith(".hpp") and os.path.exists(twin)):
            continue  # a source file's head comment may stand in its header
        if not read(name).startswith("//"):
            yield f"{name}: begins without a comment"


def rule_dead_headers():
    """Every header is included by somebody."""
    included = set()
    for name in CPP:
        included.update(re.findall(r'#include\s+"([^"]+)"', read(name)))
    for name in CPP:
        if name.endswith(".hpp") and name not in included and not any(
                name.endswith("/" + i) for i in included):
            yield f"{name}: nobody includes it"


def rule_alone():
    """Every file compiles alone, where no batch has included for it what it needs."""
    yield from alone.problems(CPP, read)


def rule_assertions():
    """No assertion that cannot fail."""
    for name in CPP:
        if name.startswith("tests/"):
            for number, line in enumerate(read(name).split("\n"), 1):
                if re.search(r"\b(CHECK|REQUIRE)\((true|1)\)", line):
                    yield f"{name}:{number}: {line.strip()}"


def rule_test_folders():
    """Tests that run side by side share no file: a test's files lie in testing::Folder."""
    for name in CPP:
        text = read(name)
        if not name.startswith("tests/") or name.startswith("tests/fuzz/") or "mkdtemp" in text:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r'temp_directory_path\(\)|"/tmp/stoker', line):
                yield f"{name}:{number}: a file that another test may have too: take testing::Folder (tests/folder.hpp)"


def rule_foreseen_names():
    """In a folder of all users another one may have put a link where ours writes, or a program where ours executes."""
    return foreseen.findings(CPP + SCRIPTS, read)


def rule_cloexec():
    """No descriptor is inherited by the programs that we start."""
    return safety.cloexec(CPP, read)


def rule_permissions():
    """Modes and the umask are set in one file."""
    return safety.permissions(CPP, read)


def rule_shell():
    """No shell: a program and its arguments."""
    return safety.shell(CPP, read)


def rule_threads():
    """The agent lives on where no thread can be made."""
    return safety.threads(CPP, read)


def rule_links():
    """In directories that others can write, no symbolic link is followed."""
    return safety.links(CPP, read)


def rule_purity():
    """Deciders are pure: core/, lead/ and recipe/ know no clock, random number, thread, environment, file or hash order."""
    return purity.impure(CPP, read)


def rule_packages():
    """Each Debian package that ./dev setup installs is used."""
    return packages.unused(read, tracked("CMakeLists.txt", ".cmake", ".cpp", ".hpp", ".py", ".sh", ".yaml", ".html", ".js") + ["dev"])


def rule_fuzz_sources():
    """The fuzzer links every source that its targets need: a file that was moved or split shows here, not in its next build."""
    return fuzz_sources.complaints(CPP, read) if os.path.exists(os.path.join(ROOT, fuzz_sources.CMAKE)) else ()


def rule_pictures():
    """README and docs show pictures that are there, with words for them, and no picture is left over or too large."""
    return pictures.problems(ROOT, tracked(""), read)


def rule_gpu_results():
    """What was seen on a GPU is of the sources of today; a note when it is older, since CI has no GPU."""
    return gpu_results.complaints(ROOT) if os.path.isdir(os.path.join(ROOT, "tests", "gpu")) else ()


def rule_printing():
    """Text of others reaches a terminal through the cleaning function."""
    return safety.printing(CPP, read)


def rule_format():
    """clang-format has nothing to change."""
    if not CPP:
        return
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *CPP], cwd=ROOT, text=True,
                            capture_output=True)
    if result.returncode != 0:
        seen = sorted({line.split(":")[0] for line in result.stderr.split("\n") if "error:" in line})
        for name in seen:
            yield f"{name}: run ./dev fmt"


def rule_included():
    """Blocks of documents that are a file are that file."""
    return included.problems(tracked(".md"), read)


def rule_schemas():
    """docs/schema has every key of the published documents, and no other."""
    yield from schemas.problems(ROOT)


def rule_generated_docs(build):
    """The generated pages of docs/ are what the programs say today."""
    program = os.path.join(build, "bin", "stoker")
    if not os.path.exists(program):
        yield f"{program} is missing: run ./dev build"
        return
    result = subprocess.run([program, "docs", "docs", "--check"], cwd=ROOT, text=True, capture_output=True)
    if result.returncode != 0:
        yield (result.stderr or result.stdout).strip() + " (run ./dev docs)"


def rule_tidy(build):
    """clang-tidy is silent on everything that does not include LibTorch."""
    return tidy.findings(CPP, build)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--fast", action="store_true", help="leave clang-tidy out")
    some.add_argument("--tidy", action="store_true", help="clang-tidy alone")
    some.add_argument("--changed", nargs="+", metavar="FILE", help="only the rules of single files, only for these (tests/lint/hooks)")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    if options.changed:
        return report(of_single_files(set(options.changed)), build)
    rules = [rule_tidy] if options.tidy else [rule for rule in all_rules() if rule is not rule_tidy or not options.fast]
    return report(rules, build)


def all_rules():
    """Every function of this file that begins with rule_, in its order: a rule that is written is run."""
    return [value for name, value in globals().items() if name.startswith("rule_")]


def of_single_files(names):
    """The rules that need no other file, with nothing but these files to check."""
    CPP[:] = [name for name in CPP if name in names]
    SCRIPTS[:] = [name for name in SCRIPTS if name in names]
    ONLY.update(names)
    return [rule_layering, rule_sizes, rule_transcripts, rule_conflicts, rule_functions, rule_words, rule_english, rule_head_comment,
            rule_assertions, rule_test_folders, rule_cloexec, rule_permissions, rule_shell, rule_links, rule_purity, rule_format]


def report(rules, build):
    broken = 0
    for rule in rules:
        found = list(rule(build) if rule in (rule_generated_docs, rule_tidy) else rule())
        bad = any(not line.startswith("note: ") for line in found)
        broken += bad
        print(("not ok " if bad else "ok ") + "lint: " + rule.__name__.removeprefix("rule_"), flush=True)
        for line in found[:40]:
            print("    " + line)
        if len(found) > 40:
            print(f"    … and {len(found) - 40} more")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
