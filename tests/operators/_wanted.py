"""What people have asked for so far: which ends of a history are right.

A wish is (goal, paused, may_hold): goal "train" or "stop"; may_hold: people ended its jobs by hand, so that stoker may ask a
person. Where it is not known whether an order was carried out, or when, several wishes are possible and each is right.
"""
START = frozenset({("train", False, False)})


def after(verb, wish):
    """The wishes that an order leads to when it is carried out."""
    goal, paused, hold = wish
    if verb in ("stop", "kill"):
        return {("stop", paused, hold)}
    if verb == "resume":
        return {("train", False, False)}
    if verb == "pause":
        return {(goal, True, hold)}
    if verb == "stop_later":  # which no checkpoint may follow
        return {wish, ("stop", paused, hold)}
    if verb in ("restart", "rollback", "run"):  # of a run that is stopped or held these are a resume as well
        return {wish, ("train", False, False)}
    return {wish}


def by_hand(deed, wish):
    """The expectations after an action behind stoker's back."""
    (goal, paused, hold), name = wish, deed["name"]
    if name.startswith("cancel"):
        return {wish, (goal, paused, True)}
    if name == "kill_switch":  # a person's stop; it does nothing where nothing trains at that moment
        return {("stop", paused, True)} | (set() if deed.get("seen") else {wish})
    return {wish}


def apply(step, wishes):
    return frozenset(found for wish in wishes for found in step(wish))


def wishes(history, until=float("inf")):
    """All wishes that are right at a time."""
    now, lingering, kill_switch = START, [], None
    for h in sorted((h for h in history if h["kind"] in ("order", "deed", "settle") and h["t"] <= until), key=lambda h: h["t"]):
        verb = h.get("verb", "")
        if h["kind"] == "settle":  # a kill switch that was there has been read by now, or nothing reads it
            kill_switch = None
            continue
        if h["kind"] == "order" and (h["exit"] == 0 or not h["sure"]):
            done = apply(lambda wish, verb=verb: after(verb, wish), now)
            now = done if h["exit"] == 0 and h["sure"] else now | done
            if not h["sure"]:
                lingering.append(verb)
        elif h["kind"] == "deed" and h["name"] == "switch":  # it acts when the daemon reads it
            now |= apply(lambda wish, verb=verb: after(verb, wish), now)
            lingering.append(verb)
        elif h["kind"] == "deed" and h["name"] == "switches_read":
            if h.get("only"):  # in time, and nothing else was asked in between: it was carried out
                now = apply(lambda wish, verb=h["only"]: after(verb, wish), now)
            lingering.clear()
        elif h["kind"] == "deed":
            now = apply(lambda wish, deed=h: by_hand(deed, wish), now)
            kill_switch = h if h["name"] == "kill_switch" else kill_switch
        if kill_switch:  # the training may read it after what was ordered since
            now |= apply(lambda wish, deed=kill_switch: by_hand(deed, wish), now)
        for verb in lingering:
            now |= apply(lambda wish, verb=verb: after(verb, wish), now)
    return now


def trained(samples):
    """The training moved within these samples, and runs."""
    counts = [max(s["count"], s["status"].get("iteration", 0)) for s in samples]
    return bool(counts) and counts[-1] > counts[0] and bool(samples[-1]["ranks"])


def why_not(wish, samples, complete):
    """What is wrong at the end of these samples with this wish; "" when it is fulfilled, and the status says so."""
    goal, paused, hold = wish
    status, ranks = samples[-1]["status"], samples[-1]["ranks"]
    state, reason, conditions = status.get("state"), status.get("reason", ""), status.get("conditions", [])
    if not reason.strip():
        return f"{state} without a reason"
    if state == "finished":
        return "" if complete and not ranks else "finished, but it " + ("still has ranks" if ranks else "never reached its end")
    if state == "held" and (hold or goal == "stop"):
        words = ("cancel", "switch", "stop")
        return "" if any(w in reason.lower() for w in words) and not ranks else f"held, but not for what people did: {reason}"
    if goal == "stop":
        if hold and paused and state == "idle" and "paused" in conditions and not ranks:
            return ""  # a person's switch file, then a pause: nothing is submitted until `resume`, which is both
        return "" if state == "stopped" and not ranks else f"it is {state} with {len(ranks)} ranks: it was to stop"
    if paused:
        if "paused" not in conditions:
            return f"it is {state} and not paused"
        if state in ("idle", "queued", "held"):
            return "" if not ranks else f"it is {state} and {len(ranks)} ranks run"
        return "" if state == "training" and trained(samples) else f"paused and {state}, nothing moves"
    if "paused" in conditions:
        return "it is paused, and was not to be"
    if complete:
        return f"it reached its end and is {state}"
    return "" if state == "training" and trained(samples) else f"it is {state} ({reason}): it was to train"


def settled(history, window_s=3):
    """"" when one of the wishes is fulfilled by the last samples; else why each is not."""
    samples = [h for h in history if h["kind"] == "sample"]
    if not samples:
        return "nothing was seen"
    recent = [s for s in samples if s["t"] >= samples[-1]["t"] - window_s]
    if len(recent) < 3:  # a machine that is slow: the last ones, however long they took
        recent = samples[-3:]
    if len(recent) < 3 or not recent[-1]["well"]:
        return "not seen for long enough"
    complete = any(h["kind"] == "witness" and h["what"] == "complete" for h in history)
    whys = {why_not(wish, recent, complete) for wish in wishes(history)}
    return "" if "" in whys else "; or: ".join(sorted(whys))
