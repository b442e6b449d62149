"""JSON schemas of the documents that stoker publishes, made from the structs that define them (wire/): a key cannot be in
the program and missing in docs/schema, nor the other way round. `python3 tests/lint/schemas.py --write` (part of ./dev docs)
renews them. To add a key: its member in the struct and in its STOKER_FIELDS. To add a document: its row in DOCUMENTS."""
import json
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HEADERS = ["common/remedy.hpp", "wire/status.hpp", "wire/site.hpp", "wire/held.hpp", "wire/agent_event.hpp", "wire/bench_report.hpp",
           "cli/init/draft.hpp", "cli/doctor/site_checks.hpp", "cli/show/documents.hpp"]
DOCUMENTS = {"status": ("StatusDocument", "status.json of a run; an entry of `stoker status --json`"),
             "event": ("PublishedEvent", "a line of events.jsonl and of `stoker events --json`"),
             "node": ("PublishedNode", "a line of nodes.jsonl and of `stoker nodes --json`"),
             "site": ("SiteDocument", "published/site.json: the runs under supervision"),
             "held": ("HeldAlert[]", "published/held.json: what has not been sent to a sink; `held` of `stoker alerts --json`"),
             "alert": ("StatusAlert+AlertPlace", "an entry of `stoker alerts --json`"),
             "pulse": ("PulseDocument", "an entry of `stoker pulse --json`"),
             "silence": ("StatusSilence", "an entry of `stoker silence --list --json`"),
             "doctor": ("DoctorDocument", "`stoker doctor --json`"),
             "bench_node": ("BenchDocument", "`stoker bench-node --json`"),
             "acting": ("ActingDocument", "what a command that acts prints with --json: save, stop, exclude, ack, ..."),
             "error": ("ErrorDocument", "what any command prints with --json when it has no answer"),
             "check": ("CheckDocument", "`stoker check RUN.yaml --json` with exit 0"),
             "check_errors": ("CheckRefusal", "`stoker check RUN.yaml --json` with exit 2"),
             "init": ("InitDocument", "`stoker init --json`: what was found, and where")}
NUMBERS = {"int", "std::uint32_t", "std::uint64_t", "std::int64_t", "std::size_t"}
MEMBER = re.compile(r"((?:std::)?[\w:]+(?:<[^;={}]*>)?)\s+([\w\s,={}.:\"-]+);")
ENUM = re.compile(r"EnumNames<(?:\w+::)*(\w+)> \{\s*static constexpr std::array names\{([^}]*)\}")


def structs(text):
    """name -> [(type, member)] in the order of STOKER_FIELDS."""
    text = re.sub(r"//[^\n]*", "", text)
    found = {}
    for name, body in re.findall(r"\nstruct (\w+) \{(.*?)\n\};", text, re.S):
        fields = re.search(r"STOKER_FIELDS\((.*?)\)", body, re.S)
        if not fields:
            continue
        types = {}
        for kind, members in MEMBER.findall(" ".join(body.split("STOKER_FIELDS")[0].split())):
            for member in members.split(","):
                types[member.split("=")[0].strip().rstrip("{}").strip()] = kind
        names = [n.strip() for n in fields.group(1).split(",")][1:]
        found[name] = [(types[n], n) for n in names]
    return found


def enums(text):
    """name -> the texts of its values."""
    return {name: re.findall(r'"([^"]*)"', names) for name, names in ENUM.findall(text)}


def schema_of(kind, used):
    if kind in ("std::string", "NodeName"):
        return {"type": "string"}
    if kind == "bool":
        return {"type": "boolean"}
    if kind == "double":
        return {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
    if kind in NUMBERS:
        return {"type": "integer"}
    if kind == "Json":
        return {}
    inner = re.fullmatch(r"std::(optional|vector)<(.*)>", kind)
    if inner:
        of = schema_of(inner.group(2).strip(), used)
        return {"anyOf": [of, {"type": "null"}]} if inner.group(1) == "optional" else {"type": "array", "items": of}
    inner = re.fullmatch(r"OptionalName<(.*)>", kind)
    if inner:
        return {"anyOf": [{"enum": [""]}, schema_of(inner.group(1), used)]}
    inner = re.fullmatch(r"std::map<std::string, (.*)>", kind)
    if inner:
        return {"type": "object", "additionalProperties": schema_of(inner.group(1), used)}
    kind = kind.rsplit("::", 1)[-1]
    used.append(kind)
    return {"$ref": f"#/$defs/{kind}"}


def object_of(fields, used):
    return {"type": "object", "properties": {name: schema_of(kind, used) for kind, name in fields},
            "required": [name for _, name in fields]}


def whole_of(struct, known, used):
    """"A": the object A; "A+B": one object with the keys of both; "A[]": an array of A."""
    if struct.endswith("[]"):
        return {"type": "array", "items": schema_of(struct[:-2], used)}
    return object_of([field for one in struct.split("+") for field in known[one]], used)


def documents(root=ROOT):
    """File name -> text, of all schemas whose struct is there."""
    known, named = {}, {}
    for header in HEADERS:
        if os.path.exists(os.path.join(root, header)):
            with open(os.path.join(root, header), encoding="utf-8") as file:
                text = file.read()
            known.update(structs(text))
            named.update(enums(text))
    out = {}
    for name, (struct, title) in DOCUMENTS.items():
        if not set(struct.removesuffix("[]").split("+")) <= set(known):
            continue
        used = []
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **whole_of(struct, known, used)}
        defined = {}
        while used:
            kind = used.pop()
            if kind not in defined:
                defined[kind] = {"enum": named[kind]} if kind in named else object_of(known[kind], used)
        if defined:
            schema["$defs"] = dict(sorted(defined.items()))
        out[f"docs/schema/{name}.schema.json"] = json.dumps(schema, indent=1) + "\n"
    return out


def problems(root=ROOT):
    """What of docs/schema is not what the structs say."""
    for path, text in documents(root).items():
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                current = file.read() == text
        except OSError:
            current = False
        if not current:
            yield f"{path} is not what {' and '.join(HEADERS)} say (run ./dev docs)"


def mismatches(schema, value, at="", root=None):
    """Where a value is not as its schema says; enough of JSON Schema for ours. Further keys are allowed: keys are added."""
    root = root or schema
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        tries = [list(mismatches(s, value, at, root)) for s in schema["anyOf"]]
        if all(tries):
            yield from min(tries, key=len)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    kinds = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict,
             "null": type(None)}
    if "type" in schema and (not isinstance(value, kinds[schema["type"]]) or
                             (isinstance(value, bool) and schema["type"] != "boolean")):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        yield from (f"{at}: no key {key}" for key in schema.get("required", []) if key not in value)
        for key, entry in value.items():
            of = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if isinstance(of, dict):
                yield from mismatches(of, entry, f"{at}.{key}", root)
    if isinstance(value, list) and "items" in schema:
        for number, entry in enumerate(value):
            yield from mismatches(schema["items"], entry, f"{at}[{number}]", root)


def main():
    if "--write" in sys.argv:
        os.makedirs(os.path.join(ROOT, "docs", "schema"), exist_ok=True)
        for path, text in documents().items():
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(text)
    found = list(problems())
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
