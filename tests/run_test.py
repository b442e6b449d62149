"""The parts of ./dev test itself: the ledger of what tests took, the estimate, the choice of tests by name."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import pick
import run
from beside import write_result
from ledger import KEPT, Ledger, Progress
from tally import Tally, closing_words, may_skip


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "tests.jsonl")

    def play(self, **tests):
        ledger = Ledger(self.path)
        for name, (outcome, seconds, tries) in tests.items():
            ledger.note(name, outcome, seconds, tries)
        ledger.save()
        return Ledger(self.path)

    def test_what_tests_took_is_known_in_the_next_run(self):
        self.play(a=("passed", 10, 1), b=("failed", 99, 1))
        ledger = self.play(a=("passed", 30, 2))
        self.assertEqual(ledger.usual("a"), 20)
        self.assertIsNone(ledger.usual("b"))  # a failure says nothing about how long it takes
        ledger.note("a", "passed", 1, 2)
        self.assertEqual(ledger.second_tries(), [("a", 2, 3)])

    def test_a_line_that_was_cut_off_or_is_something_else_is_left_out(self):
        self.play(a=("passed", 10, 1))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"at": 1, "tests": {"a": ["pas\n[]\n{"tests": {"a": 3}}\n')
        self.assertEqual(Ledger(self.path).usual("a"), 10)

    def test_it_keeps_so_many_runs(self):
        for _ in range(KEPT + 3):
            self.play(a=("passed", 1, 1))
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), KEPT)

    def test_progress_counts_and_estimates(self):
        ledger = self.play(a=("passed", 100, 1), b=("passed", 300, 1))
        progress = Progress(ledger, ["a", "b", "new"], 2)  # new: as long as the mean
        self.assertEqual(progress.done("a"), "1/3, about 5 min left")
        self.assertEqual(progress.done("b"), "2/3, about 3 min left")
        self.assertEqual(progress.done("new"), "3/3")
        self.assertEqual(Progress(Ledger(self.path + "x"), ["a", "b"], 2).done("a"), "1/2")

    def test_the_closing_words_name_what_was_not_proven(self):
        Tally.ledger = ledger = Ledger(self.path)
        tally = Tally()
        tally.no_time.append("tidy: all of it")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            for i in range(12):
                tally.tell(f"t{i}", "passed", i)
            closing_words(tally, ledger)
        text = said.getvalue()
        self.assertIn("the slowest: t11 11s, t10 10s", text)
        self.assertNotIn("t1 1s", text.split("the slowest")[1])
        self.assertIn("NO TIME WAS LEFT, NOT PROVEN: tidy: all of it", text)

    def test_a_skipped_test_is_a_failure_unless_the_machine_lacks_the_part_by_nature(self):
        for reason in ("mounting a small disk needs root", "SKIPPED: this CPU has no AVX2 or no FMA", "no time was left for it",
                       "the daemons of a test cluster run as root", "SKIPPED: ../shared/data/gpt2-merges.txt is absent"):
            self.assertTrue(may_skip(reason, installs=True), reason)
        for reason in ("tmux is not installed", "SKIPPED: no SLURM can be started here: not installed: slurmctld", "clang++ is not here", ""):
            self.assertFalse(may_skip(reason, installs=True), reason)
            self.assertTrue(may_skip(reason, installs=False), reason)

    def test_a_part_in_its_own_process_tells_its_tally_as_json(self):
        write_result(self.path, Tally(), ["lint"], {"a": ("passed", 1.0, 1)})
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["took"], {"a": ["passed", 1.0, 1]})


class PickTest(unittest.TestCase):
    scripts = {"held": "held.py", "hostile_files": "hostile_files.py"}

    def test_a_whole_name_is_that_test_alone(self):
        picked = pick.Picked(["held"], self.scripts)
        self.assertEqual((picked.e2e, picked.doctests, picked.golden, picked.targets()),
                         ({"held": "held.py"}, {}, [], ["programs"]))

    def test_wildcards_and_parts_of_names(self):
        self.assertEqual(list(pick.Picked(["e2e: h*"], self.scripts).e2e), ["held", "hostile_files"])
        picked = pick.Picked(["time limits as sbatch"], self.scripts)
        self.assertEqual(picked.targets(), ["test_slurm"])
        self.assertEqual(pick.Picked(["script_checkpoints"], self.scripts).golden, ["script_checkpoints"])
        self.assertEqual(pick.Picked(["script_checkpoints"], self.scripts).targets(), ["test_golden"])

    def test_a_case_on_slurm(self):
        self.assertEqual([case for _, case, _ in pick.Picked(["slurm: script_hangs"], self.scripts).slurm][:1], ["script_hangs"])

    def test_a_case_in_a_folder_below_belongs_to_the_program_of_the_upper_one(self):
        self.assertEqual(pick.Picked(["schedule csv: a file of torch's form"], self.scripts).targets(), ["test_recipe"])

    def test_every_doctest_case_is_found_in_the_sources(self):
        folders = {folder for folder, _ in pick.doctest_cases()}
        self.assertLessEqual({"core", "slurm", "golden", "recipe"}, folders)
        self.assertIn(("core", "status: a heartbeat of another attempt, of a run that is over, or older -> not shown"),
                      pick.doctest_cases())


class PartsTest(unittest.TestCase):
    def test_every_part_is_there_once_and_the_turns_come_last(self):
        parts = run.computing_parts()
        self.assertEqual(sorted(parts), sorted(run.COMPUTING))
        self.assertEqual(set(parts[-len(run.TURNS):]), set(run.TURNS))


if __name__ == "__main__":
    unittest.main()
