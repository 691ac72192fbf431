"""How each model family spells fill-in-the-middle, found from its vocabulary.

Only the names of control tokens live here; the planner decides what text goes between them.
Sources: Bavarian et al., "Efficient Training of Language Models to Fill in the Middle" (arXiv:2207.14255), for the two
orders; for the families QwenLM/Qwen2.5-Coder, examples/Qwen2.5-Coder-repolevel-fim.py; StarCoder 2 (arXiv:2402.19173),
section 5.1; StarCoder's data format (bigcode-playground), which Granite Code follows (granite-code-models issue 3); the
CodeGemma report (arXiv:2406.11409), figures 2 and 4; the README of DeepSeek-Coder; codellama, llama/generation.py;
mistral-common, `encode_fim`. Granite 4 documents the three markers only; its separators are used as StarCoder's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.tokenizer import CodeTokenizer

Order = Literal["psm", "spm", "prefix"]
"""psm: prefix, suffix, middle. spm: suffix, then the prefix, which the middle continues. prefix: no suffix at all."""

Part = Literal["context", "file", "path", "prefix"]
"""What stands before the document's text: other files, the file token, the document's path, the prefix marker."""


@dataclass(frozen=True, slots=True)
class FimTemplate:
    """Control tokens of one family. `begin` opens every prompt; `repo` and `file` separate files where known.

    `opening` is the order in which a document opens when other files go with it; alone it opens with its prefix marker.
    `repo_end` follows the project's name. `file_first` is false where the file token stands between files only.
    """

    family: str
    order: Order
    prefix: str = ""
    suffix: str = ""
    middle: str = ""
    begin: str = ""
    repo: str = ""
    file: str = ""
    opening: tuple[Part, ...] = ("prefix", "context", "path")  # no file tokens: one text, files under their paths
    repo_end: str = ""
    file_first: bool = True

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
        opening=("context", "file", "path", "prefix"),
        repo_end="\n",
    ),
    FimTemplate(
        "starcoder2",
        "psm",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        repo="<repo_name>",
        file="<file_sep>",
        opening=("context", "file", "prefix", "path"),
    ),
    FimTemplate(  # StarCoder and Granite Code share their vocabulary
        "granite",
        "psm",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        repo="<reponame>",
        file="<filename>",
        opening=("context", "prefix", "file", "path"),
    ),
    FimTemplate(
        "granite4",
        "psm",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        repo="<|reponame|>",
        file="<|filename|>",
        opening=("context", "prefix", "file", "path"),
    ),
    FimTemplate(
        "codegemma",
        "psm",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        begin="<bos>",
        file="<|file_separator|>",
        opening=("context", "file", "path", "prefix"),
        file_first=False,
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
