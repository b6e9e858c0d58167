"""Which character may come next: regular expressions and JSON as machines that read one at a time.

An automaton has a `start` state; `step(state, character)` gives the next one, or None where nothing
can follow; `accepts(state)` says whether what was read is whole.
"""

from collections.abc import Hashable
from typing import Protocol, runtime_checkable

Node = (
    tuple  # ("empty",), ("set", characters, all others), ("then", a, b), ("or", nodes), ("many", a)
)


@runtime_checkable
class Automaton(Protocol):
    """A machine that reads character by character and knows when it can be over."""

    start: Hashable

    def step(self, state: Hashable, character: str) -> Hashable | None:
        """The state after one more character; None if no text goes on like this."""

    def accepts(self, state: Hashable) -> bool:
        """May the text end here?"""


EMPTY: Node = ("empty",)
NOTHING: Node = ("or", frozenset())
CLASSES = {"d": "0123456789", "s": " \t\n\r\f\v"}
CLASSES["w"] = CLASSES["d"] + "".join(chr(65 + i) + chr(97 + i) for i in range(26)) + "_"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


def then(a: Node, b: Node) -> Node:
    """First a, then b."""
    if NOTHING in (a, b):
        return NOTHING
    return b if a == EMPTY else a if b == EMPTY else ("then", a, b)


def either(*nodes: Node) -> Node:
    """One of these; the same ones are written in the same way, so that states do not multiply."""
    flat = frozenset(n for node in nodes for n in (node[1] if node[0] == "or" else (node,)))
    return next(iter(flat)) if len(flat) == 1 else ("or", flat)


def may_end(node: Node) -> bool:
    """Does the empty text fit?"""
    if node[0] == "then":
        return may_end(node[1]) and may_end(node[2])
    if node[0] == "or":
        return any(map(may_end, node[1]))
    return node[0] in ("empty", "many")


def rest(node: Node, character: str) -> Node:
    """What must follow once `character` was read: the derivative of Brzozowski 1964."""
    kind = node[0]
    if kind == "set":
        return EMPTY if (character in node[1]) != node[2] else NOTHING
    if kind == "then":
        first = then(rest(node[1], character), node[2])
        return either(first, rest(node[2], character)) if may_end(node[1]) else first
    if kind == "or":
        return either(*(rest(each, character) for each in node[1]))
    return then(rest(node[1], character), node) if kind == "many" else NOTHING


class Regex:
    """A regular expression, matched as a whole: `re.fullmatch` one character at a time.

    Literals, `.`, classes, `\\d \\w \\s` (of ASCII), groups, `|`, `*`, `+`, `?` and `{m,n}`; no
    anchors, no look-around, no back-references.
    """

    def __init__(self, pattern: str):
        self.pattern, self.at = pattern, 0
        self.start: Node = self.choice()
        if self.at < len(pattern):
            raise self.error("a closing bracket that was not opened")

    def step(self, state: Node, character: str) -> Node | None:
        """The state after one more character; None if no match begins with what was read."""
        after = rest(state, character)
        return None if after == NOTHING else after

    def accepts(self, state: Node) -> bool:
        """Is what was read a match as a whole?"""
        return may_end(state)

    def error(self, what: str) -> ValueError:
        """What is wrong, and where in the expression; for the caller to raise."""
        return ValueError(f"{what}, at {self.at} of the regular expression {self.pattern!r}")

    def peek(self) -> str:
        """The next character of the expression; "" at its end."""
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        """The next character of the expression, which is behind then."""
        self.at += 1
        return self.pattern[self.at - 1 : self.at]

    def choice(self) -> Node:
        """a|b|c"""
        nodes = [self.sequence()]
        while self.peek() == "|":
            self.take()
            nodes.append(self.sequence())
        return either(*nodes)

    def sequence(self) -> Node:
        """abc, each with what repeats it"""
        parts = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.repeat(self.atom()))
        node = EMPTY
        for part in reversed(parts):
            node = then(part, node)
        return node

    def repeat(self, node: Node) -> Node:
        """a*, a+, a?, a{2}, a{2,}, a{2,5}"""
        while self.peek() and self.peek() in "*+?{":
            sign = self.take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self.counts()
            more = ("many", node) if high is None else EMPTY
            for _ in range((high or low) - low):
                more = either(EMPTY, then(node, more))
            for _ in range(low):
                more = then(node, more)
            node = more
        return node

    def counts(self) -> tuple[int, int | None]:
        """What stands in {…}"""
        inside, closed, _ = self.pattern[self.at :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not low.isdigit() or not (high.isdigit() or not high):
            raise self.error("{…} holds one number, or two with a comma between them")
        self.at += len(inside) + 1
        bounds = int(low), (int(high) if high else None) if comma else int(low)
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise self.error(f"from {bounds[0]} to {bounds[1]} times")
        return bounds

    def atom(self) -> Node:
        """One character, a class, or a group"""
        character = self.take()
        if character == "(":
            if self.pattern.startswith("?:", self.at):
                self.at += 2
            elif self.peek() == "?":
                raise self.error("a group with ?, other than (?:…), is not understood")
            node = self.choice()
            if self.take() != ")":
                raise self.error("a group is not closed")
            return node
        if character == "[":
            return self.characters()
        if character in "*+?{^$":
            raise self.error(f"{character} is not understood here; \\{character} is the character")
        if character == ".":
            return ("set", frozenset("\n"), True)
        return self.escape() if character == "\\" else ("set", frozenset(character), False)

    def escape(self) -> Node:
        """What stands after a backslash"""
        character = self.take()
        if character.lower() in CLASSES:
            return ("set", frozenset(CLASSES[character.lower()]), character.isupper())
        if not character or (character.isalnum() and character not in ESCAPES):
            raise self.error(f"\\{character} is not understood")
        return ("set", frozenset(ESCAPES.get(character, character)), False)

    def characters(self) -> Node:
        """[abc], [a-z], [^…]"""
        others = self.peek() == "^"
        self.at += others
        found: set[str] = set()
        first = True
        while first or self.peek() != "]":
            first = False
            low = self.one()
            if (
                len(low) == 1
                and self.peek() == "-"
                and self.pattern[self.at + 1 : self.at + 2] != "]"
            ):
                self.take()
                found |= {chr(code) for code in range(ord(*low), ord(*self.one()) + 1)}
            else:
                found |= low
        self.take()
        return ("set", frozenset(found), others)

    def one(self) -> set[str]:
        """One member of a class"""
        character = self.take()
        if not character:
            raise self.error("a class is not closed")
        if character != "\\":
            return {character}
        _, found, others = self.escape()
        if others:
            raise self.error("a class of all others inside a class")
        return set(found)
