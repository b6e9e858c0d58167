"""Lab 8 has no function that is compared with an answer: what is tried of each part stands in
`attnlabs.parts`. The notebook's checks are in `attnlabs.project`, projects are scored by
`attnlabs leaderboard`, and the question and the report are read by a person (see labs/README.md).
"""

from attnlabs.parts import Part

QUESTIONS = {}
OPTIM = ("optim",)
PARTS = {
    "the tokenizer": (Part("tokenizer", ("train_bpe", "encode", "decode")),),
    "the model": (Part("model", ("tiny",)),),
    "the optimiser": (Part("optimiser", ("AdamW",), banned=OPTIM),),
    "the loop and its checkpoints": (
        Part("loop", ("AdamW", "train"), 0.5, OPTIM),
        Part("checkpoint", ("tiny", "AdamW", "train", "save", "load"), 0.5),
    ),
    "sampling": (Part("sampling", ("sample",)),),
    "on the leaderboard": (Part("leaderboard", ("submit", "encode", "predictor")),),
}
