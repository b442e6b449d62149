"""Every file compiles alone: it includes, itself or through others, the header of each type that it names, and of each function that it
calls by its namespace. Batches of files (CMAKE_UNITY_BUILD) hide where one lives on what another included; the presets dev and release
compile file by file."""
import os
import re

TYPE = re.compile(r"^(?:struct|class|enum class|enum)\s+(?:\[\[\w+\]\]\s+|alignas\(\w+\)\s+)?([A-Z]\w+)(?:\s*final)?\s*(?::[^;{]*)?\{", re.M)
ALIAS = re.compile(r"^using\s+([A-Z]\w+)\s*=", re.M)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:[^"\\\n]|\\.)*"', re.S)
SPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
CALL = re.compile(r"(?<![\w:])(?:stoker::)?([a-z]\w+)::([a-z]\w+)\(")
PARAMETER = re.compile(r"(?:class|typename)(?:\.\.\.)? ([A-Z]\w+)\s*[,>=]")


def code_of(text):
    return NOT_CODE.sub(" ", text)


def types_in(code):
    return set(TYPE.findall(code)) | set(ALIAS.findall(code))


class Files:
    """`read`: the text of a file of the repository; `names`: all of them."""

    def __init__(self, names, read):
        self.texts = {name: read(name) for name in names}
        self.code = {name: code_of(text) for name, text in self.texts.items()}
        self.reached = {}

    def included_by(self, name):
        for target in INCLUDE.findall(self.texts[name]):
            beside = os.path.join(os.path.dirname(name), target)
            found = beside if beside in self.texts else target
            if found in self.texts:
                yield found

    def reach(self, name):
        if name not in self.reached:
            seen, new = set(), [name]
            while new:
                at = new.pop()
                if at not in seen:
                    seen.add(at)
                    new += self.included_by(at)
            self.reached[name] = seen
        return self.reached[name]

    def homes(self):
        """Types of one header alone, and that header. Where the name stands for something else anywhere (a member, an enumerator, a
        type inside another), the text cannot tell which one is meant."""
        found, other = {}, set()
        for name, code in self.code.items():
            for kind in types_in(code):
                if name.endswith(".hpp") and kind not in found:
                    found[kind] = name
                else:
                    other.add(kind)
            other.update(re.findall(r"^[ \t]+(?:struct|class|enum class|using)\s+([A-Z]\w+)(?=\s*[:{=])", code, re.M))
            for body in re.findall(r"\benum(?: class)? \w+[^{;]*\{([^}]*)\}", code):
                other.update(re.findall(r"\b([A-Z]\w+)\b", body))
        return {kind: home for kind, home in found.items() if kind not in other}


    def functions(self):
        """{(last word of the namespace, function): the headers that have such a namespace and this word before a parenthesis}."""
        found = {}
        for name, code in self.code.items():
            spaces = {space.split("::")[-1] for space in SPACE.findall(code)} if name.endswith(".hpp") else ()
            for word in set(re.findall(r"\b([a-z]\w+)\(", code)) if spaces else ():
                for space in spaces:
                    found.setdefault((space, word), set()).add(name)
        return found


def missing_functions(files):
    functions = files.functions()
    for name, code in files.code.items():
        for call in sorted(set(CALL.findall(code))):
            homes = functions.get(call, set())
            if homes and not homes & files.reach(name):
                yield f"{name}: calls {'::'.join(call)}, and includes {min(homes)} neither itself nor through another"


def problems(names, read):
    files = Files(names, read)
    yield from missing_functions(files)
    homes = files.homes()
    for name, code in files.code.items():
        reached = files.reach(name)
        known = set(re.findall(r"^\s*(?:struct|class|enum class)\s+([A-Z]\w+)[^{;]*;", code, re.M))
        known |= types_in(code) | set(PARAMETER.findall(code))
        for word in sorted(set(re.findall(r"(?<![\w.>])[A-Z]\w+\b", code)) - known):
            home = homes.get(word)
            if home and home not in reached:
                yield f"{name}: names {word}, and includes {home} neither itself nor through another"
