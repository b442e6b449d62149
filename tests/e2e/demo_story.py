"""./dev demo's story as a test: every act holds, the weights are identical, the journal replays, nothing stays behind."""
import os
import subprocess
import sys

from e2e._harness import BIN, check, main

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo", "demo.py")


def the_whole_story_holds(_site):
    done = subprocess.run([sys.executable, DEMO, "--bin", BIN], text=True, capture_output=True, timeout=1400)
    print(done.stdout)
    check(done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[:3000]}")
    check("identical" in done.stdout, "the demo does not say that the weights are identical")


main(the_whole_story_holds)
