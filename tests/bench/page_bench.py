"""How fast the page's series are made of the history of a long run."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("STOKER_BIN", os.path.join(ROOT, "build", "bin"))


def page():
    done = subprocess.run([os.path.join(BIN, "series_speed")], stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout)
    yield dict(name="page: a series of 10^6 iterations", value=told["ms"], unit="ms", goal="<= 50", ok=told["ms"] <= 50,
               note=f"600 points, {told['bytes']} bytes of JSON, {told['history_mb']} MB of history; a folded history of "
                    f"100,000 points takes {told['folded_ms']} ms")
