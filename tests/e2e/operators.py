"""Random operators on real systems (tests/operators): 10 sequences on the embedded scheduler; 300 with STOKER_LONG=1, a fifth of
them on a real SLURM."""
import os
import subprocess
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "operators")
LONG = bool(os.environ.get("STOKER_LONG"))

options = ["--sequences", "300", "--world", "both", "--within", "3000", "--random"] if LONG else ["--within", "110"]
sys.exit(subprocess.run([sys.executable, os.path.join(HERE, "run.py"), *options], check=False).returncode)
