"""The rules that every history must keep (its shape: _witness.py). Each rule yields a sentence for each violation; none asks stoker.

`limits`: grace_s (two polls of this world), effect_s (an order's effect), settle_s.
"""
from operators._wanted import settled, wishes

ACTING = ("stop", "kill", "pause", "resume", "restart", "rollback", "run")
OVER = ("idle", "queued", "held", "stopped", "finished")
SUBMISSIONS = 3


def of(history, kind, **fields):
    return [h for h in history if h["kind"] == kind and all(h.get(k) == v for k, v in fields.items())]


def at(h):
    return f"{h['t']:.1f}s"


def stretch(samples, wrong, grace_s):
    """The first stretch of well samples that are all wrong for longer than the grace: (first, last), or None."""
    first, seen = None, 0
    for s in samples:
        if not s["well"] or not wrong(s):
            first, seen = None, 0
            continue
        first, seen = first or s, seen + 1
        if seen > 4 and s["t"] - first["t"] > grace_s:
            return first, s
    return None


# ---- one writer, one execution
def one_writer(history, limits):
    """Never two writers of one checkpoint tree: the shard's lock was free, no process saved between two saves of another, no two compute."""
    for h in of(history, "witness", what="overlap"):
        yield f"at {at(h)} rank {h['rank']} (pid {h['pid']}) began while another process held its shard"
    last = {}
    for h in of(history, "witness", what="save"):
        before = last.setdefault(h["rank"], [])
        if before and before[-1] != h["pid"] and h["pid"] in before:
            yield f"at {at(h)} pid {h['pid']} saved rank {h['rank']} after pid {before[-1]} had"
        if not before or before[-1] != h["pid"]:
            before.append(h["pid"])
    both = {}
    for s in of(history, "sample"):
        computing = {}
        for r in s["ranks"]:
            if r["busy"] and not r.get("standby"):
                computing.setdefault(r["rank"], set()).add(r["pid"])
        for rank, pids in computing.items():
            if len(pids) > 1 and pids == both.get(rank):
                yield f"at {at(s)} pids {sorted(pids)} compute rank {rank} at the same time"
        both = {rank: pids for rank, pids in computing.items() if len(pids) > 1}


def finished_once(history, limits):
    """A job that reached its end is not executed again, unless a person asks for it; killed in that moment, it may be. Asked to leave
    and then to go on, it may be as well: whether it left or had finished, an exit code of 0 does not say."""
    ended, complete, leaves, going_on = None, {}, False, False
    for h in sorted(history, key=lambda h: h["t"]):
        verb = h.get("verb") if h["kind"] == "order" and h["exit"] == 0 or h["kind"] == "deed" and h["name"] == "switch" else None
        leaves = leaves or verb in ("stop", "kill", "restart", "rollback")
        going_on = going_on or leaves and verb in ("resume", "run", "restart", "rollback")
        if h["kind"] == "order" and h["verb"] in ("resume", "run", "restart", "rollback") and h["exit"] == 0 or \
                h["kind"] == "deed" and h["name"] in ("switch", "switches_read"):
            ended, complete = None, {}
        elif h["kind"] == "witness" and h["what"] == "complete":
            who = complete.setdefault((h["generation"], h["attempt"], h["job"]), set())
            who.add(h["rank"])
            if len(who) == limits.get("ranks", 2):
                ended = None if going_on else h["t"]
        elif h["kind"] == "witness" and h["what"] == "begin":
            leaves = going_on = False
            if ended is None:
                continue
            violent = [d for d in of(history, "deed") if abs(d["t"] - ended) < 4 and d["name"].startswith(("kill_", "cancel", "requeue", "everything"))]
            if not violent:
                yield f"at {at(h)} rank {h['rank']} began in job {h['job']}, {h['t'] - ended:.1f}s after all ranks had completed the training"
            ended = None


# ---- orders
def refusals_say_why(history, limits):
    """A command ends with 0, 1 or 2; one that refuses says why."""
    for h in of(history, "order"):
        if h["exit"] not in (0, 1, 2):
            yield f"at {at(h)} `{h['argv']}` ended with {h['exit']}: {h['said'][-300:]}"
        elif h["exit"] != 0 and len(h["said"].split()) < 4:
            yield f"at {at(h)} `{h['argv']}` was refused without a reason: \"{h['said']}\""


def nonsense_is_refused(history, limits):
    """An order that names what does not exist, or a broken file, is refused, where it could be known: without its scheduler
    stoker takes a node's name, and says that it could not look it up."""
    for h in of(history, "order", nonsense=True):
        if h["exit"] == 0 and "could not be looked up" not in h["said"]:
            yield f"at {at(h)} `{h['argv']}` was accepted: {h['said'][-200:]}"


def seen_effect(verb, before, s):
    """What a sample shows of an order."""
    state, status = s["status"].get("state"), s["status"]
    if verb in ("stop", "kill"):
        return state in ("stopped", "finished", "held") and not s["ranks"]
    if verb == "pause":
        return "paused" in status.get("conditions", []) or state in ("finished", "stopped")
    if verb == "resume":
        return "paused" not in status.get("conditions", []) and state not in ("stopped", "held")
    if verb == "restart":
        return (status.get("generation", 0), status.get("attempt", 0)) > before or state == "finished"
    return True


