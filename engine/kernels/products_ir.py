"""Products of int8 rows with packed weights (see layout), as LLVM assembly for x86-64 with AVX2, FMA and F16C.

Activations are int8 codes with a sum for each group of inputs. One row of one channel is

    sum over groups of  s * (sum of u * a)  +  m * (sum of a)

with exact integers inside and one fixed order of float operations outside, whatever rows and threads take part: a row's
bits depend on nothing but the row. 4-bit products of a whole group fit 16 bits (8 x 2 x 15 x 127 < 2^15), 7-bit ones do
for one instruction (2 x 127 x 127).

The 8 channels of a tile stand side by side in a register, and a code that came from memory is unpacked once for up to
4 rows. (Rows side by side instead, 8 in a register, with codes unpacked into the first cache, won 8 % from 32 rows on
with 4-bit codes and nothing elsewhere.)
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.kernels.layout import AHEAD, CODE_BYTES, GROUP, STRIDE, TILE
from engine.kernels.text import Text, fma

BLOCK = 4  # rows that share one unpacking of the codes: what the 16 registers hold

_ONES = f"<{', '.join(['i16 1'] * 16)}>"
_NIBBLES = f"<{', '.join(['i16 3855'] * 16)}>"  # 0x0f0f
_FOURS = f"<{', '.join(['i16 4'] * 16)}>"

_ARGUMENTS = "ptr %weight, ptr %codes, ptr %sums, ptr %out, i64 %k, i64 %groups, i64 %stride, float %factor"


def source() -> str:
    """Return the functions."""
    blocks = (_block(bits, rows) for bits in CODE_BYTES for rows in range(1, BLOCK + 1))
    return "\n".join([_DECLARATIONS, *blocks, *map(_tiles, CODE_BYTES)])


def _block(bits: int, rows: int) -> str:
    """One tile for a few rows: a loop over groups with a vector of 8 channels for each row."""
    t = Text()
    codes = [t.at("%codes", t.times("%k", r)) for r in range(rows)]
    sums = [t.at("%sums", t.times("%groups", r), "float") for r in range(rows)]
    with t.loop(0, "%groups", carried=[("<8 x float>", "zeroinitializer")] * rows) as loop:
        weight = t.at("%weight", t.times(loop.index, STRIDE[bits]))
        _prefetch(t, weight, bits)
        first = t.times(loop.index, GROUP)
        activations = [t.at(row, first) for row in codes]
        integers = _nibble_products(t, weight, activations) if bits == 4 else _byte_products(t, weight, activations)
        scale, offset = (_halves(t, weight, CODE_BYTES[bits] + 16 * part) for part in (0, 1))
        for r, integer in enumerate(integers):
            of_row = t.splat("float", t.load("float", t.at(sums[r], loop.index, "float"), align=4))
            loop.results.append(_accumulated(t, integer, scale, offset, of_row, loop.values[r]))
    factor = t.splat("float", "%factor")
    for r, total in enumerate(loop.results):
        where = t.at("%out", t.times("%stride", r), "float")
        t.do(f"store <8 x float> {t.let(f'fmul <8 x float> {total}, {factor}')}, ptr {where}, align 4")
    t.do("ret void")
    return t.function(f"define internal void @block{bits}_{rows}({_ARGUMENTS}) alwaysinline")


def _nibble_products(t: Text, weight: str, activations: Sequence[str]) -> list[str]:
    """Sums of a group's products, <8 x i32> for each row."""
    totals = [""] * len(activations)
    for quad in range(4):
        for part, codes in enumerate(_nibbles(t, weight, quad)):
            for r, row in enumerate(activations):
                product = _multiplied(t, codes, _spread_four(t, row, 4 * (quad + 4 * part)))
                totals[r] = t.let(f"add <16 x i16> {totals[r]}, {product}") if totals[r] else product
    return [_pairs(t, total) for total in totals]


def _byte_products(t: Text, weight: str, activations: Sequence[str]) -> list[str]:
    totals = [""] * len(activations)
    for quad in range(8):
        codes = t.load("<32 x i8>", weight, 32 * quad, align=32)
        for r, row in enumerate(activations):
            product = _pairs(t, _multiplied(t, codes, _spread_four(t, row, 4 * quad)))
            totals[r] = t.let(f"add <8 x i32> {totals[r]}, {product}") if totals[r] else product
    return totals


def _prefetch(t: Text, weight: str, bits: int) -> None:
    for line in range(0, STRIDE[bits], 64):
        t.do(f"call void @llvm.prefetch.p0(ptr {t.at(weight, AHEAD + line)}, i32 0, i32 3, i32 1)")


def _nibbles(t: Text, weight: str, quad: int) -> tuple[str, str]:
    """Return the low and the high codes of 32 bytes."""
    both = t.load("<16 x i16>", weight, 32 * quad, align=32)
    high = t.let(f"lshr <16 x i16> {both}, {_FOURS}")
    low, high = (t.let(f"and <16 x i16> {half}, {_NIBBLES}") for half in (both, high))
    return t.let(f"bitcast <16 x i16> {low} to <32 x i8>"), t.let(f"bitcast <16 x i16> {high} to <32 x i8>")


def _spread_four(t: Text, base: str, offset: int) -> str:
    """Put four neighbouring bytes into all lanes."""
    return t.let(f"bitcast <8 x i32> {t.splat('i32', t.load('i32', base, offset, align=4))} to <32 x i8>")


def _multiplied(t: Text, codes: str, activations: str) -> str:
    """Multiply unsigned with signed bytes; neighbours are added."""
    return t.let(f"call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8> {codes}, <32 x i8> {activations})")


def _pairs(t: Text, products: str) -> str:
    return t.let(f"call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> {products}, <16 x i16> {_ONES})")


def _halves(t: Text, base: str, offset: int) -> str:
    return t.let(f"fpext <8 x half> {t.load('<8 x half>', base, offset)} to <8 x float>")


def _accumulated(t: Text, integer: str, scale: str, offset: str, of_rows: str, total: str) -> str:
    """Add a group to totals. This order of operations is what a row's bits rest on."""
    number = t.let(f"sitofp <8 x i32> {integer} to <8 x float>")
    return t.let(fma(offset, of_rows, t.let(fma(number, scale, total))))


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
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.sse2.pause()"""
