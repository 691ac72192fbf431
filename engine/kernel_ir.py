"""The compiled inner loops of the CPU forward, as LLVM assembly for x86-64 with AVX2, FMA and F16C.

A weight is stored in tiles of 8 output channels, a tile in groups of 32 inputs; a group holds unsigned codes u and for
each channel a scale s and an offset m, so that w = s u + m. Codes have 4 bits (as llama.cpp's Q4_K has) or 7 in a byte.
Activations are int8 codes with a sum for each group. One row of one channel is

    sum over groups of  s * (sum of u * a)  +  m * (sum of a)

with exact integers inside and one fixed order of float operations outside, whatever rows and threads take part: a row's
bits depend on nothing but the row. 4-bit products of a whole group fit 16 bits (8 x 2 x 15 x 127 < 2^15), 7-bit ones do
for one instruction (2 x 127 x 127).

Threads share a job by taking chunks of tiles from one word that holds the job's number and how many chunks are left,
so that a thread that comes late finds nothing, and one that is not there is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

GROUP = 32  # inputs that share a scale
TILE = 8  # output channels side by side
CODE_BYTES = {4: 128, 7: 256}  # of a group of a tile, by bits
STRIDE = {bits: size + 4 * TILE for bits, size in CODE_BYTES.items()}  # with scales and offsets in half precision
AHEAD = 2048  # bytes that are fetched before they are needed
BLOCK = 4  # rows that share one unpacking of the codes: what the 16 registers hold

# The job that a team shares, in words of 8 bytes; what several threads write lies in cache lines of its own.
WORD, FINISHED, ARGUMENTS, STOP, WORDS = 0, 8, 16, 32, 40
FIELDS = ("bits", "weight", "codes", "sums", "out", "tiles", "chunk", "k", "rows", "stride", "factor")

_ONES = f"<{', '.join(['i16 1'] * 16)}>"
_NIBBLES = f"<{', '.join(['i16 3855'] * 16)}>"  # 0x0f0f
_FOURS = f"<{', '.join(['i16 4'] * 16)}>"


@dataclass(slots=True)
class _Body:
    """Instructions in order, with fresh names for their results."""

    lines: list[str] = field(default_factory=list)

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        name = f"%v{len(self.lines)}"
        self.do(f"{name} = {instruction}")
        return name

    def at(self, base: str, offset: str | int, kind: str = "i8") -> str:
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: str | int = 0, align: int = 1) -> str:
        return self.let(f"load {kind}, ptr {self.at(base, offset)}, align {align}")

    def splat(self, kind: str, value: str) -> str:
        one = self.let(f"insertelement <8 x {kind}> poison, {kind} {value}, i32 0")
        return self.let(f"shufflevector <8 x {kind}> {one}, <8 x {kind}> poison, <8 x i32> zeroinitializer")


def source() -> str:
    """Return the whole module."""
    blocks = (_block(bits, rows) for bits in CODE_BYTES for rows in range(1, BLOCK + 1))
    tiles = (_tiles(bits) for bits in CODE_BYTES)
    return "\n".join([_DECLARATIONS, *blocks, *tiles, _QUANTISE, _work(), _SERVE, _linear()])


def _block(bits: int, rows: int) -> str:
    """One tile for a few rows: a loop over groups with a vector of 8 channels for each row."""
    b = _Body()
    for r in range(rows):
        b.do(f"%codes{r} = getelementptr i8, ptr %codes, i64 {_times(b, '%k', r)}")
        b.do(f"%sums{r} = getelementptr float, ptr %sums, i64 {_times(b, '%groups', r)}")
    b.do("br label %group")
    b.lines.append("group:")
    b.do("%g = phi i64 [0, %entry], [%next, %group]")
    for r in range(rows):
        b.do(f"%acc{r} = phi <8 x float> [zeroinitializer, %entry], [%new{r}, %group]")
    weight = b.at("%weight", b.let(f"mul i64 %g, {STRIDE[bits]}"))
    for line in range(0, STRIDE[bits], 64):
        b.do(f"call void @llvm.prefetch.p0(ptr {b.at(weight, AHEAD + line)}, i32 0, i32 3, i32 1)")
    first = b.let(f"mul i64 %g, {GROUP}")
    activations = [b.at(f"%codes{r}", first) for r in range(rows)]
    integers = _nibble_products(b, weight, activations) if bits == 4 else _byte_products(b, weight, activations)
    scale, offset = (
        b.let(f"fpext <8 x half> {b.load('<8 x half>', weight, CODE_BYTES[bits] + 16 * part)} to <8 x float>")
        for part in (0, 1)
    )
    for r, integer in enumerate(integers):
        number = b.let(f"sitofp <8 x i32> {integer} to <8 x float>")
        total = b.let(f"getelementptr float, ptr %sums{r}, i64 %g")
        of_row = b.splat("float", b.let(f"load float, ptr {total}, align 4"))
        scaled = b.let(_fma(number, scale, f"%acc{r}"))
        b.do(f"%new{r} = {_fma(offset, of_row, scaled)}")
    b.do("%next = add i64 %g, 1")
    b.do("%more = icmp ult i64 %next, %groups")
    b.do("br i1 %more, label %group, label %done")
    b.lines.append("done:")
    factor = b.splat("float", "%factor")
    for r in range(rows):
        where = b.let(f"getelementptr float, ptr %out, i64 {_times(b, '%stride', r)}")
        b.do(f"store <8 x float> {b.let(f'fmul <8 x float> %new{r}, {factor}')}, ptr {where}, align 4")
    b.do("ret void")
    return (
        f"define internal void @block{bits}_{rows}(ptr %weight, ptr %codes, ptr %sums, ptr %out, i64 %k, i64 %groups, "
        "i64 %stride, float %factor) alwaysinline {\nentry:\n" + "\n".join(b.lines) + "\n}"
    )


def _nibble_products(b: _Body, weight: str, activations: list[str]) -> list[str]:
    """Sums of a group's products, <8 x i32> for each row; low nibbles hold its first 16 inputs, high ones the rest."""
    totals = [""] * len(activations)
    for quad in range(4):
        both = b.load("<16 x i16>", weight, 32 * quad, align=32)
        high = b.let(f"lshr <16 x i16> {both}, {_FOURS}")
        for part, half in enumerate((both, high)):
            codes = b.let(f"bitcast <16 x i16> {b.let(f'and <16 x i16> {half}, {_NIBBLES}')} to <32 x i8>")
            for r, row in enumerate(activations):
                product = _multiply(b, codes, row, quad + 4 * part)
                totals[r] = b.let(f"add <16 x i16> {totals[r]}, {product}") if totals[r] else product
    return [_pairs(b, total) for total in totals]


