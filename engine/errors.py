"""Everything the engine can refuse to do, as one small tree.

    EngineError
    ├── ConfigError         a setting that cannot work
    ├── RequestError        a request that cannot be served (cursor outside the text, unreadable file)
    ├── ModelLoadError      a model file that is missing, broken or of the wrong kind
    │   └── VocabularyMismatch  a draft model that counts in other tokens than its target
    ├── PullError           a model file that could not be fetched or is not what the catalogue promises
    └── OutOfMemory         weights or cache do not fit

Each message is one sentence that names the thing, the fault and the setting or command that mends it.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class ConfigError(EngineError):
    """A setting that cannot work."""


class RequestError(EngineError):
    """A request that cannot be served as it stands."""


class ModelLoadError(EngineError):
    """A model file that is missing, broken or of the wrong kind."""


class VocabularyMismatch(ModelLoadError):
    """A draft model whose tokens are not the target's."""


class PullError(EngineError):
    """A model file that could not be fetched, or is not what the catalogue promises."""


class OutOfMemory(EngineError):
    """Weights or cache do not fit into memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out; torch's CPU allocator and CUDA's libraries say so in text."""
    names = ("MemoryError", "OutOfMemoryError")
    texts = ("can't allocate memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")
    if type(error).__name__ in names:
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
