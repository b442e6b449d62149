"""What a real daemon publishes is as docs/schema says: status, events, nodes, the site, alerts held back; and so is what
commands print with --json."""
import json
import os
import signal
import sys
import time

from e2e._harness import Failed, check, main, run_program

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
import schemas  # noqa: E402

SHAPE = dict(layers=2, hidden=32, ffn=128, sequence=32, micro=2, global_batch=4, ramp_start=4, ramp_samples=4, samples=40000,
             save_every=10, ranks_per_node=2, nodes=1)


BATCH = """\
#!/bin/bash
#SBATCH --job-name=llm --nodes=2
srun torchrun --nproc_per_node=4 pretrain.py --save ckpt
"""


def documents(text, array):
    """The documents in a text: an array that is one, or each of its entries, or a document a line."""
    value = json.loads(text) if not text.startswith("{") else [json.loads(line) for line in text.splitlines()]
    return [value] if array else value


def fits(name, texts):
    with open(os.path.join(ROOT, "docs", "schema", name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    found = 0
    for text in texts:
        for document in documents(text, schema["type"] == "array"):
            wrong = list(schemas.mismatches(schema, document))
            check(not wrong, f"{name}: {wrong[:5]} of {json.dumps(document)[:300]}")
            found += bool(document)
    check(found > 0, f"no document of {name} was seen")


def held_alert(site):
    """What is published of an alert that is held back, and what `alerts --json` shows then: a rank is killed until both are seen, as
    the alert goes when the training works again."""
    for _ in range(4):
        os.kill(site.rank_pid(0), signal.SIGKILL)
        end = time.monotonic() + 15
        while time.monotonic() < end:
            held = json.loads(read(site.state, "published", "held.json"))
            alerts = site.stoker("alerts", "--json").stdout
            if held and any(alert["held"] for alert in json.loads(alerts)):
                return held, alerts
    raise Failed(f"no alert was held back, or alerts --json did not show it: {held}, {alerts}")


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
    silenced = site.stoker("silence", f"run={site.run}", "--for", "1h", "--reason", "a schema wants one that is held back", "--json")
    site.wait(lambda: json.loads(site.stoker("silence", "--list", "--json").stdout), 20, "the silence in the list")
    fits("silence", [site.stoker("silence", "--list", "--json").stdout])
    fits("acting", [silenced.stdout, site.stoker("save", site.run, "--dry-run", "--json").stdout])
    held, alerts = held_alert(site)
    fits("held", [json.dumps(held)])
    fits("alert", [alerts])
    shown = [alert["held"] for alert in json.loads(alerts)]
    fits("held", [json.dumps(one) for one in shown])
    fits("pulse", [site.stoker("pulse", "--json", ok=False).stdout])
    fits("doctor", [site.stoker("doctor", "--json", ok=False).stdout])


def answers_of_commands(site):
    config = site.write_files(site.prepare_data(), **SHAPE)
    good = site.stoker("check", config, "--json").stdout
    check(json.loads(good)["known"] and json.loads(good)["values"], f"check found nothing: {good}")
    script = os.path.join(site.folder, "llm.slurm")
    for path, text in ((script, BATCH), (os.path.join(site.folder, "train.py"), "import torch\n")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    found = [run_program("stoker", "init", *words, "--json", env=site.env, cwd=site.folder).stdout
             for words in (["llm.slurm", "-o", "llm.yaml"], ["train.py", "-o", "-", "--scheduler", "local"])]
    fits("init", found)
    check([json.loads(text)["file"] for text in found] == ["llm.yaml", None], f"the files: {found}")
    by_script = site.stoker("check", os.path.join(site.folder, "llm.yaml"), "--json").stdout
    check(json.loads(by_script)["without_agent"], f"a batch script without a word on what it can do: {by_script}")
    fits("check", [good, by_script])
    with open(config, "a", encoding="utf-8") as file:
        file.write("nodes: many\n")
    done = site.stoker("check", config, "--json", ok=False)
    check(done.returncode == 2 and json.loads(done.stdout)["errors"][0]["line"] > 1, f"exit {done.returncode}: {done.stdout}")
    fits("check_errors", [done.stdout])
    fits("error", [site.stoker(*words, "--json", ok=False).stdout for words in (["check", "gone.yaml"], ["status", "gone"])])
    fits("acting", [site.stoker("save", "gone", "--json", ok=False).stdout])


main(published_documents, answers_of_commands)
