"""The corpora of submissions, one file per lab: `lab03.py` and so on.

Each has BEFORE (imports), RIGHT (name: ways to write it), WRONG (name, code, names of the
mistakes) and CONTEXT (name: right code that an answer calls and that stands in another cell). A
corpus may say TRAINS = True, where each answer is judged by training, and OWN = True, where right
answers to some questions are one student's alone.
"""

import importlib
from pathlib import Path

FILES = sorted(Path(__file__).parent.glob("lab[0-9][0-9].py"))
CORPORA = {int(path.stem[3:]): importlib.import_module(path.stem) for path in FILES}
TRAINS = {number for number, corpus in CORPORA.items() if getattr(corpus, "TRAINS", False)}
OWN = {number for number, corpus in CORPORA.items() if getattr(corpus, "OWN", False)}
