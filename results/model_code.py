"""Questions to a model's code: the columns of the table that `open_models.py` writes."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn


class Model(NamedTuple):
    """A row: name, month, class in transformers without its ending, billions of parameters in all
    as its makers say, and the settings that are not the defaults."""

    name: str
    month: str
    kind: str
    billions: float
    settings: Mapping[str, Any] = MappingProxyType({})
    config: str = ""  # another configuration than the class's own


class Cell(NamedTuple):
    """What a cell says, and where it was read."""

    says: str
    source: str


class Reader:
    """A model without memory, and questions to it."""

    def __init__(self, model: Model):
        kind = model.config or f"{model.kind}Config"
        self.config = getattr(transformers, kind)(**model.settings)
        with torch.device("meta"):
            self.model: nn.Module = getattr(transformers, f"{model.kind}ForCausalLM")(self.config)
        self.kind, self.config_name = f"{model.kind}ForCausalLM", kind
        self.shapes = {n: tuple(w.shape) for n, w in self.model.named_parameters()}
        self.names = [*self.shapes, *dict(self.model.named_buffers())]
        self.layers: int = self.config.num_hidden_layers

    def setting(self, name: str, otherwise: Any = None) -> Any:
        value = getattr(self.config, name, otherwise)
        return otherwise if value is None else value

    def where(self, *settings: str) -> str:
        """The source of a cell that was read in settings."""
        return ", ".join(f"{self.config_name}.{name}" for name in settings)

    def blocks(self, pattern: str) -> set[int]:
        """The blocks that have a weight or buffer whose name ends like this."""
        found = re.compile(rf"layers\.(\d+)\..*(?:{pattern})$")
        return {int(match[1]) for name in self.names if (match := found.search(name))}

    def shape(self, pattern: str) -> tuple[int, ...]:
        """The shape of the first weight whose name ends like this."""
        return next(shape for name, shape in self.shapes.items() if re.search(f"{pattern}$", name))

    def source(self, part: str) -> str:
        """The source code of the modules whose names end like this."""
        kinds = {type(m) for n, m in self.model.named_modules() if re.search(f"{part}$", n)}
        return "".join(inspect.getsource(kind) for kind in kinds)

    @property
    def layer_types(self) -> list[str]:
        """What each block's look at other tokens is, in the words of the configuration."""
        return list(self.setting("layer_types", ["full_attention"] * self.layers))


WEIGHTS = "names of the weights"
KINDS = {
    "full_attention": "full", "sliding_attention": "window of {sliding_window:,}",
    "chunked_attention": "chunks of {attention_chunk_size:,}", "linear_attention": "delta rule",
    "indexed_attention": "chosen by an indexer, {index_topk:,}",
    "minimax_m3_sparse": "chosen by an indexer, {index_topk_blocks} blocks of {index_block_size}",
    "compressed_sparse_attention": "four tokens in one, {index_topk} of these chosen",
    "heavily_compressed_attention": "128 tokens in one",
}  # fmt: skip


def parameters(r: Reader) -> Cell:
    total = sum(map(math.prod, r.shapes.values()))
    experts = sum(math.prod(s) for n, s in r.shapes.items() if ".experts." in n)
    names = ("num_experts_per_tok", "num_experts_per_token")
    chosen = next((r.setting(name) for name in names if r.setting(name)), 0)
    active = total - experts + experts * chosen / count_of_experts(r) if experts else total
    says = f"{total / 1e9:.3g} B" if total < 1e12 else f"{total / 1e12:.3g} T"
    if experts:
        says += f", {active / 1e9:.2g} B active"
    return Cell(says, f"sum over the weights of {r.kind}")


def count_of_experts(r: Reader) -> int:
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    return next((r.setting(name) for name in names if r.setting(name)), 0)


def layers(r: Reader) -> Cell:
    counts = Counter(r.layer_types)
    settings = r.config.to_dict()
    parts = [f"{n} × {KINDS[kind].format(**settings)}" for kind, n in counts.most_common()]
    if 0 < len(choosing(r)) < counts["indexed_attention"]:
        parts[0] += f", chosen anew in {len(choosing(r))}"
    return Cell(
        " + ".join(parts), r.where("layer_types" if len(counts) > 1 else "num_hidden_layers")
    )


