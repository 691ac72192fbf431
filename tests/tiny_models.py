"""Random models small enough for tests, of many families and in several forms, and an engine around them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file

from engine.config import EngineConfig, Limits
from engine.core import CompletionRequest
from engine.engine import Engine
from engine.models import load_models
from engine.planner import Planner

TEXT = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    "

SIZES = {
    "vocab_size": 640,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


def quietly(_: str) -> None:
    pass


def one_sentence(message: str) -> bool:
    """Whether a message is one line that says what to do after a semicolon."""
    return "; " in message and "\n" not in message and "Traceback" not in message


def random_ids(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(600) for _ in range(count)]


def logits(network, ids: list[int]) -> torch.Tensor:
    return network.forward(ids, network.new_cache(), len(ids))


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


def make_engine(target: Path, models: Path, planner: Planner | None = None, **settings) -> Engine:
    config = EngineConfig(target=str(target), **({"context_tokens": 512} | settings))
    return Engine(load_models(config, quietly, models), config, planner=planner)


def ask(engine: Engine, text: str = TEXT, path: str = "a.py", tokens: int = 24):
    request = CompletionRequest(path, "python", text, len(text), limits=Limits(tokens, "free"))
    return list(engine.complete(request))[-1].summary


def save(model, folder: Path, tokenizer: Path) -> Path:
    """Write any transformers model with random weights and the tokenizer of another folder."""
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
        elif name.endswith("_proj.bias"):
            torch.nn.init.normal_(parameter, std=0.5)
        elif name.endswith("norm.weight"):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(folder)
    shutil.copy(tokenizer / "tokenizer.json", folder)
    return folder


def causal(config):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config)


def qwen2(**changes):
    from transformers import Qwen2Config

    return Qwen2Config(**(SIZES | changes))


def llama(**changes):
    from transformers import LlamaConfig

    return LlamaConfig(**(SIZES | changes))


def mistral(**changes):
    from transformers import MistralConfig

    return MistralConfig(**(SIZES | {"sliding_window": None} | changes))


LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OUTER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if not module.startswith("model.layers."):
        return f"{OUTER_NAMES[module]}.{kind}"
    _, _, layer, inner = module.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[inner]}.{kind}"


def write_gguf(folder: Path, path: Path) -> None:
    """Write a model folder's content as one GGUF file, weights unquantised."""
    from gguf import GGUFWriter, TokenType

    spec, config = (json.loads((folder / name).read_text()) for name in ("tokenizer.json", "config.json"))
    special = {token["id"]: token["content"] for token in spec["added_tokens"]}
    texts = {i: text for text, i in spec["model"]["vocab"].items()} | special
    writer = GGUFWriter(path, "qwen2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([texts[i] for i in range(len(texts))])
    writer.add_token_types([TokenType.CONTROL if i in special else TokenType.NORMAL for i in range(len(texts))])
    writer.add_token_merges([" ".join(pair) for pair in spec["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        writer.add_tensor(gguf_name(name), tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
