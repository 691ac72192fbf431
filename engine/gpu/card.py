"""The CUDA card of this machine: whether it can be used, and what is free on it."""

from __future__ import annotations

LEAST = (8, 0)  # compute capability; earlier cards have no bfloat16


def usable() -> bool:
    """Whether there is a card that the kernels run on. False without torch, too."""
    try:
        import torch
    except (ImportError, OSError):  # OSError: an installation whose libraries do not load
        return False
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= LEAST


def free_bytes() -> int:
    """Return what may still be allocated: what no process holds, and what torch holds without using it."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def total_bytes() -> int:
    """Return the card's memory, used or not."""
    import torch

    _, total = torch.cuda.mem_get_info()
    return total


def name() -> str:
    """Return the card's name."""
    import torch

    return torch.cuda.get_device_name()
