"""Each rule of the checker on histories written by hand: one that keeps it, one that breaks it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))

from operators import _rules  # noqa: E402
from operators._wanted import settled, wishes  # noqa: E402

LIMITS = {"grace_s": 10, "effect_s": 20, "settle_s": 40}


def rank(number=0, pid=100, generation=1, job="7_1", busy=False):
    return {"rank": number, "pid": pid + number, "generation": generation, "attempt": 1, "job": job, "busy": busy, "stopped": False}


def sample(t, state="training", ranks=(rank(0), rank(1)), count=None, well=True, **status):
    return {"t": t, "kind": "sample", "well": well, "ranks": list(ranks), "count": int(t * 10) if count is None else count,
            "status": {"state": state, "conditions": [], "reason": "iterating", "job": "7_1", "generation": 1, "attempt": 1,
                       "iteration": int(t * 10) if count is None else count, "alerts": [], **status}}


def samples(begin, end, **fields):
    return [sample(t / 2, **fields) for t in range(begin * 2, end * 2)]


def order(t, verb, code=0, sure=True, said="it was done as you asked", **fields):
    return {"t": t, "kind": "order", "verb": verb, "argv": f"{verb} run", "exit": code, "said": said, "sure": sure, **fields}


def deed(t, name, **fields):
    return {"t": t, "kind": "deed", "name": name, **fields}


def witness(t, what, pid=100, number=0, count=0, **fields):
    return {"t": t, "kind": "witness", "what": what, "pid": pid, "rank": number, "count": count, "generation": 1, "attempt": 1, "job": "7_1", **fields}


def job(t, name):
    return {"t": t, "kind": "job", "job": name}


def at_end(history, after="after stop"):
    return history + [{"t": history[-1]["t"], "kind": "settle", "after": after}]


STILL = dict(state="stopped", ranks=(), count=50, reason="stop requested by alice")


class Rules(unittest.TestCase):
    def keeps(self, rule, history):
        self.assertEqual(list(rule(history, LIMITS)), [])

    def breaks(self, rule, history, word):
        found = list(rule(history, LIMITS))
        self.assertTrue(found, "nothing was found")
        self.assertIn(word, found[0])

    def test_one_writer(self):
        self.keeps(_rules.one_writer, [witness(1, "save", 100), witness(2, "save", 100), witness(3, "begin", 200), witness(4, "save", 200)])
        self.breaks(_rules.one_writer, [witness(1, "begin"), witness(2, "overlap", 200)], "another process held")
        self.breaks(_rules.one_writer, [witness(1, "save", 100), witness(2, "save", 200), witness(3, "save", 100)], "pid 100 saved rank 0 after pid 200")
        both = (rank(pid=100, busy=True), rank(pid=300, busy=True))
        self.breaks(_rules.one_writer, [sample(1, ranks=both), sample(2, ranks=both)], "compute rank 0")
        idle = (rank(pid=100, busy=True), rank(pid=300))
        self.keeps(_rules.one_writer, [sample(1, ranks=idle), sample(2, ranks=idle)])

    def test_finished_once(self):
        done = [witness(1, "complete"), witness(1.1, "complete", 101, 1)]
        self.breaks(_rules.finished_once, done + [witness(3, "begin", 200, job="7_2")], "after all ranks had completed")
        self.keeps(_rules.finished_once, done[:1] + [witness(3, "begin", 200)])  # the other rank crashed
        self.keeps(_rules.finished_once, done + [order(2, "resume"), witness(3, "begin", 200)])
        asked = [order(0.2, "stop"), order(0.4, "resume")]
        self.keeps(_rules.finished_once, asked + done + [witness(3, "begin", 200)])  # whether it left or had finished is unknown
        self.breaks(_rules.finished_once, asked[1:] + done + [witness(3, "begin", 200)], "after all ranks")
        self.breaks(_rules.finished_once, asked + [witness(0.6, "begin", 150)] + done + [witness(3, "begin", 200)], "after all ranks")
        self.keeps(_rules.finished_once, done + [deed(1.5, "kill_agent"), witness(3, "begin", 200)])
        self.breaks(_rules.finished_once, done + [order(2, "resume", code=1), witness(3, "begin", 200)], "after all ranks")

    def test_refusals(self):
        self.keeps(_rules.refusals_say_why, [order(1, "save", 1, said="no training is running (the run is held)")])
        self.breaks(_rules.refusals_say_why, [order(1, "save", 1, said="no")], "without a reason")
        self.breaks(_rules.refusals_say_why, [order(1, "save", -11)], "ended with -11")
        self.breaks(_rules.nonsense_is_refused, [order(1, "exclude", nonsense=True)], "was accepted")
        self.keeps(_rules.nonsense_is_refused, [order(1, "exclude", 1, nonsense=True)])
        unknown = {**order(1, "exclude", nonsense=True), "said": "nosuchnode excluded; nosuchnode could not be looked up: no answer"}
        self.keeps(_rules.nonsense_is_refused, [unknown])

    def test_orders_take_effect(self):
        self.keeps(_rules.orders_take_effect, samples(0, 5) + [order(5, "stop")] + samples(6, 10) + samples(10, 40, **STILL))
        self.breaks(_rules.orders_take_effect, samples(0, 5) + [order(5, "stop")] + samples(6, 40), "`stop run` at 5.0s")
        self.keeps(_rules.orders_take_effect, samples(0, 5) + [order(5, "stop"), order(8, "resume")] + samples(8, 40))  # taken back
        self.breaks(_rules.orders_take_effect, samples(0, 5) + [order(5, "pause")] + samples(6, 40), "`pause run`")
        self.breaks(_rules.orders_take_effect, samples(0, 5) + [order(5, "restart")] + samples(6, 40), "`restart run`")
        self.keeps(_rules.orders_take_effect, samples(0, 5) + [order(5, "restart")] + samples(6, 40, attempt=2))
        self.breaks(_rules.orders_take_effect, samples(0, 5, **STILL) + [order(5, "resume")] + samples(6, 40, **STILL), "`resume run`")

    def test_saves_happen(self):
        self.breaks(_rules.saves_happen, samples(0, 5) + [order(5, "save")] + samples(6, 40), "nothing was saved")
        self.keeps(_rules.saves_happen, samples(0, 5) + [order(5, "save")] + samples(6, 40) + [witness(6, "told")])
        self.keeps(_rules.saves_happen, samples(0, 5) + [order(5, "save")] + samples(6, 40, checkpoint={"iteration": 70}))
        self.keeps(_rules.saves_happen, samples(0, 5) + [order(5, "save"), deed(9, "kill_rank")] + samples(6, 40))

    def test_nodes_and_alerts(self):
        self.keeps(_rules.nodes_as_asked, [order(1, "exclude", node="n01"), deed(2, "nodes_seen", excluded=["n01"], asked=["n01", True])])
        self.breaks(_rules.nodes_as_asked, [order(1, "exclude", node="n01"), deed(2, "nodes_seen", excluded=[], asked=["n01", True])], "n01 was to be")
        alert = {"id": "run/hang/1", "acknowledged": False, "summary": "it hangs"}
        self.breaks(_rules.alerts_as_asked, [order(1, "ack", alert="run/hang/1")] + samples(2, 20, alerts=[alert]), "shows it open")
        self.keeps(_rules.alerts_as_asked, [order(1, "ack", alert="run/hang/1")] + samples(2, 20, alerts=[{**alert, "acknowledged": True}]))

    def test_status_is_true(self):
        self.keeps(_rules.status_is_true, samples(0, 30))
        self.breaks(_rules.status_is_true, samples(0, 5) + samples(5, 20, ranks=()), "no rank runs")
        self.breaks(_rules.status_is_true, samples(0, 5) + samples(5, 20, state="idle", job=""), "ranks run: idle")
        self.breaks(_rules.status_is_true, samples(0, 20, ranks=[rank(generation=2)]), "another generation")
        self.breaks(_rules.status_is_true, samples(0, 20, ranks=[rank(job="8_1")]), "another job")
        self.breaks(_rules.status_is_true, [witness(0, "complete", count=60)] + samples(0, 20, state="finished", ranks=(), count=60, iteration=0),
                    "less than was done")
        self.keeps(_rules.status_is_true, samples(0, 5) + samples(5, 14, ranks=()) + samples(14, 20))  # within the grace
        self.keeps(_rules.status_is_true, samples(0, 5) + samples(5, 30, ranks=(), well=False))  # the daemon is away

    def test_training_is_observed(self):
        self.keeps(_rules.training_is_observed, samples(0, 40))
        self.breaks(_rules.training_is_observed, samples(0, 40, iteration=7), "unobserved")

    def test_few_submissions(self):
        self.keeps(_rules.few_submissions, samples(0, 3) + [job(t, str(t)) for t in range(3, 6)] + samples(6, 9))
        stuck = dict(state="queued", ranks=(), count=30)
        self.breaks(_rules.few_submissions, samples(0, 3) + [job(4 + 2 * t, str(t)) for t in range(5)] + samples(20, 22, **stuck), "4 submissions")
        people = [deed(3.5 + t, "cancel_array") for t in range(5)]
        self.keeps(_rules.few_submissions, samples(0, 3) + people + [job(4 + 2 * t, str(t)) for t in range(5)])

    def test_none_unasked(self):
        self.breaks(_rules.none_unasked, [order(1, "pause"), job(20, "8")], "job 8 was submitted")
        self.keeps(_rules.none_unasked, [order(1, "pause"), order(2, "resume"), job(20, "8")])
        self.keeps(_rules.none_unasked, [order(1, "pause"), job(5, "8")])  # on its way already
        stopped = [order(1, "stop"), order(40, "resume"), order(40.3, "pause")]
        self.keeps(_rules.none_unasked, stopped + [job(40.4, "8")])  # the resume's, seen after the pause
        self.breaks(_rules.none_unasked, stopped + [job(60, "8")], "job 8 was submitted")

    def test_scheduler_keeps_its_word(self):
        def queue(t, *jobs):
            return {"t": t, "kind": "queue", "jobs": [tuple(j.split()) for j in jobs]}
        rule = _rules.scheduler_keeps_its_word
        self.keeps(rule, [queue(1, "7 1 RUNNING", "7 2 PENDING"), queue(2, "7 1 COMPLETED", "7 2 RUNNING"), queue(3, "7 2 RUNNING", "9 1 PENDING")])
        self.breaks(rule, [queue(1, "7 1 RUNNING", "8 1 RUNNING")], "7_1 and 8_1 run")
        self.breaks(rule, [queue(1, "7 1 CANCELLED"), queue(2, "7 1 RUNNING")], "it had ended as CANCELLED")
        self.keeps(rule, [queue(1, "7 1 FAILED"), deed(1.5, "requeue", job="7_1"), queue(2, "7 1 PENDING")])
        held = [queue(1, "7 1 PENDING"), deed(2, "hold", job="7_1")]
        self.breaks(rule, held + [queue(3, "7 1 RUNNING")], "although it is held")
        self.keeps(rule, held + [deed(3, "releasing"), queue(4, "7 1 RUNNING")])
        self.breaks(rule, [queue(1, "9 1 RUNNING"), queue(2, "9 1 RUNNING", "7 1 PENDING")], "job 7 is new")

    def test_ends_as_asked(self):
        self.keeps(_rules.ends_as_asked, at_end(samples(0, 20)))
        self.keeps(_rules.ends_as_asked, at_end([order(1, "stop")] + samples(5, 20, **STILL)))
        self.breaks(_rules.ends_as_asked, at_end([order(1, "stop")] + samples(5, 20)), "it was to stop")
        self.breaks(_rules.ends_as_asked, at_end(samples(0, 20, count=50)), "it was to train")
        self.breaks(_rules.ends_as_asked, at_end(samples(5, 20, **STILL)), "it was to train")
        self.breaks(_rules.ends_as_asked, at_end(samples(5, 20, state="held", ranks=(), count=9, reason="no luck")), "it was to train")
        self.breaks(_rules.ends_as_asked, at_end([order(1, "stop")] + samples(5, 20, **{**STILL, "reason": " "})), "without a reason")
        held = dict(state="held", ranks=(), count=9)
        self.keeps(_rules.ends_as_asked, at_end([deed(1, "cancel_array")] + samples(5, 20, reason="job 7 was cancelled by alice", **held)))
        self.breaks(_rules.ends_as_asked, at_end([deed(1, "cancel_array")] + samples(5, 20, reason="crash loop", **held)), "not for what people did")
        self.breaks(_rules.ends_as_asked, at_end(samples(5, 20, state="finished", ranks=(), count=9)), "never reached its end")

    def test_a_pause(self):
        paused = dict(conditions=["paused"])
        self.keeps(_rules.ends_as_asked, at_end([order(1, "pause")] + samples(2, 20, **paused)))
        self.keeps(_rules.ends_as_asked, at_end([order(1, "pause")] + samples(2, 20, state="idle", ranks=(), count=9, **paused)))
        self.breaks(_rules.ends_as_asked, at_end([order(1, "pause")] + samples(2, 20)), "not paused")
        self.breaks(_rules.ends_as_asked, at_end([order(1, "pause")] + samples(2, 20, state="idle", **paused)), "ranks run")

    def test_wishes(self):
        self.assertEqual(wishes([order(1, "stop"), order(2, "resume")]), {("train", False, False)})
        self.assertEqual(wishes([order(1, "stop", code=1)]), {("train", False, False)})
        self.assertEqual(wishes([order(1, "stop", sure=False)]), {("train", False, False), ("stop", False, False)})
        late = [deed(1, "switch", verb="stop"), order(2, "resume")]
        self.assertEqual(wishes(late), {("train", False, False), ("stop", False, False)})  # in either order
        read = [deed(1, "switch", verb="stop"), deed(2, "switches_read", only="stop"), order(3, "resume")]
        self.assertEqual(wishes(read), {("train", False, False)})
        self.assertEqual(settled(samples(0, 5)), "")
        self.assertEqual(settled([sample(t) for t in range(0, 40, 4)]), "")  # a machine that is slow
        self.assertEqual(settled([sample(0), sample(4)]), "not seen for long enough")
        overtaken = [deed(1, "kill_switch", seen=True), order(2, "resume")]  # the training reads the file after that
        self.assertEqual(wishes(overtaken), {("train", False, False), ("stop", False, True)})
        self.assertEqual(wishes([overtaken[0], {"t": 2, "kind": "settle", "after": "x"}, order(3, "resume")]), {("train", False, False)})

    def test_a_foreign_kill_switch(self):
        self.assertEqual(wishes([deed(1, "kill_switch", seen=True)]), {("stop", False, True)})
        self.assertEqual(wishes([deed(1, "kill_switch", seen=False)]), {("stop", False, True), ("train", False, False)})
        overruled = [deed(1, "kill_switch", seen=True)] + samples(2, 20)
        self.breaks(_rules.ends_as_asked, at_end(overruled), "it was to stop")
        self.keeps(_rules.ends_as_asked, at_end(overruled[:1] + samples(2, 20, state="held", ranks=(), count=9, reason="alice set the kill switch")))

    def test_journal(self):
        self.breaks(_rules.journal_is_whole, [{"t": 1, "kind": "audit", "exit": 1, "said": "row 7 differs"}], "row 7")
        self.breaks(_rules.journal_is_whole, [{"t": 1, "kind": "row", "seq": 3}, {"t": 1, "kind": "row", "seq": 3}], "twice")

    def test_every_rule_is_tested(self):
        with open(os.path.abspath(__file__), encoding="utf-8") as f:
            text = f.read()
        for rule in _rules.RULES:
            self.assertIn(f"_rules.{rule.__name__}", text)


if __name__ == "__main__":
    unittest.main()
