"""Random operators on real systems (tests/operators): the checker's own tests, then 10 sequences on the embedded scheduler; 300 with
STOKER_LONG=1, a fifth of them on a real SLURM."""
import os
import subprocess
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "operators")
LONG = bool(os.environ.get("STOKER_LONG"))

for name, *options in (["rules_test.py"], ["run.py", "--sequences", "300", "--world", "both", "--within", "3000", "--random"] if LONG else ["run.py", "--within", "110"]):
    done = subprocess.run([sys.executable, os.path.join(HERE, name), *options], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
