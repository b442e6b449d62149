"""The words that stoker's documents, messages and comments do not use, with what to write instead.

Read are: Markdown, golden transcripts, and in code the comments and the strings that hold more than one word (a single word
is a key or a name). Captured output of other programs is left as it is.
"""
import re

INSTEAD = {
    r"told|tells": "reported, reports, says",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"whatever": "what, any",
    r"nobody": "no user, no process: name who",
    r"(?:is|are|was|were) none(?! of)": "is not one, does not exist",
    r"sa(?:ys|id) of": "reports about",
    r"hears?": "receives, learns",
    r"for a person": "for an operator",
    r"of old": "earlier, previous",
    r"a word (?:for|of|to)": "a note, a message",
    r"last words?": "last output, last reports",
    r"looked at": "checked, read",
    r"whoever": "name who",
    r"lamp|sickens?|sickened": "say what it is",
    r"deeds": "actions",
    r"falsely": "false positive, wrongly",
    r"called over": "reported as ended",
    r"as ever|thereof": "leave it out",
}
BANNED = re.compile(r"(?<![\w-])(?:" + "|".join(INSTEAD) + r")(?![\w(]|-\w|\.json)", re.I)
ENDINGS = (".md", ".cpp", ".hpp", ".h", ".py", ".sh", ".js", ".css", ".html", ".cmake", ".yaml", "CMakeLists.txt", "dev")
TRANSCRIPTS = ("tests/golden/", "tests/lead/", "tests/cli/", "tests/alerts/", "tests/sim/", "sim/scenarios/")
CAPTURED = ("tests/fuzz/corpus/", "tests/slurm/json/", "tests/diagnose/", "configs/xid/", "tests/lint/")

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')


def text_of(name, line, inside):
    """What a person reads of one line of code, and whether a Python docstring goes on after it."""
    if not name.endswith((".cpp", ".hpp", ".h", ".py", ".js")):
        if name.endswith((".md", ".txt")) and not name.endswith("CMakeLists.txt"):
            return line, False
        return (line.split("#", 1)[1] if "#" in line else ""), False
    if name.endswith(".py"):
        quotes = line.count('"""')
        if inside or quotes:
            return line, inside != (quotes % 2 == 1)
        mark = "#"
    else:
        mark = "//"
    strings = [s for s in STRING.findall(line) if " " in s]
    if name.endswith(".py"):
        strings = [re.sub(r"\{[^{}]*\}", "{}", s) for s in strings]  # what an f-string shows has a name of its own
    bare = STRING.sub('""', line)
    comment = bare.split(mark, 1)[1] if mark in bare else ""
    return " | ".join(strings + [comment]), False


def findings(names, read):
    for name in names:
        if name.startswith(CAPTURED) or not (name.endswith(ENDINGS) or (name.endswith(".txt") and name.startswith(TRANSCRIPTS))):
            continue
        inside = False
        for number, line in enumerate(read(name).split("\n"), 1):
            text, inside = text_of(name, line, inside)
            for word in BANNED.findall(text):
                yield f"{name}:{number}: write for \"{word}\": {instead(word)}"


def instead(word):
    return next(text for pattern, text in INSTEAD.items() if re.fullmatch(pattern, word, re.I))
