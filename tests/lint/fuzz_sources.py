"""Which sources the fuzzer needs beside those that its CMake file lists: it links only some files of most folders, so that a file
that is moved or split would be missed at its next build, which needs clang and minutes.

Reads text, parses no C++: a source is needed when a listed one, or a header that a listed one includes, calls a function that only
the unlisted one defines, and sees its header.
"""
import fnmatch
import re

CMAKE = "tests/fuzz/CMakeLists.txt"
NO_DEFINITION = ("static ", "constexpr ", "inline ", "template", "const ", "extern ", "using ", "namespace", "TEST_CASE", "static_assert")
DEFINITION = re.compile(r"^(?![ }#/])[^\n;{}]*?((?:\w+::)*~?\w+)\s*\(", re.M)


def listed(cmake):
    """Its patterns, without those that it takes out again."""
    names = []
    for name in re.findall(r"set\(patterns ([^)]*)\)", cmake):
        names += name.split()
    for line in re.findall(r"list\(APPEND targets ([^)]*)\)", re.sub(r"#[^\n]*", "", cmake)):
        names += [word.removeprefix("${ROOT}/") for word in line.split()]
    without = re.findall(r"list\(REMOVE_ITEM sources \$\{ROOT\}/([^)]*)\)", cmake)
    return names, without


def matches(name, pattern):
    """As CMake globs: * is within a folder."""
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def definitions(text):
    """Functions that other files can call: at the left margin, in no anonymous namespace."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^namespace \{.*?^\}", "", text, flags=re.S | re.M)
    return {m.group(1) for m in DEFINITION.finditer(text) if not m.group(0).startswith(NO_DEFINITION)}


def without_declarations(code):
    """Of a header: the bodies of its functions stay, what it declares goes."""
    return re.sub(r"^(?!\s*return\b)[^\n;{}()=]*[\w>&*] [&*]?\w+\([^;{}]*\)[^;{}()]*;", "", code, flags=re.M)


def calls(code, name):
    parts = name.split("::")
    short = re.escape(parts[-1])
    if len(parts) == 1:
        return re.search(rf"(?<![\w.>])(?<!void ){short}\(", code)
    owner = re.escape(parts[-2])
    if not re.search(rf"\b{owner}\b", code):
        return None
    return re.search(rf"\b{owner}\b[\s\w]*[({{]" if short == owner else rf"(?:\.|->|\b{owner}::){short}\(", code)


class Tree:
    """The files of the house: their text and what they include."""

    def __init__(self, files, read):
        self.text = {name: read(name) for name in files}
        self.includes = {name: re.findall(r'^#include "([^"]+)"', text, re.M) for name, text in self.text.items()}

    def headers(self, name):
        seen, queue = set(), list(self.includes[name])
        while queue:
            header = queue.pop()
            if header in self.text and header not in seen:
                seen.add(header)
                queue += self.includes[header]
        return seen

    def code(self, name):
        code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', re.sub(r"//[^\n]*", "", self.text[name]))
        return without_declarations(code) if name.endswith(".hpp") else code


def complaints(files, read):
    """`files`: all C++ files; one line for each listed name that is no file, and each source that is missing."""
    names, without = listed(read(CMAKE))
    sources = [name for name in files if name.endswith(".cpp") and not name.startswith("tests/")]
    there = {name for name in sources for pattern in names if matches(name, pattern)} - set(without)
    for pattern in names:
        if not any(matches(name, pattern) for name in sources):
            yield f"{CMAKE}: {pattern} is no file"
    tree = Tree([name for name in files if not name.startswith("tests/") or name.startswith("tests/fuzz/")], read)
    users = sorted(there) + [name for name in tree.text if name.startswith("tests/fuzz/") and name.endswith(".cpp")]
    users += sorted(set().union(*(tree.headers(user) for user in users)))
    seen = {user: tree.headers(user) for user in users}
    known = set().union(*(definitions(tree.text[name]) for name in there))
    missing = [name for name in sources if name not in there and name not in without and tree.includes[name]]
    for name in missing:
        header = tree.includes[name][0]
        wanted = definitions(tree.text[name]) - known
        for user in users:
            if header not in seen[user]:
                continue
            called = next((w for w in sorted(wanted) if calls(tree.code(user), w)), None)
            if called:
                yield f"{CMAKE}: {name} is missing: {user} calls {called}"
                break
