"""Small models of every family that can be read, as `transformers` describes them."""

import copy

import torch

V, T, GAP = 37, 11, 7
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SIZES = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 20,
}
TEXT = SIZES | NO_TOKENS
GROUPED = TEXT | {"num_key_value_heads": 2}
PLAIN_ONE = {"rope_type": "default", "rope_theta": 50.0}
PLAIN = {"rope_parameters": PLAIN_ONE}
PART = {"rope_parameters": PLAIN["rope_parameters"] | {"partial_rotary_factor": 0.5}}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 4.0}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 50.0,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 6.0],
}
DEEPSEEK = {
    **{"num_hidden_layers": 3, "num_key_value_heads": 6, "moe_intermediate_size": 12},
    **{"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 4},
    **{"topk_group": 2, "first_k_dense_replace": 1, "q_lora_rank": 14, "kv_lora_rank": 12},
    **{"qk_rope_head_dim": 6, "qk_nope_head_dim": 5, "v_head_dim": 7, "norm_topk_prob": True},
}
PICTURE = {name: SIZES[name] for name in list(SIZES)[1:]} | {"image_size": 12, "patch_size": 4}
SOUND = SIZES | {
    **{"conv_dim": (10, 8), "conv_stride": (3, 2), "conv_kernel": (4, 3)},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2},
}
MAMBA = {"vocab_size": V, "hidden_size": 24, "num_hidden_layers": 2, "state_size": 4} | NO_TOKENS
GEMMA = {"head_dim": 10, "query_pre_attn_scalar": 7, "sliding_window": 3}
FALCON = {name: SIZES[name] for name in list(SIZES)[:4]} | NO_TOKENS | {"alibi": False}
T5 = {
    **{"vocab_size": V, "d_model": 24, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_heads": 6},
    **{"decoder_start_token_id": 0, "num_decoder_layers": 3},
}
ESM = SIZES | {
    **{"position_embedding_type": "rotary", "rope_theta": 50.0, "max_position_embeddings": T},
    **{"mask_token_id": GAP, "pad_token_id": 1},
}
READS = SIZES | {"max_position_embeddings": T, "eos_token_id": V - 1}
SEES = PICTURE | {"hidden_size": 20, "num_attention_heads": 5}
CLIP = {"text_config": READS, "vision_config": SEES, "projection_dim": 14}
# The settings that hold the ε of norms: every case has one that no family has by itself, so that a
# family which does not read its own computes something else than transformers.
EPS = 0.01
EPSILONS = "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
# name of the case: model type, class in transformers, settings
CASES = {
    "gpt2": (
        "GPT2",
        "GPT2LMHeadModel",
        {"vocab_size": V, "n_positions": T, "n_embd": 24, "n_layer": 2, "n_head": 6} | NO_TOKENS,
    ),
    "llama": ("Llama", "LlamaForCausalLM", GROUPED | PLAIN),
    "llama tied": ("Llama", "LlamaForCausalLM", GROUPED | PLAIN | {"tie_word_embeddings": True}),
    "llama wide heads": ("Llama", "LlamaForCausalLM", GROUPED | PLAIN | {"head_dim": 10}),
    "llama 3.1": ("Llama", "LlamaForCausalLM", GROUPED | {"rope_parameters": LLAMA_3}),
    "llama dynamic": (
        "Llama",
        "LlamaForCausalLM",
        GROUPED | {"rope_parameters": DYNAMIC, "max_position_embeddings": T - 3},
    ),
    "llama dynamic, short": (
        "Llama",
        "LlamaForCausalLM",
        GROUPED | {"rope_parameters": DYNAMIC, "max_position_embeddings": T},
    ),
    "phi3 longrope": (
        "Phi3",
        "Phi3ForCausalLM",
        GROUPED
        | {"max_position_embeddings": 4 * T, "original_max_position_embeddings": T - 3}
        | {"rope_parameters": LONG},
    ),
    "phi3 longrope, short": (
        "Phi3",
        "Phi3ForCausalLM",
        GROUPED
        | {"max_position_embeddings": 4 * T, "original_max_position_embeddings": T}
        | {"rope_parameters": LONG},
    ),
    "llama yarn": ("Llama", "LlamaForCausalLM", GROUPED | {"rope_parameters": YARN}),
    "qwen2": ("Qwen2", "Qwen2ForCausalLM", GROUPED | PLAIN),
    "qwen3": ("Qwen3", "Qwen3ForCausalLM", GROUPED | PLAIN | {"head_dim": 10}),
    "mistral": ("Mistral", "MistralForCausalLM", GROUPED | PLAIN | {"sliding_window": 3}),
    "gemma2": (
        "Gemma2",
        "Gemma2ForCausalLM",
        GROUPED | PLAIN | GEMMA | {"attn_logit_softcapping": 2.0},
    ),
    "gemma3": (
        "Gemma3Text",
        "Gemma3ForCausalLM",
        GROUPED
        | GEMMA
        | {"num_hidden_layers": 3}
        | {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    ),
    "embedding_gemma": (
        "Gemma3Text",
        "Gemma3TextModel",
        GROUPED
        | GEMMA
        | {"use_bidirectional_attention": True, "sliding_window": 4, "num_hidden_layers": 3}
        | {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    ),
    "gemma3n": (
        "Gemma3nText",
        "Gemma3nForCausalLM",
        GROUPED
        | {"head_dim": 10, "sliding_window": 3, "num_hidden_layers": 5, "num_kv_shared_layers": 2}
        | {"intermediate_size": [20, 22, 20, 20, 20], "laurel_rank": 3, "altup_num_inputs": 3}
        | {"activation_sparsity_pattern": [0.7, 0.0, 0.0, 0.7, 0.0]}
        | {"vocab_size_per_layer_input": V - 8, "hidden_size_per_layer_input": 7}
        | {"layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]},
    ),
    "phi3": ("Phi3", "Phi3ForCausalLM", GROUPED | PART | {"sliding_window": 3}),
    "olmo2": ("Olmo2", "Olmo2ForCausalLM", GROUPED | PLAIN),
    "smollm3": (
        "SmolLM3",
        "SmolLM3ForCausalLM",
        GROUPED | PLAIN | {"num_hidden_layers": 4, "no_rope_layer_interval": 2},
    ),
    "mixtral": (
        "Mixtral",
        "MixtralForCausalLM",
        GROUPED | PLAIN | {"num_local_experts": 5, "num_experts_per_tok": 2},
    ),
    "deepseek_v3": ("DeepseekV3", "DeepseekV3ForCausalLM", TEXT | DEEPSEEK),
    "deepseek_v3 yarn": (
        "DeepseekV3",
        "DeepseekV3ForCausalLM",
        TEXT
        | DEEPSEEK
        | {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, "q_lora_rank": None},
    ),
    "gpt_oss": (
        "GptOss",
        "GptOssForCausalLM",
        GROUPED
        | {"head_dim": 10, "num_local_experts": 5, "num_experts_per_tok": 2}
        | {"sliding_window": 3},
    ),
    "gpt_neox": ("GPTNeoX", "GPTNeoXForCausalLM", TEXT | PART),
    "gpt_neox in a row": (
        "GPTNeoX",
        "GPTNeoXForCausalLM",
        TEXT | PART | {"use_parallel_residual": False},
    ),
    "gpt_neo": (
        "GPTNeo",
        "GPTNeoForCausalLM",
        {"vocab_size": V, "max_position_embeddings": T, "hidden_size": 24, "num_heads": 6}
        | {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 3}
        | {"intermediate_size": 20}
        | NO_TOKENS,
    ),
    "falcon": ("Falcon", "FalconForCausalLM", FALCON),
    "falcon 40b": (
        "Falcon",
        "FalconForCausalLM",
        FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "bloom": (
        "Bloom",
        "BloomForCausalLM",
        {"vocab_size": V, "hidden_size": 24, "n_layer": 2, "n_head": 6} | NO_TOKENS,
    ),
    "mpt": (
        "Mpt",
        "MptForCausalLM",
        {"vocab_size": V, "d_model": 24, "n_layers": 2, "n_heads": 6, "max_seq_len": T} | NO_TOKENS,
    ),
    "persimmon": ("Persimmon", "PersimmonForCausalLM", TEXT | PART),
    "persimmon, tied, not normed": (
        "Persimmon",
        "PersimmonForCausalLM",
        TEXT | PART | {"qk_layernorm": False, "tie_word_embeddings": True},
    ),
    "bert": ("Bert", "BertForMaskedLM", SIZES | {"max_position_embeddings": T}),
    "roberta": ("Roberta", "RobertaForMaskedLM", SIZES | {"max_position_embeddings": T + 2}),
    "distilbert": (
        "DistilBert",
        "DistilBertForMaskedLM",
        {"vocab_size": V, "max_position_embeddings": T, "dim": 24, "n_layers": 2}
        | {"n_heads": 6, "hidden_dim": 20},
    ),
    "esm": ("Esm", "EsmForMaskedLM", ESM | {"token_dropout": True}),
    "esm, gaps are tokens": ("Esm", "EsmForMaskedLM", ESM),
    "t5": ("T5", "T5ForConditionalGeneration", T5),
    "t5 v1.1": (
        "T5",
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "whisper": (
        "Whisper",
        "WhisperForConditionalGeneration",
        {
            **{"vocab_size": V, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3},
            **{"encoder_attention_heads": 6, "decoder_attention_heads": 6, "num_mel_bins": 7},
            **{"encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_source_positions": 9},
            **{"max_target_positions": T, "pad_token_id": 0, "bos_token_id": 1},
            **{"eos_token_id": 2, "decoder_start_token_id": 1},
        },
    ),
    "wav2vec2": ("Wav2Vec2", "Wav2Vec2ForCTC", SOUND),
    "wav2vec2, large": (
        "Wav2Vec2",
        "Wav2Vec2ForCTC",
        SOUND | {"feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True},
    ),
    "hubert": ("Hubert", "HubertForCTC", SOUND),
    "vit": ("ViT", "ViTForImageClassification", PICTURE | {"num_labels": 5}),
    "deit": ("DeiT", "DeiTForImageClassificationWithTeacher", PICTURE | {"num_labels": 5}),
    "dinov2 with registers": (
        "Dinov2WithRegisters",
        "Dinov2WithRegistersForImageClassification",
        {name: PICTURE[name] for name in PICTURE if name != "intermediate_size"}
        | {"num_labels": 5, "mlp_ratio": 2, "num_register_tokens": 3},
    ),
    "detr": (
        "Detr",
        "DetrForObjectDetection",
        {
            **{"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "num_queries": 5},
            **{"encoder_attention_heads": 6, "decoder_attention_heads": 3, "num_labels": 4},
            **{"encoder_ffn_dim": 20, "decoder_ffn_dim": 22, "use_timm_backbone": False},
            "backbone_config": {
                **{"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 16, 20, 24]},
                **{"depths": [1, 2, 1, 1], "out_features": ["stage4"]},
            },
        },
    ),
    "sam": (
        "SamVision",
        "SamVisionModel",
        {name: PICTURE[name] for name in PICTURE if name != "intermediate_size"}
        | {"mlp_dim": 20, "window_size": 2, "global_attn_indexes": [1], "output_channels": 8},
    ),
    "sam2": (
        "Sam2Vision",
        "Sam2VisionModel",
        {
            **{"fpn_hidden_size": 8, "backbone_channel_list": [48, 24, 12, 6]},
            "backbone_config": {
                **{"model_type": "sam2_hiera_det_model", "image_size": [64, 96], "hidden_size": 6},
                **{"embed_dim_per_stage": [6, 12, 24, 48]},
                **{"num_attention_heads_per_stage": [1, 2, 3, 4], "blocks_per_stage": [1, 2, 3, 2]},
                **{"window_size_per_stage": [8, 2, 4, 3], "global_attention_blocks": [4]},
                "window_positional_embedding_background_size": [3, 5],
            },
        },
    ),
    "siglip": ("SiglipVision", "SiglipVisionModel", PICTURE),
    "clip": ("CLIP", "CLIPModel", CLIP),
    "clip, first files": (
        "CLIP",
        "CLIPModel",
        CLIP | {"text_config": READS | {"eos_token_id": 2, "hidden_act": "gelu"}},
    ),
    "clip pictures": ("CLIPVision", "CLIPVisionModelWithProjection", SEES | {"projection_dim": 14}),
    "clip texts": ("CLIPText", "CLIPTextModelWithProjection", READS | {"projection_dim": 14}),
    "granite": (
        "Granite",
        "GraniteForCausalLM",
        GROUPED
        | PLAIN
        | {"embedding_multiplier": 3.0, "attention_multiplier": 0.4, "logits_scaling": 5.0}
        | {"residual_multiplier": 0.6},
    ),
    "granite_moe": (
        "GraniteMoe",
        "GraniteMoeForCausalLM",
        GROUPED
        | PLAIN
        | {"embedding_multiplier": 3.0, "attention_multiplier": 0.4, "logits_scaling": 5.0}
        | {"residual_multiplier": 0.6, "num_local_experts": 5, "num_experts_per_tok": 2},
    ),
    "stablelm": ("StableLm", "StableLmForCausalLM", GROUPED | PART | {"use_qkv_bias": True}),
    "stablelm, normed": (
        "StableLm",
        "StableLmForCausalLM",
        GROUPED | PART | {"qk_layernorm": True},
    ),
    "starcoder2": ("Starcoder2", "Starcoder2ForCausalLM", GROUPED | PLAIN | {"sliding_window": 3}),
    "nemotron": ("Nemotron", "NemotronForCausalLM", GROUPED | PART | {"head_dim": 8}),
    "nemotron tied": (
        "Nemotron",
        "NemotronForCausalLM",
        GROUPED | PART | {"tie_word_embeddings": True},
    ),
    "nanochat": ("NanoChat", "NanoChatForCausalLM", GROUPED | PLAIN),
    "hunyuan": ("HunYuanDenseV1", "HunYuanDenseV1ForCausalLM", GROUPED | PLAIN | {"head_dim": 10}),
    "hunyuan stretched": (
        "HunYuanDenseV1",
        "HunYuanDenseV1ForCausalLM",
        GROUPED
        | {"head_dim": 4, "tie_word_embeddings": True}
        | {"rope_parameters": DYNAMIC | {"factor": 1.0, "alpha": 7.0}},
    ),
    "opt": (
        "OPT",
        "OPTForCausalLM",
        {name: SIZES[name] for name in list(SIZES)[:4]}
        | NO_TOKENS
        | {"ffn_dim": 20, "max_position_embeddings": T, "word_embed_proj_dim": 24},
    ),
    "gptj": (
        "GPTJ",
        "GPTJForCausalLM",
        {"vocab_size": V, "n_positions": T, "n_embd": 24, "n_layer": 2, "n_head": 3}
        | NO_TOKENS
        | {"rotary_dim": 4},
    ),
    "phi": ("Phi", "PhiForCausalLM", GROUPED | PART),
    "phi, normed": ("Phi", "PhiForCausalLM", GROUPED | PART | {"qk_layernorm": True}),
    "cohere, normed": (
        "Cohere",
        "CohereForCausalLM",
        GROUPED | PLAIN | {"use_qk_norm": True, "logit_scale": 0.3},
    ),
    "cohere": ("Cohere", "CohereForCausalLM", GROUPED | PLAIN | {"logit_scale": 0.3}),
    "cohere2": (
        "Cohere2",
        "Cohere2ForCausalLM",
        GROUPED
        | PLAIN
        | {"logit_scale": 0.3, "sliding_window": 3, "num_hidden_layers": 3}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "qwen2_moe": (
        "Qwen2Moe",
        "Qwen2MoeForCausalLM",
        GROUPED | PLAIN | EXPERTS | {"shared_expert_intermediate_size": 14},
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        "Qwen3MoeForCausalLM",
        GROUPED | PLAIN | EXPERTS | {"head_dim": 10, "norm_topk_prob": True},
    ),
    "qwen3_next": (
        "Qwen3Next",
        "Qwen3NextForCausalLM",
        GROUPED
        | EXPERTS
        | {"shared_expert_intermediate_size": 14, "head_dim": 8, "linear_key_head_dim": 6}
        | {"linear_value_head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"layer_types": ["linear_attention", "full_attention"]},
    ),
    "olmo_hybrid": (
        "OlmoHybrid",
        "OlmoHybridForCausalLM",
        GROUPED
        | {"linear_num_key_heads": 2, "linear_key_head_dim": 6, "linear_num_value_heads": 4}
        | {"linear_value_head_dim": 3, "layer_types": ["linear_attention", "full_attention"]},
    ),
    "jamba": (
        "Jamba",
        "JambaForCausalLM",
        GROUPED
        | {"num_hidden_layers": 3, "attn_layer_period": 3, "attn_layer_offset": 1}
        | {"expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 5}
        | {"mamba_d_state": 4, "mamba_dt_rank": 3, "mamba_expand": 2},
    ),
    "mamba": ("Mamba", "MambaForCausalLM", MAMBA),
    "mamba2": (
        "Mamba2",
        "Mamba2ForCausalLM",
        MAMBA | {"num_heads": 6, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    ),
    "zamba2": (
        "Zamba2",
        "Zamba2ForCausalLM",
        TEXT
        | PLAIN
        | {"num_hidden_layers": 4, "num_mem_blocks": 2, "adapter_rank": 3, "use_mem_rope": True}
        | {"layers_block_type": ["hybrid", "linear_attention", "hybrid", "hybrid"]}
        | {"use_shared_attention_adapter": True, "n_mamba_heads": 6, "mamba_d_state": 4}
        | {"mamba_ngroups": 2, "chunk_size": 4},
    ),
    "olmoe": (
        "Olmoe",
        "OlmoeForCausalLM",
        GROUPED | PLAIN | {"num_experts": 5, "num_experts_per_tok": 2},
    ),
    "gemma": ("Gemma", "GemmaForCausalLM", GROUPED | PLAIN | {"head_dim": 10}),
    "glm4": ("Glm4", "Glm4ForCausalLM", GROUPED | PART | {"head_dim": 8}),
    "olmo3": (
        "Olmo3",
        "Olmo3ForCausalLM",
        GROUPED
        | {"rope_parameters": {"full_attention": YARN} | {"sliding_attention": PLAIN_ONE}}
        | {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3},
    ),
    "exaone4": (
        "Exaone4",
        "Exaone4ForCausalLM",
        GROUPED
        | PLAIN
        | {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3},
    ),
    "apertus": ("Apertus", "ApertusForCausalLM", GROUPED | {"rope_parameters": LLAMA_3}),
    "llama4": (
        "Llama4Text",
        "Llama4ForCausalLM",
        GROUPED
        | PLAIN
        | {"intermediate_size_mlp": 14, "head_dim": 6, "num_local_experts": 4}
        | {"num_experts_per_tok": 2, "interleave_moe_layer_step": 2, "attention_chunk_size": 3}
        | {"no_rope_layers": [1, 0], "floor_scale": 2, "attn_scale": 0.7},
    ),
    "deepseek_v2": (
        "DeepseekV2",
        "DeepseekV2ForCausalLM",
        TEXT
        | DEEPSEEK
        | {"topk_method": "group_limited_greedy", "routed_scaling_factor": 2.5}
        | {"norm_topk_prob": False, "n_shared_experts": 2}
        | {"qk_nope_head_dim": 4},  # theirs turns pairs as complex numbers: all widths are even
    ),
    "modernbert": (
        "ModernBert",
        "ModernBertForMaskedLM",
        TEXT
        | {"num_hidden_layers": 3, "local_attention": 4, "max_position_embeddings": T}
        | {"cls_token_id": None, "sep_token_id": None},
    ),
    "bart": (
        "Bart",
        "BartForConditionalGeneration",
        {
            **{"vocab_size": V, "d_model": 24, "max_position_embeddings": T},
            **{"encoder_layers": 2, "decoder_layers": 3, "scale_embedding": True},
            **{"encoder_attention_heads": 6, "decoder_attention_heads": 3},
            **{"encoder_ffn_dim": 20, "decoder_ffn_dim": 22},
        },
    ),
    "electra": (
        "Electra",
        "ElectraForMaskedLM",
        SIZES | {"max_position_embeddings": T, "embedding_size": 14},
    ),
    "albert": (
        "Albert",
        "AlbertForMaskedLM",
        SIZES | {"max_position_embeddings": T, "embedding_size": 14, "num_hidden_layers": 3},
    ),
}


def config_of(transformers, case, **changes):
    """The settings of a case, complete, as `transformers` has them, with an ε of norms of our own
    and these changes."""
    kind, _, settings = CASES[case]
    config = getattr(transformers, f"{kind}Config")(**copy.deepcopy(settings))
    parts = [config, *(vars(config).get(part) for part in ("text_config", "vision_config"))]
    for part in filter(None, parts):
        for name in EPSILONS:
            if hasattr(part, name):
                setattr(part, name, EPS)
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def inputs(case):
    """What a model of this case is given here."""
    torch.manual_seed(1)
    tokens, source = torch.randint(3, V, (2, 9)), torch.randint(3, V, (2, 7))
    if case.startswith(("t5", "bart")):
        return source, torch.ones_like(source).bool(), tokens
    if case == "whisper":
        return torch.randn(2, 7, 18), tokens
    if case.startswith(("wav2vec2", "hubert")):
        return (torch.randn(2, 70),)
    if case in ("detr", "sam2"):
        return (torch.randn(2, 3, 64, 96),)
    if case.startswith("clip"):
        tokens[0, 4] = tokens[1, 8] = V - 1  # where a text ends
        if not case.endswith(("pictures", "texts")):
            return tokens, torch.randn(3, 3, 12, 12)
    if CASES[case][2].get("image_size"):
        return (torch.randn(2, 3, 12, 12),)
    return (tokens,)