def _byte_products(b: _Body, weight: str, activations: list[str]) -> list[str]:
    totals = [""] * len(activations)
    for quad in range(8):
        codes = b.load("<32 x i8>", weight, 32 * quad, align=32)
        for r, row in enumerate(activations):
            product = _pairs(b, _multiply(b, codes, row, quad))
            totals[r] = b.let(f"add <8 x i32> {totals[r]}, {product}") if totals[r] else product
    return totals


def _multiply(b: _Body, codes: str, row: str, quad: int) -> str:
    """Multiply 4 inputs of 8 channels with the row's 4 activations; neighbours are added."""
    four = b.splat("i32", b.load("i32", row, 4 * quad, align=4))
    bytes_ = b.let(f"bitcast <8 x i32> {four} to <32 x i8>")
    return b.let(f"call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8> {codes}, <32 x i8> {bytes_})")


def _pairs(b: _Body, products: str) -> str:
    return b.let(f"call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> {products}, <16 x i16> {_ONES})")


def _fma(x: str, y: str, z: str) -> str:
    return f"call <8 x float> @llvm.fma.v8f32(<8 x float> {x}, <8 x float> {y}, <8 x float> {z})"


def _times(b: _Body, value: str, count: int) -> str:
    return b.let(f"mul i64 {value}, {count}")


