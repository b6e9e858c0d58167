"""Every drawing with the numbers of the text, for authors and for the tests."""

from collections.abc import Callable

import torch

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.feedforward import MLP
from attnbook.norms import LayerNorm
from attnbook.recurrent import GRUCell, LSTMCell, RNNCell
from bookkit.drawings.adding import sum_of_heads
from bookkit.drawings.asks import ring, who_asks
from bookkit.drawings.averages import averages
from bookkit.drawings.beams import beams
from bookkit.drawings.block import residual_stream
from bookkit.drawings.bottleneck import look_back
from bookkit.drawings.bounded import bounded_scores
from bookkit.drawings.cache import kv_cache, shared_keys
from bookkit.drawings.circuit import induction_circuit
from bookkit.drawings.clinic import dashboard
from bookkit.drawings.cones import nothing_leaks
from bookkit.drawings.decoder import decoder_block
from bookkit.drawings.directions import step_directions
from bookkit.drawings.doors import where_positions
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.events import one_look, two_models
from bookkit.drawings.families import families
from bookkit.drawings.fewer import sparse_patterns
from bookkit.drawings.flows import four_models, qlora_flow, what_stacks_keep
from bookkit.drawings.forcing import teacher_forcing
from bookkit.drawings.gated import gated_units
from bookkit.drawings.gru import gru_cell
from bookkit.drawings.heads import split_attend_join
from bookkit.drawings.hierarchy import tiles
from bookkit.drawings.language import bpe, draft_check, next_token
from bookkit.drawings.logit import logit_sum
from bookkit.drawings.looking import three_scores, two_looks
from bookkit.drawings.lookup import soft_lookup
from bookkit.drawings.lstm import lstm_cell
from bookkit.drawings.machines import cuts, rings
from bookkit.drawings.matrices import attention_matrices
from bookkit.drawings.memory import matrix_memory
from bookkit.drawings.norms import norm_placement
from bookkit.drawings.one_body import one_body
from bookkit.drawings.parameters import parameters
from bookkit.drawings.paths import path_lengths
from bookkit.drawings.permits import mask_gallery
from bookkit.drawings.pictures import masked, patches, vision_transformer
from bookkit.drawings.remain import three_problems
from bookkit.drawings.reorder import reorder
from bookkit.drawings.roofline import roofline
from bookkit.drawings.rounding import errors_move_on
from bookkit.drawings.router import router
from bookkit.drawings.seats import two_questions
from bookkit.drawings.serving import shared_pages, two_batches
from bookkit.drawings.superposition import superposition
from bookkit.drawings.then import then_and_now
from bookkit.drawings.transformer import transformer_2017
from bookkit.drawings.translating import decoding_step, encoder_decoder, token_losses
from bookkit.drawings.tuning import chat_template, compared_answers, low_rank
from bookkit.drawings.turning import turning_hands
from bookkit.drawings.unrolled import unrolled
from bookkit.drawings.walk import lstm_walk
from bookkit.drawings.windows import window_stacks
from bookkit.experiments import one_line
from bookkit.experiments.on_paper import score, steps

