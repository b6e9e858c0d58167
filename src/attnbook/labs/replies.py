"""What comes back from the sandbox: its processes may have written anything; nothing is trusted."""

SAID = {
    "timeout": "it takes too long; is there an endless loop?",
    "exited": "the process ended without an answer, as after sys.exit or os._exit.",
    "too much": "its results are far larger than they should be.",
    "memory": "its processes together take too much memory.",
}


def carried(asked, questions, said):
    """Where an answer calls one that is wrong, say so: it may have no mistake of its own."""
    code = [one for one in asked if one.code]
    wrong = [one.name for one in code if questions[one.name]["points"] < one.points]
    for name in wrong:
        called = lines(said.get(name, {}).get("note", {}), "calls")
        called = [other for other in called if other in wrong]
        if called:
            text = questions[name]["text"].rstrip()
            text += "" if text.endswith((".", "?", "!", ")")) else "."
            questions[name]["text"] = f"{text} It calls {' and '.join(called)}: mend that first."


def lines(note, key):
    """A list of short sentences out of a reply, whatever its process has written there."""
    said = note.get(key)
    return [str(line)[:300] for line in said[:20]] if isinstance(said, list) else []


def outcomes(known, note, results):
    """For each case the arrays that came back, or a sentence."""
    notes = lines(note, "notes")
    found = []
    for number in range(len(known.cases)):
        parts = []
        while f"{number}/{len(parts)}" in results:
            parts.append(results[f"{number}/{len(parts)}"])
        said = notes[number] if number < len(notes) else ""
        found.append(tuple(parts) if parts and not said else said or "no result")
    return found