def disturbing(h):
    return h["kind"] == "deed" and h["name"] not in ("nodes_seen", "switches_read", "releasing", "released") or h["kind"] == "order" and h["verb"] in ACTING


def orders_take_effect(history, limits):
    """What was accepted is seen in status and processes, if nothing else was requested meanwhile."""
    samples = of(history, "sample")
    for h in of(history, "order"):
        if h["exit"] != 0 or not h["sure"] or h["verb"] not in ACTING:
            continue
        end = min((o["t"] for o in history if disturbing(o) and o["t"] > h["t"]), default=float("inf"))
        seen = [s for s in samples if h["t"] < s["t"] < end]
        if not seen or seen[-1]["t"] - h["t"] < limits["effect_s"]:
            continue
        earlier = [s["status"] for s in samples if s["t"] <= h["t"]][-1:] or [{}]
        before = earlier[0].get("generation", 0), earlier[0].get("attempt", 0)
        if h["verb"] == "restart" and earlier[0].get("state") not in ("training", "starting"):
            continue
        if not any(seen_effect(h["verb"], before, s) for s in seen):
            yield f"`{h['argv']}` at {at(h)} was accepted and had no effect for {limits['effect_s']}s: {seen[-1]['status']}"


def nodes_as_asked(history, limits):
    """An exclusion that was accepted is shown by `stoker nodes`, and goes with include."""
    out = set()
    for h in sorted(history, key=lambda h: h["t"]):
        if h["kind"] == "order" and h["verb"] in ("exclude", "include") and h["exit"] == 0 and h["sure"] and not h.get("nonsense"):
            (out.add if h["verb"] == "exclude" else out.discard)(h["node"])
        elif h["kind"] == "deed" and h["name"] == "nodes_seen" and h["asked"] is not None:
            node, excluded = h["asked"]
            if excluded != (node in h["excluded"]) and excluded == (node in out):
                yield f"at {at(h)} {node} was to be {'excluded' if excluded else 'included'}; `stoker nodes` says excluded: {h['excluded']}"


def alerts_as_asked(history, limits):
    """An alert that was acknowledged is shown so, or is over."""
    samples = of(history, "sample")
    for h in of(history, "order", verb="ack"):
        if h["exit"] != 0 or not h["sure"] or h.get("nonsense"):
            continue
        seen = [s for s in samples if s["well"] and h["t"] + limits["grace_s"] < s["t"]]
        open_ones = [a for s in seen[:1] for a in s["status"].get("alerts", []) if a["id"] == h["alert"] and not a["acknowledged"]]
        if open_ones:
            yield f"`{h['argv']}` at {at(h)} was accepted, and {at(seen[0])} shows it open: {open_ones[0]['summary']}"


def saves_happen(history, limits):
    """A save that was accepted reaches the training, if it runs on undisturbed; of the core, a checkpoint follows."""
    samples = of(history, "sample")
    for h in of(history, "order", verb="save"):
        end = min((o["t"] for o in history if disturbing(o) and o["t"] > h["t"]), default=float("inf"))
        calm = [s for s in samples if h["t"] < s["t"] < min(end, h["t"] + limits["effect_s"])]
        earlier = [s for s in samples if s["t"] <= h["t"]][-1:]
        if h["exit"] != 0 or not h["sure"] or not earlier or not calm or calm[-1]["t"] - h["t"] < limits["effect_s"] - 2:
            continue
        if earlier[0]["status"].get("state") != "training" or not all(s["ranks"] and s["well"] for s in calm):
            continue
        reached = earlier[0]["status"].get("iteration", 0)
        saved = any((s["status"].get("checkpoint") or {}).get("iteration", 0) >= reached for s in calm)
        if not saved and not [w for w in of(history, "witness", what="told") if w["t"] > h["t"]]:
            yield f"`{h['argv']}` at {at(h)} was accepted, and nothing was saved for {limits['effect_s']}s"


# ---- status and processes
def status_is_true(history, limits):
    """State and processes agree within two polls, as long as the daemon can see and publish."""
    samples, grace = of(history, "sample"), limits["grace_s"]
    done = max((w["count"] for w in of(history, "witness", what="complete")), default=0)
    wrong = {
        "says training, and no rank runs": lambda s: s["status"].get("state") == "training" and not s["ranks"],
        "says it does not train, and ranks run": lambda s: s["status"].get("state") in OVER and any(not r["stopped"] for r in s["ranks"]),
        "speaks of another generation than the one that runs": lambda s: s["ranks"] and s["status"].get("state") == "training" and
            all(r["generation"] and r["generation"] != s["status"].get("generation") for r in s["ranks"]),
        "says finished, and shows less than was done": lambda s: s["status"].get("state") == "finished" and s["status"].get("iteration", 0) < done <= s["count"],
        "speaks of another job than the one that runs": lambda s: s["ranks"] and s["status"].get("state") == "training" and
            all(r["job"] != s["status"].get("job") for r in s["ranks"]),
    }
    for text, test in wrong.items():
        found = stretch(samples, test, grace)
        if found:
            first, last = found
            yield (f"from {at(first)} to {at(last)} status {text}: {last['status'].get('state')} ({last['status'].get('reason')}), "
                   f"job {last['status'].get('job')}, generation {last['status'].get('generation')}; ranks {last['ranks']}")


