#!/usr/bin/env python3
"""Blocks of documents that are a file of the repository: `<!-- file: PATH -->` with a fenced block below it.

`python3 tests/lint/included.py` (part of ./dev docs) writes the blocks; lint compares them.
"""
import os
import re
import sys

BLOCK = re.compile(r"(<!-- file: (\S+) -->\n```\w*\n)(.*?)(\n```\n)", re.S)


def written(page, read):
    """The page with its blocks as the files say."""
    return BLOCK.sub(lambda block: block[1] + read(block[2]).rstrip("\n") + block[4], page)


def problems(pages, read):
    for name in pages:
        page = read(name)
        if page.count("<!-- file: ") != len(BLOCK.findall(page)):
            yield f"{name}: a comment \"file:\" has no block below it"
        for _, path, text, _ in BLOCK.findall(page):
            try:
                same = read(path).rstrip("\n") == text
            except FileNotFoundError:
                yield f"{name}: {path} does not exist"
                continue
            if not same:
                yield f"{name}: its block is not {path} (run ./dev docs)"


def main():
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()
    for name in sorted(n for n in os.listdir(os.path.join(root, "docs")) if n.endswith(".md")):
        before = read(f"docs/{name}")
        after = written(before, read)
        if after != before:
            with open(os.path.join(root, "docs", name), "w", encoding="utf-8") as file:
                file.write(after)


if __name__ == "__main__":
    sys.exit(main())
