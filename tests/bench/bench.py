#!/usr/bin/env python3
"""./dev bench [NAME] [--json]: the figures of docs/performance.md, each a ratio within one run where two things are compared.

One JSON line a figure: {"name","value","unit","goal","ok","note"}. A figure that cannot be measured here says why in its note
(value null) instead of being left out.
"""
import argparse
import json
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="one of: restart hang daemon fleet commands journal iteration optimizer pipeline comm zero reshard loader trust runs save stall export scan sim slurm page (default: all)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the log of `scan`")
    parser.add_argument("--long", action="store_true", help="`scan`: 10,000 files of 1 MB instead of 50 KB; `sim`: 10^6 hours; `loader`: 220 million samples")
    parser.add_argument("--record", action="store_true", help="what is measured becomes the last figure that later runs are compared with")
    options = parser.parse_args()
    os.environ.update(STOKER_BIN=os.path.abspath(options.bin), STOKER_SCAN_MB=str(options.megabytes),
                      STOKER_LONG="1" if options.long else "", STOKER_RECORD="1" if options.record else "")
    import checkpoint_bench
    import daemon_bench
    import fleet_bench
    import page_bench
    import restart_bench
    import runs_bench
    import scan_bench
    import sim_bench
    import slurm_bench
    import step_bench
    import train_bench

    benches = {"restart": restart_bench.restart, "hang": restart_bench.hang, "daemon": daemon_bench.idle,
               "commands": daemon_bench.commands, "journal": daemon_bench.journal, "runs": runs_bench.runs, "iteration": train_bench.iteration, "save": train_bench.save,
               "stall": checkpoint_bench.stall, "optimizer": step_bench.optimizer, "pipeline": step_bench.pipeline, "comm": step_bench.comm,
               "zero": step_bench.zero, "reshard": step_bench.reshard, "loader": step_bench.loader, "trust": step_bench.trust, "export": checkpoint_bench.export,
               "scan": scan_bench.scan, "fleet": fleet_bench.fleet, "slurm": slurm_bench.slurm, "sim": sim_bench.sim,
               "page": page_bench.page}
    if options.name and options.name not in benches:
        print(f"bench: no figure named {options.name}; there are: {' '.join(benches)}", file=sys.stderr)
        return 2
    good = True
    for name, bench in benches.items():
        if options.name and name != options.name:
            continue
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        try:
            figures = list(bench())
        except Exception as broken:  # one broken figure must not hide the others
            traceback.print_exc()
            figures = [dict(name=name, value=None, unit="", goal="", ok=False, note=f"could not be measured: {broken}")]
        for figure in figures:
            good = good and bool(figure["ok"])
            if options.json:
                print(json.dumps(figure), flush=True)
            else:
                value = "-" if figure["value"] is None else f"{figure['value']:.4g}"
                print(f"{'ok ' if figure['ok'] else 'NO '} {figure['name']:<34} {value:>9} {figure['unit']:<6} "
                      f"goal {figure['goal']:<10} {figure['note']}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
