"""How much of each parser the kept inputs reach: lines, as clang counts them, of the files that a target is there for.

`./dev fuzz --coverage` builds the targets once more, counting and without sanitizers, runs the inputs of the repository
(tests/fuzz/corpus, seeds.py), and prints a line a target. Less than LEAST percent of a target's files together is a failure.
"""
import glob
import json
import os
import shutil
import subprocess
import tempfile

LEAST = 80
# What each target reads with; * is within a folder. A line that only its writing half has is counted too: it is read back.
JSON = ["common/json.cpp", "common/json.hpp"]  # one reader for all documents; the fields are tables
PARSERS = {
    "log": ["diagnose/match/log_scan.cpp", "diagnose/match/line_*.cpp", "diagnose/cause/find_cause.cpp", "diagnose/cause/cause_rules.cpp",
            "diagnose/cause/b*.cpp", "diagnose/cause/diagnosis.cpp"],
    "rank_log": ["diagnose/match/log_scan.cpp", "diagnose/match/line_*.cpp"],
    "sieve": ["diagnose/match/line_*.cpp"],
    "kernel": ["diagnose/parse/kernel_line.cpp", "diagnose/parse/xid_catalogue.cpp"],
    "origin": ["diagnose/input/line_origin.cpp", "common/hostlist.cpp"],
    "metrics": ["diagnose/parse/metrics.cpp", "diagnose/parse/iteration_line.cpp", "diagnose/parse/number_place.cpp"],
    "journal": ["diagnose/input/journal_export.cpp"],
    "journal_json": ["diagnose/input/journal_export.cpp"],
    "pickle": ["diagnose/parse/pickle*.cpp", "diagnose/parse/flight_recorder.cpp"],
    "packed": ["diagnose/input/log_reader.cpp", "diagnose/input/unpack.cpp", "diagnose/input/utf16.cpp"],
    "collectives": ["diagnose/cause/collectives.cpp"],
    "stacks": ["diagnose/cause/stack_groups.cpp"],
    "signatures": ["diagnose/match/signature.cpp"],
    "clocks": ["diagnose/input/log_clock.cpp", "diagnose/input/line_time.cpp", "diagnose/parse/phase_line.cpp", "diagnose/cause/gpu_places.cpp"],
    "agent_event": [*JSON, "wire/agent_event.cpp"],
    "star_frames": ["worker/agent/link/protocol.cpp", "worker/agent/link/handshake.cpp"],
    "star_session": ["worker/agent/link/protocol.cpp", "worker/agent/link/seal.cpp"],
    **dict.fromkeys(("node_report", "node_command", "control_socket", "embedded_request", "orders", "control", "manifest", "published"), JSON),
    "heartbeat": ["wire/heartbeat_page.cpp"],
    "web_request": ["daemon/http/web_request.cpp"],
    "schedule_csv": ["recipe/schedule/csv.cpp", "recipe/schedule/validate.cpp"],
    "run_yaml": ["configs/schema/run_s*.cpp", "configs/schema/yaml_*.cpp"],
    "train_yaml": ["configs/schema/train_*.cpp", "configs/schema/yaml_*.cpp"],
    "http_range": ["cli/remote/range_headers.cpp"],
    "squeue": ["slurm/queue_poll.cpp", "slurm/job_state.cpp"],
    "scontrol": ["slurm/job_detail.cpp", "slurm/job_steps.cpp"],
    "sacct": ["slurm/accounting.cpp"],
    "sinfo": ["slurm/node_states.cpp", "common/hostlist.cpp"],
    "slurm_json": ["slurm/job_json.cpp", "slurm/json_shapes.cpp"],
    "slurmrestd": ["slurm/rest/job_rows.cpp", "slurm/rest/json_items.cpp"],
    "adopt": ["slurm/adopt*.cpp", "slurm/script_*.cpp", "slurm/launch.cpp"],
    "crontab": ["slurm/crontab.cpp"],
    "idx": ["worker/train/data/indexed_dataset.cpp", "worker/train/data/byte_file.cpp"],
    "npy": ["worker/train/data/integer_array.cpp", "worker/train/data/checked_file.cpp"],
    "tokenizer": ["worker/train/data/tokenizer.cpp", "worker/train/data/bpe_tokenizer.cpp", "worker/train/data/word_split.cpp"],
    "samples_log": ["worker/train/data/samples_log.cpp"],
    "safetensors": ["worker/train/exchange/safetensors.cpp"],
    "journal_recovery": ["daemon/journal/recovery.cpp", "daemon/journal/hash_chain.cpp", "daemon/journal/graft.cpp"],
}


def files_of(root, target):
    return sorted(path for pattern in PARSERS[target] for path in glob.glob(os.path.join(root, pattern)))


def lines_of(program, profile, files):
    """(reached, all) of each file, as llvm-cov counts them; of a file without code: nothing."""
    done = subprocess.run(["llvm-cov", "export", "-summary-only", f"-instr-profile={profile}", program, *files], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=True)
    return {entry["filename"]: (entry["summary"]["lines"]["covered"], entry["summary"]["lines"]["count"])
            for entry in json.loads(done.stdout)["data"][0]["files"]}


def measure(root, name, run):
    """`run(argv, environment)` starts the target `name` on its inputs; (reached, all) of each of its files."""
    with tempfile.TemporaryDirectory(prefix="stoker-cov-", dir="/dev/shm") as folder:
        raw, profile = os.path.join(folder, "raw"), os.path.join(folder, "profile")
        program = run({"LLVM_PROFILE_FILE": raw})
        subprocess.run(["llvm-profdata", "merge", "-sparse", raw, "-o", profile], check=True)
        return lines_of(program, profile, files_of(root, name))


def tell(root, name, lines):
    """Prints the figure, with the files below LEAST; whether it is enough."""
    reached, whole = (sum(pair[i] for pair in lines.values()) for i in (0, 1))
    share = 100 * reached / whole if whole else 0
    low = [f"{os.path.relpath(path, root)} {100 * some // of}" for path, (some, of) in sorted(lines.items()) if of and 100 * some < LEAST * of]
    good = whole > 0 and share >= LEAST
    print(f"{'passed' if good else 'failed'}: fuzz: coverage of {name}: {share:.1f} % of {whole} lines" +
          (f" ({', '.join(low)})" if low else ""), flush=True)
    return good


def missing_tools():
    return [tool for tool in ("llvm-profdata", "llvm-cov") if shutil.which(tool) is None]