def _tiles(bits: int) -> str:
    """All rows of the tiles from one to another."""
    labels = {BLOCK: "full"} | {rows: f"last{rows}" for rows in range(1, BLOCK)}
    cases = "\n".join(f"    i64 {rows}, label %{label}" for rows, label in labels.items() if rows < BLOCK)
    calls = "\n".join(
        f"{label}:\n  call void @block{bits}_{rows}(ptr %tile, ptr %codes.r, ptr %sums.r, ptr %out.r, i64 %k, "
        f"i64 %groups, i64 %stride, float %factor)\n  br label %{'rows.next' if rows == BLOCK else 'tile.next'}"
        for rows, label in labels.items()
    )
    return f"""
define internal void @tiles{bits}(ptr %weight, ptr %codes, ptr %sums, ptr %out, i64 %first, i64 %end, i64 %k, i64 %rows,
    i64 %stride, float %factor) {{
entry:
  %groups = udiv i64 %k, {GROUP}
  %size = mul i64 %groups, {STRIDE[bits]}
  %any = icmp ult i64 %first, %end
  br i1 %any, label %tile.loop, label %done
tile.loop:
  %t = phi i64 [%first, %entry], [%t.next, %tile.next]
  %at = mul i64 %t, %size
  %tile = getelementptr i8, ptr %weight, i64 %at
  %channel = mul i64 %t, {TILE}
  %out.t = getelementptr float, ptr %out, i64 %channel
  br label %rows.loop
rows.loop:
  %r = phi i64 [0, %tile.loop], [%r.next, %rows.next]
  %left = sub i64 %rows, %r
  %codes.at = mul i64 %r, %k
  %codes.r = getelementptr i8, ptr %codes, i64 %codes.at
  %sums.at = mul i64 %r, %groups
  %sums.r = getelementptr float, ptr %sums, i64 %sums.at
  %out.at = mul i64 %r, %stride
  %out.r = getelementptr float, ptr %out.t, i64 %out.at
  switch i64 %left, label %full [
{cases}
  ]
{calls}
rows.next:
  %r.next = add i64 %r, {BLOCK}
  %more.rows = icmp ult i64 %r.next, %rows
  br i1 %more.rows, label %rows.loop, label %tile.next
tile.next:
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %end
  br i1 %more, label %tile.loop, label %done
done:
  ret void
}}"""


_DECLARATIONS = """
declare <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8>, <32 x i8>)
declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <32 x float> @llvm.rint.v32f32(<32 x float>)
declare i32 @llvm.vector.reduce.add.v32i32(<32 x i32>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.sse2.pause()"""

_QUANTISE = f"""
define internal void @quantise_group(<{GROUP} x float> %exact, ptr %codes, ptr %sum) alwaysinline {{
  %whole = call <32 x float> @llvm.rint.v32f32(<32 x float> %exact)
  %wide = fptosi <32 x float> %whole to <32 x i32>
  %narrow = trunc <32 x i32> %wide to <32 x i8>
  store <32 x i8> %narrow, ptr %codes, align 1
  %total = call i32 @llvm.vector.reduce.add.v32i32(<32 x i32> %wide)
  %number = sitofp i32 %total to float
  store float %number, ptr %sum, align 4
  ret void
}}"""


def _arguments() -> Iterator[tuple[str, int]]:
    return ((name, ARGUMENTS + at) for at, name in enumerate(FIELDS))


def _work() -> str:
    """Take chunks of the job until none is left. Who owns a chunk may read the job, which cannot end without it."""
    reads = "\n".join(
        f"  %{name}.at = getelementptr i64, ptr %job, i64 {at}\n  %{name} = load i64, ptr %{name}.at, align 8"
        for name, at in _arguments()
    )
    pointers = "\n".join(f"  %{n}.p = inttoptr i64 %{n} to ptr" for n in ("weight", "codes", "sums", "out"))
    calls = "\n".join(
        f"bits{bits}:\n  call void @tiles{bits}(ptr %weight.p, ptr %codes.p, ptr %sums.p, ptr %out.p, i64 %first, "
        "i64 %end, i64 %k, i64 %rows, i64 %stride, float %factor.f)\n  br label %finished"
        for bits in CODE_BYTES
    )
    return f"""
define internal void @work(ptr %job) {{
entry:
  br label %look
look:
  %word = load atomic i64, ptr %job acquire, align 64
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %done, label %take
take:
  %fewer = sub i64 %word, 1
  %took = cmpxchg ptr %job, i64 %word, i64 %fewer acq_rel acquire
  %mine = extractvalue {{ i64, i1 }} %took, 1
  br i1 %mine, label %own, label %look
own:
{reads}
{pointers}
  %factor.32 = trunc i64 %factor to i32
  %factor.f = bitcast i32 %factor.32 to float
  %number = sub i64 %left, 1
  %first = mul i64 %number, %chunk
  %after = add i64 %first, %chunk
  %inside = icmp ult i64 %after, %tiles
  %end = select i1 %inside, i64 %after, i64 %tiles
  %four = icmp eq i64 %bits, 4
  br i1 %four, label %bits4, label %bits7
{calls}
finished:
  %count = getelementptr i64, ptr %job, i64 {FINISHED}
  %before = atomicrmw add ptr %count, i64 1 release
  br label %look
done:
  ret void
}}"""