LOSSES = [3.517, 0.829, 3.454, 1.758, 1.973]
WORDS = ["The", "cat", "sat", "on", "the", "mat"]
FEATURES = ["animal", "action", "object", "definite"]
QUERIES = [[6, 1, 1, 2], [1, 6, 0, 1]]
KEYS = [[0, 0, 0, 1], [1, 0, 0.3, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
READS, WRITES = ["my", "red", "car"], ["ma", "voiture", "rouge", "</s>"]
TOKENS = [[[1, 0, 2, 0], [0, 1, 0, 2], [1, 1, 1, 0]]]
VALUES = [[0.1, 0, 0, 0.8], [0.9, 0, 0.1, 0.7], [0, 0.9, 0, 0.3]]
VALUES += [[0, 0, 0.5, 0], [0, 0, 0, 0.9], [0, 0, 0.9, 0.6]]


def matrices() -> Drawing:
    q, k, v = (torch.tensor(table, dtype=torch.float) for table in (QUERIES, KEYS, VALUES))
    return attention_matrices(q, k, v, ["animal?", "action?"], WORDS, FEATURES)


def lookup() -> Drawing:
    q, k, v = (torch.tensor(table, dtype=torch.float) for table in (QUERIES[0], KEYS, VALUES))
    return soft_lookup(q, k, v, WORDS)


def mixing() -> Drawing:
    return averages(torch.tensor([0.0, 16.0]), torch.tensor([[0.75, 0.25], [0.25, 0.75]]))


def split() -> Drawing:
    return split_attend_join(torch.arange(18, dtype=torch.float).view(3, 6))


def cell_of_the_text() -> LSTMCell:
    """Width 1; gates by their biases alone: forget 3, input −3, output 1, candidate 5."""
    cell = LSTMCell(1, 1)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.from_input.bias.copy_(torch.tensor([-3.0, 3, 5, 1]))
    return cell.float()


def cell_of_the_brackets() -> LSTMCell:
    """Width 1, reads ( or a letter or ) or {, and no state: for each a column of weights."""
    cell = LSTMCell(4, 1)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        for row, column in enumerate(
            ([3, -3, -3, 3], [-3, 4, -3, -3], [2, 1, 0, -2], [2, 2, -3, 2])
        ):
            cell.from_input.weight[row] = torch.tensor(column, dtype=torch.float)
    return cell.float()


def cell_that_keeps() -> GRUCell:
    """Width 1; reset 1, update 4 and candidate −1.5 by their biases; the candidate reads h."""
    cell = GRUCell(1, 1)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.from_input.bias.copy_(torch.tensor([1.0, 4, -1.5]))
        cell.from_state.weight[2] = 1
    return cell.float()


def cell_of_the_pulse() -> RNNCell:
    """W = (1, ½), U swaps the two numbers and halves the second."""
    cell = RNNCell(1, 2)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.from_input.weight.copy_(torch.tensor([[1.0], [0.5]]))
        cell.from_state.weight.copy_(torch.tensor([[0.0, 1.0], [0.5, 0.0]]))
    return cell.float()


def pulse() -> Drawing:
    return unrolled(cell_of_the_pulse(), torch.tensor([[1], [0], [0]], dtype=torch.float))


def looks() -> Drawing:
    """Weights of hand-picked scores: adjective and noun change places."""
    scores = torch.tensor([[3, 0, 0], [0, 0, 3], [0, 3, 1], [0, 0, 0]], dtype=torch.float)
    return look_back(READS, WRITES, scores.softmax(-1))


def lstm() -> Drawing:
    zero, state = torch.zeros(1, 1, dtype=torch.float), torch.full((1, 1), 2, dtype=torch.float)
    return lstm_cell(cell_of_the_text(), zero, zero, state)


def walk() -> Drawing:
    """A bracket of one kind with two letters in it, then one of the other kind, as in chapter 1."""
    x = torch.eye(4, dtype=torch.float)[[0, 1, 1, 2, 3, 1]]
    return lstm_walk(cell_of_the_brackets(), x, [*"(ab){c"])


def gru() -> Drawing:
    zero, state = torch.zeros(1, 1, dtype=torch.float), torch.full((1, 1), 0.9, dtype=torch.float)
    return gru_cell(cell_that_keeps(), zero, state)


def block_of_sines() -> Block:
    """The block of the text: two heads, a network from 4 to 16, matrices filled with sines."""
    attention, network = MultiHeadAttention(width=4, heads=2), MLP(width=4, hidden=16)
    with torch.no_grad():
        for number, matrix in enumerate([*attention.parameters(), *network.parameters()]):
            sines = torch.arange(matrix.numel()).mul(number + 1.0).sin() / 2
            matrix.copy_(sines.view_as(matrix))
    return Block(PreNorm(attention, LayerNorm(4)), PreNorm(network, LayerNorm(4))).float()


def routed() -> Drawing:
    numbers = [[2, 1, 0, -1], [0, 0, 3, 1], [1, 2, 0, 0]]
    return router(torch.tensor(numbers, dtype=torch.float))


def stream() -> Drawing:
    return residual_stream(block_of_sines(), torch.tensor(TOKENS, dtype=torch.float))


def line_of_the_text() -> Drawing:
    """What the book's model makes of the line: chapter 7 has the numbers from its stored run."""
    return next_token(["What", "say", "you", "to", "the", "king"], LOSSES)


def nine_words() -> Drawing:
    words = ["low", "lower", "lowest", "slow", "slower", "slowest", "flow", "flower", "glow"]
    merges = [("l", "o"), ("lo", "w"), ("low", "e"), ("lowe", "r"), ("s", "t"), ("lowe", "st")]
    return bpe(words, merges)


def three_words() -> Drawing:
    p, q = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]], dtype=torch.float)
    return draft_check(["king", "queen", "fool"], p, q)


