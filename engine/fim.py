"""How each model family spells fill-in-the-middle, found from its vocabulary.

Only the names of control tokens live here; the planner decides what text goes between them.
Sources: the model cards and reference implementations of the families, and Bavarian et al., "Efficient Training of
Language Models to Fill in the Middle" (arXiv:2207.14255), for the two orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.tokenizer import CodeTokenizer

Order = Literal["psm", "spm", "prefix"]
"""psm: prefix, suffix, middle. spm: suffix, then the prefix, which the middle continues. prefix: no suffix at all."""


@dataclass(frozen=True, slots=True)
class FimTemplate:
    """Control tokens of one family. `begin` opens every prompt; `repo` and `file` separate files where known."""

    family: str
    order: Order
    prefix: str = ""
    suffix: str = ""
    middle: str = ""
    begin: str = ""
    repo: str = ""
    file: str = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """The control tokens without which a vocabulary is not of this family."""
        return tuple(name for name in (self.prefix, self.suffix, self.middle, self.repo, self.file) if name)


FAMILIES = (
    FimTemplate(
        "qwen",  # Qwen2.5-Coder and Qwen3-Coder
        "psm",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        repo="<|repo_name|>",
        file="<|file_sep|>",
    ),
    FimTemplate(
        "starcoder2", "psm", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", repo="<repo_name>", file="<file_sep>"
    ),
    FimTemplate(  # StarCoder and Granite Code share their vocabulary
        "granite", "psm", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", repo="<reponame>", file="<filename>"
    ),
    FimTemplate(
        "granite4",
        "psm",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        repo="<|reponame|>",
        file="<|filename|>",
    ),
    FimTemplate(
        "codegemma",
        "psm",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        begin="<bos>",
        file="<|file_separator|>",
    ),
    FimTemplate(
        "deepseek",
        "psm",
        "<｜fim▁begin｜>",
        "<｜fim▁hole｜>",
        "<｜fim▁end｜>",
        begin="<｜begin▁of▁sentence｜>",
    ),
    FimTemplate("codellama", "psm", "▁<PRE>", "▁<SUF>", "▁<MID>", begin="<s>"),
    FimTemplate("codestral", "spm", "[PREFIX]", "[SUFFIX]", begin="<s>"),
    # Vocabularies with the three markers and no separators: fine-tunes that dropped some tokens.
    FimTemplate("generic", "psm", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    FimTemplate("generic", "psm", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
)

_BEGIN_NAMES = ("<s>", "<bos>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>")


def find_template(tokenizer: CodeTokenizer) -> FimTemplate:
    """Return the template whose control tokens the vocabulary has; prefix-only when it has none of them."""
    for template in FAMILIES:
        if all(tokenizer.control(name) is not None for name in template.needed):
            return template
    begin = next((name for name in _BEGIN_NAMES if tokenizer.control(name) is not None), "")
    return FimTemplate("none", "prefix", begin=begin)
