"""What the tensors of BERT and what became of it are called in published files."""

from attnbook.families.layout import Table, rows


def bert_names(prefix: str) -> dict[str, str]:
    """What BERT's layers are called, behind this prefix."""
    layer = f"{prefix}.encoder.layer.{{i}}"
    return {
        "embed.tokens": f"{prefix}.embeddings.word_embeddings",
        "embed.kinds": f"{prefix}.embeddings.token_type_embeddings",
        "embed.positions": f"{prefix}.embeddings.position_embeddings",
        "embed.norm": f"{prefix}.embeddings.LayerNorm",
        "attention.part.project.to_qkv": f"{layer}.attention.self.query key value",
        "attention.part.to_out": f"{layer}.attention.output.dense",
        "attention.norm": f"{layer}.attention.output.LayerNorm",
        "feedforward.part.up": f"{layer}.intermediate.dense",
        "feedforward.part.down": f"{layer}.output.dense",
        "feedforward.norm": f"{layer}.output.LayerNorm",
    }


BERT = bert_names("bert") | {
    "to_vocab.0": "cls.predictions.transform.dense",
    "to_vocab.2": "cls.predictions.transform.LayerNorm",
    "to_vocab.3": "cls.predictions",
}
ROBERTA = bert_names("roberta") | {
    "to_vocab.0": "lm_head.dense",
    "to_vocab.2": "lm_head.layer_norm",
    "to_vocab.3": "lm_head",
}
DISTILBERT = {
    "embed.tokens": "distilbert.embeddings.word_embeddings",
    "embed.positions": "distilbert.embeddings.position_embeddings",
    "embed.norm": "distilbert.embeddings.LayerNorm",
    "attention.part.project.to_qkv": "distilbert.transformer.layer.{i}.attention.q_lin k_lin v_lin",
    "attention.part.to_out": "distilbert.transformer.layer.{i}.attention.out_lin",
    "attention.norm": "distilbert.transformer.layer.{i}.sa_layer_norm",
    "feedforward.part.up": "distilbert.transformer.layer.{i}.ffn.lin1",
    "feedforward.part.down": "distilbert.transformer.layer.{i}.ffn.lin2",
    "feedforward.norm": "distilbert.transformer.layer.{i}.output_layer_norm",
    "to_vocab.0": "vocab_transform",
    "to_vocab.2": "vocab_layer_norm",
    "to_vocab.3": "vocab_projector",
}
ELECTRA = bert_names("electra") | {
    "embed.to_width": "electra.embeddings_project",
    "to_vocab.0": "generator_predictions.dense",
    "to_vocab.2": "generator_predictions.LayerNorm",
    "to_vocab.3": "generator_lm_head",
}
_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = bert_names("albert") | {
    "embed.to_width": "albert.encoder.embedding_hidden_mapping_in",
    "attention.part.project.to_qkv": f"{_LAYER}.attention.query key value",
    "attention.part.to_out": f"{_LAYER}.attention.dense",
    "attention.norm": f"{_LAYER}.attention.LayerNorm",
    "feedforward.part.up": f"{_LAYER}.ffn",
    "feedforward.part.down": f"{_LAYER}.ffn_output",
    "feedforward.norm": f"{_LAYER}.full_layer_layer_norm",
    "to_vocab.0": "predictions.dense",
    "to_vocab.2": "predictions.LayerNorm",
    "to_vocab.3": "predictions",
}
MODERNBERT: Table = {
    "embed.tokens": "model.embeddings.tok_embeddings",
    "embed.norm": "model.embeddings.norm",
    "attention.norm": "model.layers.{i}.attn_norm",
    "attention.part.project.to_qkv": "model.layers.{i}.attn.Wqkv",
    "attention.part.to_out": "model.layers.{i}.attn.Wo",
    "feedforward.norm": "model.layers.{i}.mlp_norm",
    "feedforward.part.gate": ("model.layers.{i}.mlp.Wi", rows(0, 2)),
    "feedforward.part.up": ("model.layers.{i}.mlp.Wi", rows(1, 2)),
    "feedforward.part.down": "model.layers.{i}.mlp.Wo",
    "body.norm": "model.final_norm",
    "to_vocab.0": "head.dense",
    "to_vocab.2": "head.norm",
    "to_vocab.3": "decoder",
}
