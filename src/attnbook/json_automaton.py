"""JSON, character by character: a stack of open brackets, and what may come next."""

from attnbook.automata import Node, Regex

# what is expected, with whatever it needs to know, and the brackets that are open
State = tuple[tuple, str]
NUMBER = Regex(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
WORDS = {"t": "rue", "f": "alse", "n": "ull"}
HEX = "0123456789abcdefABCDEF"


class Json:
    """Every JSON text and no other (RFC 8259). `spaces` may stand between its parts: none if "".

    Without spaces a model cannot go on adding them for ever.
    """

    def __init__(self, spaces: str = " \t\n\r"):
        if set(spaces) - set(" \t\n\r"):
            raise ValueError(f"JSON knows the spaces ' \\t\\n\\r' only; got {spaces!r}")
        self.spaces = spaces
        self.start: State = (("value",), "")

    def accepts(self, state: State) -> bool:
        (expected, *know), opened = state
        done = expected == "after" or (expected == "number" and NUMBER.accepts(know[0]))
        return done and not opened

    def step(self, state: State, character: str) -> State | None:
        (expected, *know), opened = state
        if expected in ("string", "escape", "hex", "word"):
            return self.inside(expected, know, opened, character)
        if expected == "number":
            return self.number(know[0], opened, character)
        if character in self.spaces:
            return state
        if expected == "after":
            return self.after(opened, character)
        if expected == "colon":
            return (("value",), opened) if character == ":" else None
        if character == "]" and expected == "first value":
            return ("after",), opened[:-1]
        if character == "}" and expected == "first key":
            return ("after",), opened[:-1]
        if expected.endswith("key"):
            return (("string", "colon"), opened) if character == '"' else None
        return self.value(opened, character)

    def value(self, opened: str, character: str) -> State | None:
        """A value begins."""
        if character == '"':
            return ("string", "after"), opened
        if character in WORDS:
            return ("word", WORDS[character]), opened
        if character == "[":
            return ("first value",), opened + character
        if character == "{":
            return ("first key",), opened + character
        digits = NUMBER.step(NUMBER.start, character)
        return None if digits is None else (("number", digits), opened)

    def inside(self, expected: str, know: list, opened: str, character: str) -> State | None:
        """In the middle of a text, of an escape in it, or of a word."""
        if expected == "word":
            left = know[0][1:]
            then = ("word", left) if left else ("after",)
            return (then, opened) if character == know[0][0] else None
        if expected == "hex":
            left, then = know
            state = ("hex", left - 1, then) if left > 1 else ("string", then)
            return (state, opened) if character in HEX else None
        (then,) = know
        if expected == "escape":
            if character == "u":
                return ("hex", 4, then), opened
            return (("string", then), opened) if character in '"\\/bfnrt' else None
        if character == '"':
            return (then,), opened
        if character == "\\":
            return ("escape", then), opened
        return (("string", then), opened) if character >= " " else None

    def number(self, digits: Node, opened: str, character: str) -> State | None:
        """A number goes on, or was over before this character."""
        more = NUMBER.step(digits, character)
        if more is not None:
            return ("number", more), opened
        return self.step((("after",), opened), character) if NUMBER.accepts(digits) else None

    def after(self, opened: str, character: str) -> State | None:
        """A value is complete: a comma, or the bracket that closes what is open."""
        if not opened:
            return None
        if character == ",":
            return (("value",) if opened[-1] == "[" else ("key",)), opened
        return (("after",), opened[:-1]) if opened[-1] + character in ("[]", "{}") else None
