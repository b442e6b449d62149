"""tests/gpu/results.json, what tests/gpu/run saw last, against the sources of what computes on a GPU."""
import importlib.util
import json
import os

FILE = os.path.join("tests", "gpu", "results.json")


def digest_of(root):
    spec = importlib.util.spec_from_file_location("gpu_sources", os.path.join(root, "tests", "gpu", "sources.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.digest(root)


def complaints(root):
    try:
        with open(os.path.join(root, FILE)) as f:
            results = json.load(f)
    except (OSError, ValueError) as e:
        yield f"{FILE}: {e}"
        return
    for name, part in results.get("parts", {}).items():
        if name == "speed" and part.get("result", "").startswith("cut off"):
            yield f"note: {FILE}: speed was {part['result']}"
        elif part.get("result") != "passed":
            yield f"{FILE}: {name}: {part.get('result')}"
    if not results.get("parts"):
        yield f"{FILE}: no part of tests/gpu/run is in it"
    if results.get("sources") != digest_of(root):
        yield f"note: {FILE} is older than what computes on a GPU: run tests/gpu/run where one is, and commit its gpu.json as this file"
