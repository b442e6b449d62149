"""What a real daemon publishes is as docs/schema says: status, events, nodes, the site."""
import json
import os
import sys

from e2e._harness import check, main

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
import schemas  # noqa: E402

SHAPE = dict(layers=2, hidden=32, ffn=128, sequence=32, micro=2, global_batch=4, ramp_start=4, ramp_samples=4, samples=40000,
             save_every=10, ranks_per_node=2, nodes=1)


def documents(text):
    value = json.loads(text) if not text.startswith("{") else [json.loads(line) for line in text.splitlines()]
    return value if isinstance(value, list) else [value]


def fits(name, texts):
    with open(os.path.join(ROOT, "docs", "schema", name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    found = 0
    for text in texts:
        for document in documents(text):
            wrong = list(schemas.mismatches(schema, document))
            check(not wrong, f"{name}: {wrong[:5]} of {json.dumps(document)[:300]}")
            found += 1
    check(found > 0, f"no document of {name} was seen")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def published_documents(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait(lambda: site.status().get("checkpoint"), 120, "a checkpoint")
    site.stoker("exclude", "n03", "--reason", "a schema wants evidence")
    site.wait(lambda: '"n03"' in read(site.state, "published", "nodes.jsonl"), 60, "the published node")
    fits("status", [site.stoker("status", "--json").stdout, read(site.directory, "status.json")])
    fits("event", [site.stoker("events", site.run, "--json").stdout, read(site.directory, "events.jsonl")])
    fits("node", [site.stoker("nodes", "--json").stdout, read(site.state, "published", "nodes.jsonl")])
    fits("site", [read(site.state, "published", "site.json").replace("\n", "")])


main(published_documents)