def choosing(r: Reader) -> set[int]:
    """The layers with an indexer of their own; others take the choice of the last of these."""
    return r.blocks(r"indexer\.(wk|k_proj)\.weight")


def attention(r: Reader) -> Cell:
    heads = r.setting("num_attention_heads")
    if r.setting("kv_lora_rank"):
        kept = f"{r.setting('kv_lora_rank')} + {r.setting('qk_rope_head_dim')}"
        return Cell(
            f"MLA, {heads} heads, {kept} numbers kept", r.where("kv_lora_rank", "qk_rope_head_dim")
        )
    kv, D = (
        r.setting("num_key_value_heads", heads),
        r.setting("head_dim", r.config.hidden_size // heads),
    )
    name = "MHA" if kv == heads else "MQA" if kv == 1 else "GQA"
    says = f"{name}, {heads} over {kv}, D {D}" if kv < heads else f"MHA, {heads}, D {D}"
    return Cell(says, r.where("num_attention_heads", "num_key_value_heads", "head_dim"))


def positions(r: Reader) -> Cell:
    rotary = any("rotary_emb" in name for name, _ in r.model.named_modules())
    skipping = r.setting("no_rope_layers", [])
    if not rotary:
        return Cell("none", f"{r.kind} has no rotary embedding")
    if 0 in skipping:
        return Cell(f"rotary, none in {skipping.count(0)} of {r.layers}", r.where("no_rope_layers"))
    rope = r.setting("rope_parameters", {})
    shares = [v.get("partial_rotary_factor") for v in rope.values() if isinstance(v, dict)]
    share = next((s for s in [rope.get("partial_rotary_factor"), *shares] if s), 1.0)
    if r.setting("qk_rope_head_dim") and r.setting("qk_nope_head_dim"):
        share = r.config.qk_rope_head_dim / (r.config.qk_rope_head_dim + r.config.qk_nope_head_dim)
        return Cell(
            f"rotary, {share:.0%} of the channels", r.where("qk_rope_head_dim", "qk_nope_head_dim")
        )
    if share < 1:
        return Cell(f"rotary, {share:.0%} of the channels", r.where("rope_parameters"))
    return Cell("rotary", r.where("rope_parameters"))


def norms(r: Reader) -> Cell:
    before, after = (
        r.blocks(r"input_layernorm\.weight"),
        r.blocks(r"post_(feedforward|mlp)_layernorm\.weight"),
    )
    kind = (
        "RMSNorm" if "rsqrt" in r.source(r"layers\.\d+\.post_attention_layernorm") else "LayerNorm"
    )
    if before and after and before.isdisjoint(after):
        return Cell(f"{kind}, after in full layers, before in others", WEIGHTS)
    where = "before and after" if before and after else "after" if after else "before"
    return Cell(f"{kind}, {where}", WEIGHTS)


def qk_norm(r: Reader) -> Cell:
    found = r.blocks(r"self_attn\.q_norm\.weight")
    if found:
        (size,) = r.shape(r"self_attn\.q_norm\.weight")
        each = size == r.setting("head_dim", r.config.hidden_size // r.config.num_attention_heads)
        return Cell("each head" if each else "all heads together", WEIGHTS)
    if r.blocks(r"q_a_(layer)?norm\.weight|kv_a_layernorm\.weight"):
        unweighted = "q_b_norm" in r.source("self_attn")
        return Cell("each head" if unweighted else "of the latents", WEIGHTS)
    if r.setting("use_qk_norm") and "self.qk_norm" in r.source("self_attn"):
        return Cell("each head, without gain, where rotated", r.where("use_qk_norm"))
    return Cell("no", WEIGHTS)


def network(r: Reader) -> Cell:
    name = r.setting("hidden_act", r.setting("hidden_activation"))
    gated = bool(r.blocks(r"gate_(up_)?proj(\.weight)?"))
    known = {"silu": "SwiGLU", "gelu_pytorch_tanh": "GeGLU"}
    says = known[name] if gated else name
    limit = r.setting("swiglu_limit")
    says += f", clamped at {limit:g}" if limit else ""
    return Cell(says, r.where("hidden_act" if r.setting("hidden_act") else "hidden_activation"))


def experts(r: Reader) -> Cell:
    count = count_of_experts(r)
    if not any(".experts." in name for name in r.shapes):
        return Cell("dense", WEIGHTS)
    names = ("num_experts_per_tok", "num_experts_per_token")
    top = next(name for name in names if r.setting(name))
    shared = len(r.blocks(r"shared_expert(s)?\.(gate_up|gate|up)_proj\.weight"))
    dense = r.layers - len(r.blocks(r"experts\.down_proj"))
    scores = r.setting("scoring_func") or scored(r)
    says = f"{count}, {r.setting(top)} at a time" + (", 1 shared" if shared else "")
    says += f"; {scores}" + (" + bias" if r.blocks("e_score_correction_bias") else "")
    says += f"; first {dense} layer{'s' * (dense > 1)} dense" if dense else ""
    hashed = len(r.blocks("tid2eid"))
    says += f"; chosen by the token itself in the first {hashed}" if hashed else ""
    return Cell(says, f"{r.where(top)}, {WEIGHTS}, source of the router")


def scored(r: Reader) -> str:
    """How the router makes scores of its logits."""
    source = r.source(r"(\.router|mlp\.gate|mlp|feed_forward)")
    kinds = re.findall(
        r"router_\w+(?:\.float\(\))?\.(sigmoid)|\.(softmax|sigmoid)\(\s*router_", source
    )
    found = {name for pair in kinds for name in pair if name}
    if len(found) != 1:
        raise ValueError(f"{r.kind}: the router's scores are one of {sorted(found)}: look")
    return found.pop()


def more(r: Reader) -> Cell:
    source = r.source("self_attn")
    gated = (
        r.blocks(r"attn\.(g|g_b|gate)_proj\.weight")
        or "attn_output * torch.sigmoid(gate)" in source
    )
    scaled = bool(r.setting("attn_temperature_tuning")) or bool(
        (r.setting("rope_parameters") or {}).get("llama_4_scaling_beta")
    )
    found = {
        "sink logit": bool(r.blocks("sinks")),
        "gate on the output": gated,
        "convolution of 4": bool(r.blocks(r"conv1d\.weight")),
        f"{r.setting('hc_mult')} streams (hyper-connections)": bool(r.blocks(r"attn_hc\.fn")),
        "biases on queries and keys": bool(r.blocks(r"self_attn\.q_proj\.bias")),
        "scores scaled with the position": scaled,
        "tied embedding": bool(r.setting("tie_word_embeddings")),
    }
    return Cell(", ".join(name for name, there in found.items() if there) or "–", WEIGHTS)


def kept(r: Reader) -> Cell:
    """What one more token adds to the cache, in 16-bit numbers."""
    per = 0.0
    for layer, kind in enumerate(r.layer_types):
        if kind in ("full_attention", "indexed_attention", "minimax_m3_sparse"):
            per += kept_in_layer(r)
            per += r.setting("index_head_dim", 0) * (layer in choosing(r))
        elif kind.endswith(("compressed_sparse_attention", "heavily_compressed_attention")):
            per += r.config.head_dim / r.config.compress_rates[kind]
        if kind == "compressed_sparse_attention":
            per += r.config.index_head_dim / r.config.compress_rates[kind]
    return Cell(
        f"{2 * per / 1000:.3g} kB", "from the columns Attention and Layers, 2 bytes a number"
    )


def kept_in_layer(r: Reader) -> float:
    """Numbers that a layer with full attention keeps of a token."""
    if r.setting("kv_lora_rank"):
        return r.config.kv_lora_rank + r.config.qk_rope_head_dim
    heads = r.config.num_attention_heads
    D = r.setting("head_dim", r.config.hidden_size // heads)
    return r.setting("num_key_value_heads", heads) * (D + r.setting("v_head_dim", D))


def vocabulary(r: Reader) -> Cell:
    return Cell(f"{r.config.vocab_size:,}", r.where("vocab_size"))


COLUMNS: dict[str, Callable[[Reader], Cell]] = {
    "Parameters": parameters,
    "Layers": layers,
    "Attention": attention,
    "Cache, per token": kept,
    "Positions": positions,
    "Norms": norms,
    "Norm of queries and keys": qk_norm,
    "Network": network,
    "Experts": experts,
    "Further": more,
    "Vocabulary": vocabulary,
}
