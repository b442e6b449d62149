"""The embedded scheduler does what docs/embedded-scheduler.md says: random operations on real ones, a model's answers beside them.

STOKER_SEED is the first sequence's seed, STOKER_SEQUENCES their number (20; 500 with STOKER_LONG). STOKER_PROVED names the file
that is to say what agreed: tests/embedded/contract_proved.txt.
"""
import concurrent.futures
import os
import sys
import time

import proved
from embedded.contract_player import OPERATIONS, Lane

LANES = 6
SEQUENCES = int(os.environ.get("STOKER_SEQUENCES", 500 if os.environ.get("STOKER_LONG") else 20))
FIRST = int(os.environ.get("STOKER_SEED", 1))


def play(seed):
    text = Lane(seed).play()
    if text:
        print(text, flush=True)
    return text


def main():
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        different = [text for text in pool.map(play, range(FIRST, FIRST + SEQUENCES)) if text]
    seconds = time.monotonic() - began
    print(f"{SEQUENCES} sequences of {OPERATIONS} operations, from seed {FIRST}: {len(different)} differ, {seconds:.0f} s")
    if "STOKER_PROVED" in os.environ:
        proved.write_down(os.environ["STOKER_PROVED"], "tests/e2e/embedded_contract.py with STOKER_LONG and STOKER_PROVED", "contract",
                          f"sequences of {OPERATIONS} operations", "differ", [(FIRST, FIRST + SEQUENCES - 1, len(different), seconds)])
    print("not ok embedded_contract" if different else "ok embedded_contract")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
