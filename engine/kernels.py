"""Compiled kernels for products with weights in groups (see kernel_ir), and the team of threads that runs them.

They are compiled by LLVM when a model is loaded, in a third of a second, for the processor at hand; nothing is needed
but the package llvmlite. Where the processor or the package is not there, `find_kernels` says None.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import mmap
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine import kernel_ir, kernel_rows
from engine.arithmetic import Arithmetic, TorchArithmetic
from engine.exact_rows import threads_show
from engine.kernel_ir import GROUP, STRIDE, TILE

log = logging.getLogger(__name__)

NEEDED = ("avx2", "fma", "f16c")
PATIENCE = 150_000  # pauses, a few milliseconds, that a helper waits for the next job before it goes to sleep
SHORT_PATIENCE = 1_000  # while a prompt is read: torch's threads want the processors between two linears
FEW_ROWS = 32  # of a pass whose operations beside the linears are too small for threads
CHUNKS = 16  # of one job: enough that a thread which is held up keeps nobody waiting for long
PART = ("bits", "weight", "tiles", "chunk", "channel", "factor")  # words that describe a part to the kernel

Bytes = npt.NDArray[np.uint8]
Halves = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Part:
    """Some output channels of a linear: packed codes of so many bits, and a factor on all results."""

    bits: int
    packed: Bytes
    channels: int
    factor: float = 1.0


class Team:
    """Threads that share jobs. One caller at a time; a helper that sleeps is woken when a pass begins."""

    def __init__(self, library: _Library) -> None:
        self._library = library
        room = np.zeros(kernel_ir.WORDS + 8, dtype=np.int64)
        skip = -(room.ctypes.data // 8) % 8  # words up to the next cache line
        self._words = room[skip : skip + kernel_ir.WORDS]
        self.job = self._words.ctypes.data
        self._helpers: list[_Helper] = []
        self._awake: list[_Helper] = []
        self._one = threading.RLock()
        atexit.register(self._end)  # compiled code must not go while a helper is in it

    def _end(self) -> None:
        self._words[kernel_ir.STOP] = 1
        for helper in self._helpers:
            helper.end()

    def wake(self, rows: int) -> None:
        """Call the helpers of the present pass, in case they went to sleep in it."""
        for helper in self._awake:
            helper.wake(PATIENCE if rows <= FEW_ROWS else SHORT_PATIENCE)

    @contextmanager
    def passing(self, rows: int) -> Iterator[None]:
        """Work on one pass: helpers are awake. torch's own threads, which would spin beside them, only read prompts."""
        with self._one:
            threads = torch.get_num_threads()
            wanted = min(threads, _processors()) - 1  # more would take turns, each spinning while it has one
            while len(self._helpers) < wanted:
                self._helpers.append(_Helper(self._library, self.job))
            if rows <= FEW_ROWS or threads_show(threads):
                torch.set_num_threads(1)
            self._awake = self._helpers[:wanted]
            try:
                self.wake(rows)
                yield
            finally:
                torch.set_num_threads(threads)


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Helper:
    """A thread that serves jobs until none came for a while, and then sleeps."""

    def __init__(self, library: _Library, job: int) -> None:
        self._serve, self._job = library.serve, job
        self._called = threading.Event()
        self._patience = PATIENCE
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="foretype-kernels", daemon=True)
        self._thread.start()

    def wake(self, patience: int) -> None:
        self._patience = patience
        self._called.set()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        self._called.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._called.wait() and self._thread is not None:
            self._called.clear()
            self._serve(self._job, self._patience)


class Rounded(NamedTuple):
    """Says that rows were rounded; their codes are in the kernels' memory until the next are."""

    rows: int
    width: int