_SERVE = f"""
define void @serve(ptr %job, i64 %patience) {{
entry:
  %stop = getelementptr i64, ptr %job, i64 {STOP}
  br label %wait
wait:
  %spins = phi i64 [0, %entry], [0, %help], [%spins.next, %idle]
  %word = load atomic i64, ptr %job acquire, align 64
  %left = and i64 %word, 4294967295
  %some = icmp ne i64 %left, 0
  br i1 %some, label %help, label %idle
help:
  call void @work(ptr %job)
  br label %wait
idle:
  call void @llvm.x86.sse2.pause()
  %spins.next = add i64 %spins, 1
  %asked = load atomic i64, ptr %stop monotonic, align 8
  %stopped = icmp ne i64 %asked, 0
  %bored = icmp ugt i64 %spins.next, %patience
  %leave = or i1 %stopped, %bored
  br i1 %leave, label %done, label %wait
done:
  ret void
}}"""


def _linear() -> str:
    """Run one job for each part of a weight. A part is six words: see `PART` in kernels."""
    own = {"codes": "%codes.i", "sums": "%sums.i", "rows": "%rows", "k": "%k", "stride": "%stride"}
    part = {"bits": 0, "weight": 1, "tiles": 2, "chunk": 3, "factor": 5}
    reads = "\n".join(
        f"  %{name}.at = getelementptr i64, ptr %p, i64 {at}\n  %{name}.i = load i64, ptr %{name}.at, align 8"
        for name, at in part.items()
    )
    values = own | {name: f"%{name}.i" for name in part} | {"out": "%out.i"}
    writes = "\n".join(
        f"  %{name}.to = getelementptr i64, ptr %job, i64 {at}\n  store i64 {values[name]}, ptr %{name}.to, align 8"
        for name, at in _arguments()
    )
    return f"""
define void @linear(ptr %job, ptr %codes, ptr %sums, ptr %out, ptr %parts, i64 %count, i64 %k, i64 %rows,
    i64 %stride) {{
entry:
  %codes.i = ptrtoint ptr %codes to i64
  %sums.i = ptrtoint ptr %sums to i64
  %finished = getelementptr i64, ptr %job, i64 {FINISHED}
  br label %part
part:
  %n = phi i64 [0, %entry], [%n.next, %joined]
  %place = mul i64 %n, 6
  %p = getelementptr i64, ptr %parts, i64 %place
{reads}
  %channel.at = getelementptr i64, ptr %p, i64 4
  %channel = load i64, ptr %channel.at, align 8
  %out.p = getelementptr float, ptr %out, i64 %channel
  %out.i = ptrtoint ptr %out.p to i64
{writes}
  %rounded = add i64 %tiles.i, %chunk.i
  %rounded.less = sub i64 %rounded, 1
  %chunks = udiv i64 %rounded.less, %chunk.i
  store atomic i64 0, ptr %finished monotonic, align 64
  %word = load atomic i64, ptr %job monotonic, align 64
  %number = and i64 %word, -4294967296
  %number.next = add i64 %number, 4294967296
  %word.next = or i64 %number.next, %chunks
  store atomic i64 %word.next, ptr %job release, align 64
  call void @work(ptr %job)
  br label %join
join:
  %done = load atomic i64, ptr %finished acquire, align 64
  %all = icmp eq i64 %done, %chunks
  br i1 %all, label %joined, label %patience
patience:
  call void @llvm.x86.sse2.pause()
  br label %join
joined:
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %count
  br i1 %more, label %part, label %end
end:
  ret void
}}"""