def training_is_observed(history, limits):
    """What the training does is known to stoker within two polls."""
    samples = of(history, "sample")

    def behind(s):
        then = [e["count"] for e in samples if e["t"] <= s["t"] - limits["grace_s"]]
        return then and s["ranks"] and then[-1] > s["status"].get("iteration", 0) and s["status"].get("state") != "finished"
    found = stretch(samples, behind, limits["grace_s"])
    if found:
        yield (f"from {at(found[0])} to {at(found[1])} it trained unobserved: at count {found[1]['count']}, status says "
               f"{found[1]['status'].get('iteration')} ({found[1]['status'].get('state')})")


# ---- submissions
def few_submissions(history, limits):
    """At most three in ten minutes without progress; what people do in between may each need one more."""
    best, since = -1, []
    acts = [h["t"] for h in history if disturbing(h)]
    for h in sorted(of(history, "sample") + of(history, "job"), key=lambda h: h["t"]):
        if h["kind"] == "job":
            since = [t for t in since if t > h["t"] - 600] + [h["t"]]
            allowed = SUBMISSIONS + sum(since[0] - 10 <= t <= h["t"] for t in acts)
            if len(since) > allowed:
                yield f"{len(since)} submissions without progress from {since[0]:.1f}s to {at(h)}, {allowed} allowed"
                return
        else:
            reached = max(h["count"], h["status"].get("iteration", 0))
            best, since = (reached, []) if reached > best else (best, since)


def none_unasked(history, limits):
    """Nothing is submitted while the run is to stand still: the job may have been on its way since any moment of the grace before."""
    for h in of(history, "job"):
        since = h["t"] - limits["grace_s"]
        asked = [k["t"] for k in history if k["kind"] in ("order", "deed") and since < k["t"] <= h["t"]]
        now = frozenset().union(*(wishes(history, t) for t in (since, *asked, h["t"])))
        if all(goal == "stop" or paused for goal, paused, _ in now):
            yield f"job {h['job']} was submitted by {at(h)}, while the run was stopped or paused"


# ---- the scheduler: the same rules for SLURM, which wrote them, and for the embedded one, which promises them
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")


def scheduler_keeps_its_word(history, limits):
    """One task of the run's name at a time (singleton, %1); ended is ended unless requeued; what is held does not start; ids grow."""
    ended, held, known, before = {}, set(), set(), {}
    for h in sorted((h for h in history if h["kind"] in ("queue", "deed")), key=lambda h: h["t"]):
        if h["kind"] == "deed":
            held |= {h["job"]} if h["name"] == "hold" else set()
            held = set() if h["name"] == "releasing" else held
            ended = {} if h["name"] == "requeue" else ended
            continue
        now = {f"{array}_{task}": state for array, task, state in h["jobs"] if task}
        running = sorted(job for job, state in now.items() if state == "RUNNING")
        if len(running) > 1:
            yield f"at {at(h)} {' and '.join(running)} run at the same time"
        for job, state in now.items():
            if job in ended and state not in ENDED:
                yield f"at {at(h)} {job} is {state}; it had ended as {ended[job]}"
            if job in held and state == "RUNNING" and before.get(job) == "PENDING":
                yield f"at {at(h)} {job} runs, although it is held"
            if state in ENDED:
                ended[job] = state
        arrays = {int(array) for array, _, _ in h["jobs"]}
        if arrays - known and min(arrays - known) < max(known, default=0):
            yield f"at {at(h)} job {min(arrays - known)} is new, and {max(known)} was there before it"
        known, before = known | arrays, now


# ---- the end
def ends_as_asked(history, limits):
    """After the last operation the run trains, or is in the state that was asked for, and says so."""
    for index, marker in enumerate(history):
        why = settled(history[:index]) if marker["kind"] == "settle" else ""
        if why:
            yield f"{marker['after']}, at {at(marker)}: {why}"
            return


def journal_is_whole(history, limits):
    """The journal replays to the same state, and no event is published twice."""
    for h in of(history, "audit"):
        if h["exit"] != 0:
            yield f"stokerd --audit: exit {h['exit']}: {h['said'][-500:]}"
    numbers = [h["seq"] for h in of(history, "row")]
    if len(set(numbers)) != len(numbers):
        yield "events.jsonl has an event twice"


RULES = [one_writer, finished_once, refusals_say_why, nonsense_is_refused, orders_take_effect, saves_happen, nodes_as_asked, alerts_as_asked, status_is_true,
         training_is_observed, few_submissions, none_unasked, scheduler_keeps_its_word,
         ends_as_asked, journal_is_whole]


def violations(history, limits):
    """[(rule, sentence)] of all rules."""
    return [(rule.__name__, text) for rule in RULES for text in rule(history, limits)]
