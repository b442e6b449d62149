"""The last figure of a bench, so that the next one is compared with it: tests/bench/last.json, in units of this machine's speed.

A unit is the CPU time of a fixed piece of work (JSON there and back), measured beside the bench: another machine, or a busy one,
changes both. A figure above 1.3 times the last one is a failure; `./dev bench NAME --record` writes the new figures.
"""
import json
import os
import time

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "last.json")
AT_MOST = 1.3


def unit():
    """CPU seconds of the fixed work: the best of five."""
    document = {f"key{i}": [i, str(i), {"half": i / 2, "none": None}] for i in range(2000)}
    took = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(20):
            document = json.loads(json.dumps(document))
        took.append(time.process_time() - began)
    return min(took)


def read():
    if not os.path.exists(RECORD):
        return {}
    with open(RECORD, encoding="utf-8") as file:
        return json.load(file)


def compare(name, seconds, measured_unit, record=False):
    """(ratio to the last figure or None, whether it is good, a note); with `record` it becomes the last one."""
    figures = read()
    units = seconds / measured_unit
    last = figures.get(name)
    if record:
        figures[name] = round(units, 1)
        with open(RECORD, "w", encoding="utf-8") as file:
            file.write(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    if last is None:
        return None, record, f"{units:.0f} units" + (", now recorded" if record else "; no last figure: ./dev bench sim --record")
    return units / last, record or units / last <= AT_MOST, f"{units:.0f} units, the last figure was {last:.0f}"
