"""The families of published models that can be read: for each `model_type` a recipe, and a table of
names."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from attnbook.families.builds import (
    cousins,
    decoders,
    encoders,
    experts,
    hybrids,
    parallel,
    readers,
    recent,
    vision,
)
from attnbook.families.layout import Names
from attnbook.families.names.decoders import (
    AFTER,
    APERTUS,
    BOTH,
    GLM4,
    GRANITE,
    LLAMA,
    OPT,
    PHI3,
    STABLELM,
    STARCODER2,
)
from attnbook.families.names.encoders import (
    ALBERT,
    BERT,
    DISTILBERT,
    ELECTRA,
    MODERNBERT,
    ROBERTA,
)
from attnbook.families.names.experts import DEEPSEEK, MIXTRAL, QWEN_MOE, gpt_oss_names, llama4_names
from attnbook.families.names.hybrids import qwen3_next_names
from attnbook.families.names.parallel import BLOOM, COHERE, GPT2, GPTJ, NEOX, PHI, falcon_names
from attnbook.families.names.readers import BART, WHISPER, t5_names
from attnbook.families.names.vision import DINO_LAYER, SIGLIP, VIT_LAYER, picture_names
from attnbook.families.settings import Config


@dataclass(frozen=True)
class Family:
    """How a model_type is built of its config, and what its tensors are called.

    `prefix` is that of the published model with its head: files of the bare model lack it.
    `extra` are tensors that the files may hold and the model does not need: buffers, second copies;
    `lacking` those that files may lack, for the model begins with their numbers.
    """

    build: Callable[[Config], nn.Module]
    names: Names | Callable[[nn.Module], Names]
    architecture: str
    prefix: str = ""
    extra: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


BUFFERS = ("*.attn.bias", "*.masked_bias", "*.inv_freq", "*.position_ids", "*.token_type_ids")
OTHER_TASKS = ("*.pooler.*", "cls.seq_relationship.*", "*.decoder.bias")
FAMILIES: dict[str, Family] = {
    "gpt2": Family(parallel.build_gpt2, GPT2, "GPT2LMHeadModel", prefix="transformer."),
    "llama": Family(decoders.build_llama, LLAMA, "LlamaForCausalLM", prefix="model."),
    "qwen2": Family(decoders.build_qwen2, LLAMA, "Qwen2ForCausalLM", prefix="model."),
    "qwen3": Family(decoders.build_qwen3, LLAMA, "Qwen3ForCausalLM", prefix="model."),
    "mistral": Family(decoders.build_mistral, LLAMA, "MistralForCausalLM", prefix="model."),
    "mixtral": Family(experts.build_mixtral, MIXTRAL, "MixtralForCausalLM", prefix="model."),
    "qwen2_moe": Family(experts.build_qwen2_moe, QWEN_MOE, "Qwen2MoeForCausalLM", prefix="model."),
    "qwen3_moe": Family(experts.build_qwen3_moe, QWEN_MOE, "Qwen3MoeForCausalLM", prefix="model."),
    "olmoe": Family(experts.build_olmoe, QWEN_MOE, "OlmoeForCausalLM", prefix="model."),
    "qwen3_next": Family(
        hybrids.build_qwen3_next,
        qwen3_next_names,
        "Qwen3NextForCausalLM",
        prefix="model.",
        extra=("mtp.*",),  # guesses tokens further on
    ),
    "llama4_text": Family(experts.build_llama4, llama4_names, "Llama4ForCausalLM", prefix="model."),
    "deepseek_v2": Family(
        experts.build_deepseek_v2, DEEPSEEK, "DeepseekV2ForCausalLM", prefix="model."
    ),
    "deepseek_v3": Family(
        experts.build_deepseek_v3, DEEPSEEK, "DeepseekV3ForCausalLM", prefix="model."
    ),
    "gpt_oss": Family(experts.build_gpt_oss, gpt_oss_names, "GptOssForCausalLM", prefix="model."),
    "phi3": Family(decoders.build_phi3, PHI3, "Phi3ForCausalLM", prefix="model."),
    "smollm3": Family(decoders.build_smollm3, LLAMA, "SmolLM3ForCausalLM", prefix="model."),
    "olmo2": Family(decoders.build_olmo2, AFTER, "Olmo2ForCausalLM", prefix="model."),
    "olmo3": Family(recent.build_olmo3, AFTER, "Olmo3ForCausalLM", prefix="model."),
    "exaone4": Family(recent.build_exaone4, AFTER, "Exaone4ForCausalLM", prefix="model."),
    "apertus": Family(recent.build_apertus, APERTUS, "ApertusForCausalLM", prefix="model."),
    "glm4": Family(recent.build_glm4, GLM4, "Glm4ForCausalLM", prefix="model."),
    "gemma": Family(recent.build_gemma, LLAMA, "GemmaForCausalLM", prefix="model."),
    "gemma2": Family(decoders.build_gemma2, BOTH, "Gemma2ForCausalLM", prefix="model."),
    "gemma3_text": Family(decoders.build_gemma3, BOTH, "Gemma3ForCausalLM", prefix="model."),
    "granite": Family(cousins.build_granite, GRANITE, "GraniteForCausalLM", prefix="model."),
    "stablelm": Family(cousins.build_stablelm, STABLELM, "StableLmForCausalLM", prefix="model."),
    "starcoder2": Family(
        cousins.build_starcoder2, STARCODER2, "Starcoder2ForCausalLM", prefix="model."
    ),
    "nemotron": Family(cousins.build_nemotron, LLAMA, "NemotronForCausalLM", prefix="model."),
    "opt": Family(cousins.build_opt, OPT, "OPTForCausalLM", prefix="model."),
    "gptj": Family(parallel.build_gptj, GPTJ, "GPTJForCausalLM", prefix="transformer."),
    "phi": Family(parallel.build_phi, PHI, "PhiForCausalLM", prefix="model."),
    "cohere": Family(parallel.build_cohere, COHERE, "CohereForCausalLM", prefix="model."),
    "cohere2": Family(parallel.build_cohere2, COHERE, "Cohere2ForCausalLM", prefix="model."),
    "gpt_neox": Family(parallel.build_gpt_neox, NEOX, "GPTNeoXForCausalLM", prefix="gpt_neox."),
    "falcon": Family(
        parallel.build_falcon, falcon_names, "FalconForCausalLM", prefix="transformer."
    ),
    "bloom": Family(parallel.build_bloom, BLOOM, "BloomForCausalLM", prefix="transformer."),
    "bert": Family(encoders.build_bert, BERT, "BertForMaskedLM", prefix="bert.", extra=OTHER_TASKS),
    "roberta": Family(
        encoders.build_roberta, ROBERTA, "RobertaForMaskedLM", prefix="roberta.", extra=OTHER_TASKS
    ),
    "distilbert": Family(
        encoders.build_distilbert, DISTILBERT, "DistilBertForMaskedLM", prefix="distilbert."
    ),
    "electra": Family(
        encoders.build_electra, ELECTRA, "ElectraForMaskedLM", prefix="electra.", extra=OTHER_TASKS
    ),
    "albert": Family(
        encoders.build_albert, ALBERT, "AlbertForMaskedLM", prefix="albert.", extra=OTHER_TASKS
    ),
    "modernbert": Family(
        encoders.build_modernbert, MODERNBERT, "ModernBertForMaskedLM", prefix="model."
    ),
    "bart": Family(
        readers.build_bart,
        BART,
        "BartForConditionalGeneration",
        prefix="model.",
        lacking=("final_logits_bias",),
    ),
    "t5": Family(readers.build_t5, t5_names, "T5ForConditionalGeneration"),
    "whisper": Family(
        readers.build_whisper, WHISPER, "WhisperForConditionalGeneration", prefix="model."
    ),
    "vit": Family(
        vision.build_vit,
        picture_names("vit", VIT_LAYER),
        "ViTForImageClassification",
        prefix="vit.",
    ),
    "deit": Family(
        vision.build_deit,
        picture_names("deit", VIT_LAYER),
        "DeiTForImageClassificationWithTeacher",
        prefix="deit.",
    ),
    "dinov2_with_registers": Family(
        vision.build_dinov2,
        picture_names("dinov2_with_registers", DINO_LAYER),
        "Dinov2WithRegistersForImageClassification",
        prefix="dinov2_with_registers.",
        extra=("*.mask_token",),
    ),
    "siglip_vision_model": Family(vision.build_siglip, SIGLIP, "SiglipVisionModel"),
}
