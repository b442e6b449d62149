"""The pictures of README and docs: each that a page shows is there, each that is there is shown and says in words what it
shows, and each is from today's programs: MADE holds a hash of the sources that draw it, as `./dev pictures` saw them.

To add a picture: its name and its sources in DRAWN_BY, what makes it in tests/pictures/pictures.py, and a page that shows it.
"""
import fnmatch
import hashlib
import os
import re

FOLDER, MADE = "docs/pictures", "docs/pictures/made.txt"
MOST_BYTES, MOST_BYTES_IN_ALL = 200 << 10, 1 << 20
COMMANDS = ["cli/show/render_status.cpp", "cli/show/fold.cpp", "cli/show/console.cpp", "cli/commands/status.cpp", "cli/commands/why.cpp"]
TOP = ["cli/top/*_page.cpp", "cli/top/*_pages.cpp", "cli/top/layout.cpp", "cli/top/header.cpp", "cli/top/cells.cpp", "cli/show/render_status.cpp"]
PAGE = ["daemon/page/*"]
REPORT = ["cli/report/*"]
DRAWN_BY = {
    "incident.svg": COMMANDS, "top.svg": TOP, "top-wide.svg": TOP, "runs-light.png": PAGE, "runs-dark.png": PAGE,
    "run-light.png": PAGE, "run-dark.png": PAGE, "report.png": REPORT,
}
SHOWN = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+)\)|<(?:img|source)\b(?P<tag>[^>]*)>")


def digest_of(patterns, names, read):
    """Of the contents of all files that a pattern names."""
    whole = hashlib.sha256()
    for name in sorted(n for n in names if any(fnmatch.fnmatch(n, pattern) for pattern in patterns)):
        whole.update(f"{name}\n{read(name)}\n".encode())
    return whole.hexdigest()[:16]


def made_text(names, read):
    """What MADE says when all pictures are made of these sources."""
    return "".join(f"{picture} {digest_of(patterns, names, read)}\n" for picture, patterns in sorted(DRAWN_BY.items()))


def shown_by(page, text):
    """(line, path of the picture, its words or None where a <source> leaves them to its <img>)."""
    for found in SHOWN.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["path"]:
            path, words = found["path"], found["words"]
        else:
            where = re.search(r'\b(?:src|srcset)="([^"\s]+)"', found["tag"])
            alt = re.search(r'\balt="([^"]*)"', found["tag"])
            path = where.group(1) if where else ""
            words = None if found.group(0).startswith("<source") else alt.group(1) if alt else ""
        if not re.match(r"[a-z]+:", path):
            yield line, os.path.normpath(os.path.join(os.path.dirname(page), path)), words


def problems(root, names, read):
    """What a page shows and what is in FOLDER; a line that begins with "note: " breaks nothing."""
    shown = set()
    for page in names:
        if not page.endswith(".md"):
            continue
        for line, path, words in shown_by(page, read(page)):
            shown.add(path)
            if not os.path.isfile(os.path.join(root, path)):
                yield f"{page}:{line}: the picture {path} does not exist"
            if words is not None and len(words.split()) < 3:
                yield f"{page}:{line}: {path} has no text for those who do not see it"
    there = [name for name in names if name.startswith(FOLDER + "/") and name != MADE]
    sizes = {name: os.path.getsize(os.path.join(root, name)) for name in there}
    for name in there:
        if name not in shown:
            yield f"{name}: no page shows it"
        if os.path.basename(name) not in DRAWN_BY:
            yield f"{name}: made by nothing (DRAWN_BY in tests/lint/pictures.py)"
        if sizes[name] > MOST_BYTES:
            yield f"{name}: {sizes[name]} bytes (at most {MOST_BYTES})"
    if sum(sizes.values()) > MOST_BYTES_IN_ALL:
        yield f"{FOLDER}: {sum(sizes.values())} bytes in all (at most {MOST_BYTES_IN_ALL})"
    yield from older(there, names, read)


def older(there, names, read):
    made = dict(line.split() for line in read(MADE).splitlines()) if MADE in names else {}
    for line in made_text(names, read).splitlines():
        picture, digest = line.split()
        if f"{FOLDER}/{picture}" not in there:
            continue
        if picture not in made:
            yield f"{MADE}: nothing says what {picture} was made of: run ./dev pictures"
        elif made[picture] != digest:
            yield f"note: {FOLDER}/{picture} is older than what draws it; when the change can be seen, run ./dev pictures"
