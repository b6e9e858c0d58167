"""Cells of a Python script, as Colab, Jupyter and editors write it out of a notebook."""

import ast
import re

# `# %%` of editors, `# In[3]:` of Jupyter: where a cell begins
MARK = re.compile(r"# ?(%%.*|In ?\[[\d ]*\]:?\s*)$")
COMMENT = re.compile(r"#( |$)")


def split(text: str) -> list[tuple[str, str]]:
    """The cells as pairs (type, text). Text is what stands in comments or in strings alone."""
    lines, pairs = text.splitlines(), []
    quoted = strings(text)
    code: list[str] = []
    number = 0
    while number < len(lines):
        if number in quoted or MARK.match(lines[number]):
            pairs += divided(code)
            code = []
        if number in quoted:
            words, number = quoted[number]
            pairs.append(("markdown", words))
            continue
        if not MARK.match(lines[number]):
            code.append(lines[number])
        number += 1
    return [*pairs, *divided(code)]


def strings(text: str) -> dict[int, tuple[str, int]]:
    """Colab's text cells, strings at the top level: their words and ends by their first line."""
    try:
        tree = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for part in tree:
        value = part.value if isinstance(part, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and part.end_lineno:
            found[part.lineno - 1] = value.value.strip(), part.end_lineno
    return found


def divided(lines: list[str]) -> list[tuple[str, str]]:
    """Code, a cell for each of its parts, and the comments behind it, which are text."""
    last = max((n for n, line in enumerate(lines) if line.strip() and line[0] != "#"), default=-1)
    code = re.split(r"\n{2,}(?=[^\s#)\]}])", "\n".join(lines[: last + 1]))
    words = "\n".join(COMMENT.sub("", line, count=1) for line in lines[last + 1 :]).strip()
    pairs = [("code", part) for part in code if part.strip()]
    return [*pairs, ("markdown", words)] if words else pairs