class GroupLinear:
    """A linear whose weight lies in groups: maps rows that a KernelArithmetic rounded last to float32 [rows, out]."""

    def __init__(self, kernels: Kernels, parts: Sequence[Part], inputs: int) -> None:
        self._kernels, self._kept = kernels, tuple(parts)
        self.inputs, self.outputs = inputs, sum(part.channels for part in parts)
        self._room = sum(-(-part.channels // TILE) * TILE for part in parts)
        self._words = np.array(list(_words(parts)), dtype=np.int64)
        self._parts = self._words.ctypes.data, len(self._words), inputs

    def __call__(self, q: Rounded) -> Tensor:
        """Multiply the rows."""
        out = torch.empty(q.rows, self._room)
        self._kernels.multiply(out, *self._parts, q.rows, self._room)
        return out if self._room == self.outputs else out[:, : self.outputs]


def _words(parts: Sequence[Part]) -> Iterator[list[int]]:
    channel = 0
    for part in parts:
        tiles = -(-part.channels // TILE)
        factor = int(np.float32(part.factor).view(np.int32))
        yield [part.bits, part.packed.ctypes.data, tiles, -(-tiles // CHUNKS), channel, factor]
        channel += TILE * tiles


class Kernels:
    """The compiled functions, the memory that rounded rows pass through, and the team."""

    def __init__(self, library: _Library) -> None:
        self.library = library
        self.team = Team(library)
        self.rounded = _Codes(0)

    def linear(self, parts: Sequence[Part], inputs: int) -> GroupLinear:
        """Make a linear of parts whose channels stand one after another; all but the last fill whole tiles."""
        return GroupLinear(self, parts, inputs)

    def room(self, size: int) -> tuple[int, int]:
        """Return where so many codes, and their sums, go."""
        if self.rounded.size < size:
            self.rounded = _Codes(size)
        return self.rounded.at

    def multiply(self, out: Tensor, words: int, parts: int, inputs: int, rows: int, stride: int) -> None:
        """Multiply the rounded rows with a weight into `out` [rows, stride]."""
        if rows > FEW_ROWS:
            self.team.wake(rows)
        self.library.linear(self.team.job, *self.rounded.at, out.data_ptr(), words, parts, inputs, rows, stride)


class _Codes:
    """int8 codes and sums of rows between the arithmetic that rounds them and the linear that multiplies them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.codes = torch.empty(size, dtype=torch.int8)
        self.sums = torch.empty(-(-size // GROUP))
        self.at = self.codes.data_ptr(), self.sums.data_ptr()


class KernelArithmetic:
    """What stands between two products, compiled; see Arithmetic."""

    def __init__(self, kernels: Kernels, eps: float) -> None:
        self._kernels, self._library, self._eps = kernels, kernels.library, eps
        self._room = torch.empty(0)
        self._nothing = torch.empty(0), torch.empty(0)

    def passing(self, rows: int) -> AbstractContextManager[None]:
        """With the team awake."""
        return self._kernels.team.passing(rows)

    def normed(self, x: Tensor, change: tuple[Tensor, Tensor] | None, weight: Tensor) -> tuple[Tensor, Rounded, Tensor]:
        """See Arithmetic."""
        rows, width = x.shape
        if len(self._room) < width:
            self._room = torch.empty(width)
        delta, delta_scale = change or self._nothing
        scale = torch.empty(rows, 1)
        self._library.normed(
            x.data_ptr(),
            delta.data_ptr(),
            delta_scale.data_ptr(),
            weight.data_ptr(),
            self._room.data_ptr(),
            *self._kernels.room(rows * width),
            scale.data_ptr(),
            width,
            rows,
            change is not None,
            self._eps,
        )
        return x, Rounded(rows, width), scale

    def gated(self, both: Tensor, scale: Tensor) -> tuple[Rounded, Tensor]:
        """See Arithmetic; `both` is changed."""
        rows, stride = both.shape
        own = torch.empty(rows, 1)
        width = stride // 2
        room = self._kernels.room(rows * width)
        self._library.gated(both.data_ptr(), scale.data_ptr(), *room, own.data_ptr(), width, rows, stride)
        return Rounded(rows, width), own

    def rounded(self, x: Tensor) -> tuple[Rounded, Tensor]:
        """See Arithmetic."""
        x = x.contiguous()
        rows, width = x.shape
        scale = torch.empty(rows, 1)
        self._library.rounded(x.data_ptr(), *self._kernels.room(rows * width), scale.data_ptr(), width, rows)
        return Rounded(rows, width), scale

    def floats(self, q: Rounded) -> Tensor:
        """See Arithmetic."""
        return self._kernels.rounded.codes[: q.rows * q.width].view(q).float()


class _Library:
    """The module, compiled; it lives as long as its functions may be called."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(kernel_ir.source() + kernel_rows.source())
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
        )
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        passes.getModulePassManager().run(module, passes)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.linear = self._function("linear", pointers=5, numbers=4)
        self.serve = self._function("serve", pointers=1, numbers=1)
        self.normed = self._function("normed", pointers=8, numbers=3, floats=1)
        self.gated = self._function("gated", pointers=5, numbers=3)
        self.rounded = self._function("rounded", pointers=4, numbers=2)

    def _function(self, name: str, pointers: int, numbers: int, floats: int = 0) -> Any:  # noqa: ANN401  (ctypes' types)
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers + [ctypes.c_float] * floats
        return ctypes.CFUNCTYPE(None, *kinds)(self._engine.get_function_address(name))  # calls leave Python's lock


@cache
def find_kernels() -> Kernels | None:
    """Compile the kernels and try them out, once per process; None where that is not possible."""
    try:
        if not _suits():
            return None
        kernels = Kernels(_Library())
        if not _is_right(kernels):
            log.warning("compiled kernels compute something else on this processor; using torch's operators")
            return None
    except Exception as error:  # whatever llvmlite or LLVM find wrong here; torch's operators do the same
        log.info("no compiled kernels (%s); using torch's operators", error)
        return None
    return kernels


def _suits() -> bool:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return all(features.get(name) for name in NEEDED)


def _is_right(kernels: Kernels) -> bool:
    """Compare with other arithmetic: the products with the largest codes too, all of it alone and among other rows."""
    with kernels.team.passing(1):
        return all(_multiplies(kernels, bits) for bits in kernel_ir.CODE_BYTES) and _fills_between(kernels)


def _multiplies(kernels: Kernels, bits: int) -> bool:
    random = np.random.default_rng(0)
    codes = random.integers(0, 2**bits, (40, 320), dtype=np.uint8)
    codes[0], codes[1] = 2**bits - 1, 0
    scale, offset = (random.random((40, 10)).astype(np.float16) for _ in range(2))
    rows = torch.from_numpy(random.integers(-127, 128, (13, 320)).astype(np.float32))
    rows[0], rows[1], rows[:, 0] = 127.0, -127.0, 127.0
    weight = codes.reshape(40, 10, GROUP) * scale[..., None].astype(float) + offset[..., None].astype(float)
    want = rows.double() @ torch.from_numpy(weight.reshape(40, 320)).T
    linear = kernels.linear([Part(bits, pack(codes, scale, offset, bits), 40)], 320)
    arithmetic = KernelArithmetic(kernels, 0.0)
    got, *alone = (linear(arithmetic.rounded(part)[0]) for part in (rows, *torch.split(rows, 1)))
    return torch.equal(torch.cat(alone), got) and bool((got - want).abs().max() <= 1e-5 * want.abs().max())


def _fills_between(kernels: Kernels) -> bool:
    """Compare with torch's operators: codes may differ by one where a number lies between two."""
    generator = torch.Generator().manual_seed(0)
    x, product, weight = (torch.randn(size, generator=generator) for size in ((5, 128), (5, 128), (128,)))
    both, scale = 4 * torch.randn(5, 256, generator=generator), torch.rand(5, 1, generator=generator)
    own, torchs = KernelArithmetic(kernels, 1e-6), TorchArithmetic(1e-6)

    def results(arithmetic: Arithmetic, rows: slice) -> list[Tensor]:
        def normed(change: tuple[Tensor, Tensor] | None) -> tuple[Any, Tensor]:
            return arithmetic.normed(x[rows].clone(), change, weight)[1:]

        found = []
        for kind in range(4):  # one after the other: the next takes the memory of the last
            if kind < 2:
                q, size = normed((product[rows], scale[rows]) if kind else None)
            else:
                q, size = (
                    arithmetic.gated(both[rows].clone(), scale[rows]) if kind == 2 else arithmetic.rounded(x[rows])
                )
            found += [arithmetic.floats(q), size]
        return found

    whole, want = results(own, slice(None)), results(torchs, slice(None))
    alone = [torch.cat(parts) for parts in zip(*(results(own, slice(at, at + 1)) for at in range(5)), strict=True)]
    near = [bool((got - a).abs().max() <= 1) for got, a in zip(whole[::2], want[::2], strict=True)]
    near += [torch.allclose(got, a, rtol=1e-5) for got, a in zip(whole[1::2], want[1::2], strict=True)]
    return all(near) and all(torch.equal(one, among) for one, among in zip(alone, whole, strict=True))


def pack(codes: Bytes, scale: Halves, offset: Halves, bits: int) -> Bytes:
    """Lay out codes [out, in], and scale and offset [out, in / 32], as the kernels read them."""
    size = kernel_ir.CODE_BYTES[bits]
    filled: Bytes = np.pad(codes, ((0, -len(codes) % TILE), (0, 0)))
    tiles, groups = len(filled) // TILE, filled.shape[1] // GROUP
    quads = filled.reshape(tiles, TILE, groups, 8, 4).transpose(0, 2, 3, 1, 4)
    out = aligned(tiles * groups * STRIDE[bits])
    shaped = out.reshape(tiles, groups, STRIDE[bits])
    joined = quads[:, :, :4] | quads[:, :, 4:] << np.uint8(4) if bits == 4 else quads
    shaped[..., :size] = joined.reshape(tiles, groups, size)
    for at, half in ((size, scale), (size + 2 * TILE, offset)):
        lanes = np.pad(half, ((0, -len(half) % TILE), (0, 0))).reshape(tiles, TILE, groups).transpose(0, 2, 1)
        shaped[..., at : at + 2 * TILE] = np.ascontiguousarray(lanes).view(np.uint8)
    return out


def aligned(size: int) -> Bytes:
    """Return `size` bytes of memory that begin a page, on large pages where the system has them."""
    memory = mmap.mmap(-1, max(size, 1) + kernel_ir.AHEAD + STRIDE[7])  # what is fetched ahead at the end is there too
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them says no
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8, count=size)
