"""Errors of a student's function in words, with a hint where the message tells what is wrong.

An error is one line, `ValueError (line 3 of attend): the message`, the part in brackets being left
out where nobody knows it. In the student's own notebook it is quoted. In grading it is not: a
message may hold the hidden numbers, `raise ValueError(str(q.tolist()))`.
"""

import builtins
import re
from collections.abc import Collection, Sequence

FORM = re.compile(r"(\w+)(?: \(line (\d{1,4}) of ([\w <>]{1,60})\))?:(.*)", re.DOTALL)
NOTHING = "TypeError: numbers are needed, not object"
WORDLESS = "it stopped with an error."
NO_RETURN = "it returns something without numbers; is a `return` missing?"

# What a message of torch's or Python's means, as a pattern and a hint
HINTS = {
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and \d+x\1\)": "the second matrix of "
    "the product must be transposed, unless a length is wrong before",
    r"mat1 and mat2 shapes cannot be multiplied \((\d+)x\d+ and \1x\d+\)": "the first matrix of "
    "the product must be transposed, or the two be exchanged",
    r"mat1 and mat2 shapes|size mismatch, got|inconsistent tensor size": "in a product the last "
    "axis of the first must be as long as the last but one of the second; is one to be transposed?",
    r"first two dimensions of batch2": "in a product of batches only the last two axes are "
    "exchanged: `.transpose(-1, -2)` or `.mT`, whereas `.T` turns all axes round",
    r"must match the size of tensor b|expanded size of the tensor|not broadcastable": "shapes are "
    "compared from the last axis on, and only an axis of length 1 fits any other. After a sum, a "
    "mean or a maximum that takes keepdim=True; a mask has the axes (queries, keys), and new axes "
    "of it stand in front. `.T` turns all axes round, `.mT` the last two",
    r"is invalid for input of size|view size is not compatible": "the lengths of a reshape must "
    "make as many numbers as there are; after exchanged axes it is `reshape`, not `view`",
    r"but got float|'float' object cannot be interpreted": "a length is a whole number: divide "
    "with // and not with /",
    r"Sizes of tensors must match|Tensors must have same number of dimensions": "what is joined "
    "must be alike in all axes but the one along which it is joined",
    r"stack expects each tensor": "only parts of equal shape can be stacked; along which axis were "
    "they cut?",
    r"values to unpack": "as many names stand on the left as there are axes, or parts; "
    "`*front, T, C = x.shape` takes any number in front",
    r"unary ~: 'NoneType'": "an argument that was left out is None",
    r"Dimension out of range|Dimension specified as": "there is no such axis; count from the end, "
    "where −1 is the last one",
    r"einsum\(\)": "in einsum a letter stands for one length, and each part has as many letters as "
    "axes",
    r"Negation, the|Subtraction, the": "a boolean mask is turned round with ~",
    r"Boolean value of Tensor|only one element tensors|can only be converted": "a whole tensor was "
    "taken for one number, as in `if x > 0`; `torch.where` and `masked_fill` choose place by place",
    r"CUDA|NVIDIA|cuda": "there is no graphics card where it is graded: leave out `.cuda()` and "
    '`device="cuda"`, or take the device of an argument, `x.device`',
    r"same dtype|expected scalar type|expected m1 and m2": "numbers of two kinds meet; make them "
    "alike, as with `.float()`",
    r"<locals>\.\S+\(\) (missing|takes)": "a function inside another is called with more or "
    "fewer arguments than it has; one that is put on an object gets no `self`",
    r"positional argument|unexpected keyword": "the function is called with the arguments that the "
    "question lists, in their order; keep its first line as it was handed out",
    r"unsupported operand type.*'(tuple|list)'": "what returns several things is used as one: "
    "take the part that is meant, such as the first with `[0]`",
    r"could not infer output dtype|either a floating point": "whole numbers have no mean here: "
    "make them `.float()` first",
    r"linalg.solve": "a square matrix is needed, with as many rows as what stands on the right",
    r"not have been used in the graph|does not require grad": "the result does not depend on what "
    "a gradient is asked for, or no longer: is something left out or detached?",
    r"index -?\d+ is out of bounds|index out of range": "an index counts beyond the last place; "
    "where does its length come from?",
    r"'(?!NoneType)\w+' object has no attribute": "there is no such method or value: is the class "
    "derived from the one meant, and the name right?",
    r"not subscriptable|cannot unpack|object is not iterable|NoneType": "something that was called "
    "returns nothing or one thing only; is a `return` missing?",
}


def hint(text: str) -> str:
    """What the message of an error says to do, as a sentence, or nothing."""
    words = next((words for pattern, words in HINTS.items() if re.search(pattern, text)), "")
    return f" Hint: {words}{'' if words.endswith('?') else '.'}" if words else ""


def quoted(text: str) -> str:
    """What is said of an error in the student's own notebook."""
    if text == NOTHING:
        return NO_RETURN
    return f"it stopped with {text.rstrip('.')}.{hint(text)}"


def told(text: str, names: Collection[str], unknown: Sequence[str] = ()) -> str:
    """What is said of an error in grading: its kind and the function it came from, of those called
    `names`. No word and no number of the message, and no line: who writes a hundred lines that may
    fail chooses one, and so says a hidden number.

    `unknown` are the names that the code uses and nobody has defined; where there is one, it is it.
    """
    if text.replace(" ", "").startswith("NotImplementedError"):
        return "not yet implemented."
    if text == NOTHING or (text.startswith("TypeError (") and text.endswith(NOTHING[9:])):
        return NO_RETURN
    match = FORM.match(text)
    if match is None:
        return "there is no result." if text == "no result" else WORDLESS
    kind, _, place, message = match.groups()
    error = getattr(builtins, kind, None)
    known = isinstance(error, type) and issubclass(error, BaseException)
    kind = kind if known else "an error of another kind"
    where = f" in {place}" if place in names else ""
    about = f" (about {unknown[0]})" if kind == "NameError" and len(unknown) == 1 else ""
    return f"it stopped with {kind}{where}{about}.{hint(message)}"