NAME = ["Z", "em", "b", "l", "a", "…", "Z", "em"]
COSTS = {"queries": 0.06, "keys": 8.5, "values": -0.01}
SHARES = {"embedding": 0.3, "attention 0": 0.0, "network 0": 1.4, "attention 1": 0.2}
SHARES |= {"network 1": 2.0, "attention 2": 0.7, "network 2": 0.9, "attention 3": 7.0}


def three() -> torch.Tensor:
    """A digit of 8 × 8, drawn by hand."""
    lines = ["00444000", "04004400", "00000400", "00044000", "00000400", "00000440", "04000400"]
    return torch.tensor([[float(x) for x in line] for line in [*lines, "00444000"]]).float()


def circuit() -> Drawing:
    """The name of chapter 13, with its numbers to one digit."""
    return induction_circuit(NAME, note=0.93, look=0.77, chance=0.97, costs=COSTS)


def gates() -> Drawing:
    return gated_units(*one_line.hidden(one_line.model()), "king")


def scores() -> Drawing:
    """Of the head that would have the largest score of the line, were there no norm."""
    lm = one_line.model()
    looks = one_line.looks(lm, head=3)
    return bounded_scores(*looks, one_line.gain(lm), one_line.words(lm)[:12])


GALLERY: dict[str, Callable[[], Drawing]] = {
    "then_and_now": then_and_now,
    "router": routed,
    "attention_matrices": matrices,
    "split_attend_join": split,
    "sum_of_heads": sum_of_heads,
    "residual_stream": stream,
    "unrolled": pulse,
    "superposition": superposition,
    "look_back": looks,
    "encoder_decoder": lambda: encoder_decoder(steps(None, WRITES[:3])),
    "decoding_step": lambda: decoding_step(steps(None, WRITES[:3])[1]),
    "token_losses": lambda: token_losses(steps(None, WRITES[:3])),
    "two_looks": lambda: two_looks(*steps(score())[1:3]),
    "three_scores": three_scores,
    "teacher_forcing": teacher_forcing,
    "beams": beams,
    "one_look": one_look,
    "two_models": two_models,
    "lstm_cell": lstm,
    "lstm_walk": walk,
    "gru_cell": gru,
    "three_problems": three_problems,
    "two_questions": two_questions,
    "kv_cache": kv_cache,
    "shared_keys": shared_keys,
    "soft_lookup": lookup,
    "who_asks": who_asks,
    "ring": ring,
    "averages": mixing,
    "parameters": parameters,
    "families": families,
    "one_body": one_body,
    "norm_placement": norm_placement,
    "gated_units": gates,
    "bounded_scores": scores,
    "window_stacks": window_stacks,
    "step_directions": lambda: step_directions(one_line.gradient(one_line.model())),
    "decoder_block": decoder_block,
    "transformer_2017": transformer_2017,
    "turning_hands": turning_hands,
    "mask_gallery": mask_gallery,
    "matrix_memory": matrix_memory,
    "where_positions": where_positions,
    "nothing_leaks": nothing_leaks,
    "path_lengths": path_lengths,
    "next_token": line_of_the_text,
    "bpe": nine_words,
    "draft_check": three_words,
    "tiles": tiles,
    "roofline": roofline,
    "sparse_patterns": sparse_patterns,
    "reorder": reorder,
    "induction_circuit": circuit,
    "logit_sum": lambda: logit_sum({**SHARES, "network 3": -1.0}, "b"),
    "chat_template": chat_template,
    "low_rank": low_rank,
    "dashboard": dashboard,
    "compared_answers": compared_answers,
    "cuts": cuts,
    "rings": rings,
    "two_batches": two_batches,
    "shared_pages": shared_pages,
    "errors_move_on": errors_move_on,
    "what_stacks_keep": what_stacks_keep,
    "four_models": four_models,
    "qlora_flow": qlora_flow,
    "patches": patches,
    "vision_transformer": lambda: vision_transformer(three()),
    "masked": lambda: masked(three()),
}
