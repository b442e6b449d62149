#!/usr/bin/env python3
"""Which sources may share one translation unit: `batches.py FILE...` prints `NUMBER<tab>FILE` for each.

Builds from nothing, sanitizer builds and clang-tidy compile many files at once, because most of the time goes into
the headers that all of them share. Headers are looked for from the current folder. Two files that define the same name
at the left margin (both have a `struct Options` in their anonymous namespace, say) must not meet, so that a developer does not have to
think of this when he names a thing. Reads text, parses no C++: a name too many costs a batch, a name too few is a
compile error that says what to rename.
"""
import os
import re
import sys

MAX_FILES, MAX_LINES = 16, 2400
# The word before the first of ( { = ; on a line that begins at the margin; `X::y` belongs to a class and cannot clash.
DEFINED = re.compile(r"[A-Za-z][^({=;]*?\b((?:\w+::)*~?\w+)\s*(?:\[[^\]]*\]\s*)?(?::\s*[\w:]+\s*)?[({=;]")
NO_NAME = re.compile(r"(?:namespace|using namespace|template|extern|return|TEST_CASE|DOCTEST)\b")
TAKEN = re.compile(r"using [\w:]+::(\w+);")
WITHIN = re.compile(r"STOKER_\w+\(")


def local_names(text):
    """The names that this text defines at the left margin."""
    found = set()
    for line in text.split("\n"):
        taken = TAKEN.match(line)
        if taken:
            found.add(taken.group(1))
        if NO_NAME.match(line) or WITHIN.match(line):
            continue
        m = DEFINED.match(line)
        if m and "::" not in m.group(1):
            found.add(m.group(1))
    for several in re.findall(r"^(?:inline )?const(?:expr)? [^;(){}]*;", text, re.M):  # const int kA = 1, kB = 2;
        found.update(re.findall(r"\b(\w+)\s*=", several))
    return found


def header_names(file, text, read, seen=None):
    """The names that the headers of ours which this file includes define at the left margin: those it names itself,
    and what the ones beside it (`#include "site.hpp"`, the common part of a folder's tests) include in turn."""
    found, seen = set(), set() if seen is None else seen
    for header in re.findall(r'^#include "([^"]+)"', text, re.M):
        beside = "/" not in header
        path = os.path.join(os.path.dirname(file), header) if beside else header
        if path in seen:
            continue
        seen.add(path)
        try:
            content = read(path)
        except OSError:
            continue  # not ours, or not there: the compiler will say
        found |= local_names(content)
        if beside:
            found |= header_names(path, content, read, seen)
    return found


def batches(files, read, most=MAX_FILES):
    """The files in as few batches as fit, in order; `read(file)` gives the text, of a header too."""
    out = []  # of [files, names of the sources, names of their headers, lines]
    for file in files:
        text = read(file)
        public = header_names(file, text, read)
        names, lines = local_names(text) - public, text.count("\n")
        for batch in out:
            if (len(batch[0]) < most and batch[3] + lines <= MAX_LINES
                    and not names & (batch[1] | batch[2]) and not public & batch[1]):
                batch[0].append(file)
                batch[1] |= names
                batch[2] |= public
                batch[3] += lines
                break
        else:
            out.append([[file], names, public, lines])
    return [batch[0] for batch in out]


def read_file(name):
    with open(name, encoding="utf-8", errors="replace") as f:
        return f.read()


def main():
    for number, files in enumerate(batches(sys.argv[1:], read_file)):
        for file in files:
            print(f"{number}\t{file}")


if __name__ == "__main__":
    main()
