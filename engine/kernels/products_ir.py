"""Products of int8 rows with packed weights (see layout), as LLVM assembly for x86-64 with AVX2, FMA and F16C.

Activations are int8 codes, with sums for groups of inputs as words of two halves: for each pair of inputs one word of
the sums of its two groups of 32, and two words of the sums of its groups of 16. One row of one channel is

    sum over super-blocks of  factor * (sum of step * (sum of u * a)  -  zero * sum of step * (sum of a))
                              + offset factor * (sum of offset * (sum of a))

with exact integers inside and one fixed order of float operations outside, whatever rows and threads take part: a row's
bits depend on nothing but the row. As many products are added in 16 bits as fit: eight pairs of 4-bit ones
(8 x 2 x 15 x 127 < 2^15), two of 6-bit ones, one of 7-bit ones. A super-block fits 32 bits.

The 8 channels of a tile stand side by side in a register, and what came from memory serves up to 4 rows. For more rows
than that, a tile's 6-bit codes are unpacked to bytes once; what 4-bit ones cost to unpack is less than that would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from engine.kernels.group_codes import ZERO
from engine.kernels.layout import AHEAD, FACTOR, FORMS, HALVES, PAIR, QUADS, TILE, VECTOR, Form
from engine.kernels.text import Text, fma

BLOCK = 4  # rows that share what came from memory: what the 16 registers hold
WORDS = 3  # of sums of a pair
ADDED = {4: 8, 6: 2, 7: 1}  # products of two that fit 16 bits together, by bits
UNPACKED = (6,)  # bits of codes that are unpacked once for many rows

Kind = Literal["first", "again", "bytes"]

_PLACES = "ptr %weight, ptr %bytes, ptr %codes, ptr %sums, ptr %out"
_ARGUMENTS = f"{_PLACES}, i64 %k, i64 %halves, i64 %words, i64 %size, i64 %stride, float %factor"
_TURNS = [quad for low in range(4) for quad in (low, low + 4)]  # the two that share bytes, one after the other


def source() -> str:
    """Return the functions."""
    few = [_block(form, rows) for form in FORMS.values() for rows in range(1, BLOCK + 1)]
    more = [_block(form, BLOCK, _kind(form)) for form in FORMS.values()]
    unpack = [_unpack(FORMS[bits]) for bits in UNPACKED]
    return "\n".join([_DECLARATIONS, *few, *more, *unpack, *map(_tiles, FORMS.values())])


def _kind(form: Form) -> Kind:
    """Return the kind of block for the rows after a tile's first few."""
    return "bytes" if form.bits in UNPACKED else "again"


def _block(form: Form, rows: int, kind: Kind = "first") -> str:
    """One tile for a few rows: a vector of 8 channels for each row.

    The first rows fetch what follows in memory, so that others find it at hand; unpacked bytes fetch the next tile.
    """
    t = Text()
    codes = [t.at("%codes", t.times("%k", r)) for r in range(rows)]
    sums = [t.at("%sums", t.times("%words", r), "i32") for r in range(rows)]
    with t.loop(0, "%halves", HALVES, [("<8 x float>", "zeroinitializer")] * rows) as supers:
        weight = t.at("%weight", t.times(_halved(t, supers.index, HALVES), form.stride))
        pairs = t.at(weight, form.factors)
        count = t.least(t.let(f"sub i64 %halves, {supers.index}"), HALVES)
        with t.loop(0, count, 1, [("<8 x i32>", "zeroinitializer")] * rows) as halves:
            half, odd = t.plus(supers.index, halves.index), t.let(f"and i64 {halves.index}, 1")
            pair = t.at(pairs, t.times(_halved(t, halves.index), form.pair))
            if kind != "again":
                _prefetch(t, t.at(weight, "%size" if kind == "bytes" else AHEAD), halves.index, form)
            if kind == "bytes":
                bits, place = 7, t.at("%bytes", t.times(half, QUADS * VECTOR))
            else:
                bits, place = form.bits, t.at(pair, t.times(odd, form.codes))
            steps = _steps(t, form, pair, t.plus(t.times(odd, form.steps - FACTOR), form.step_at))
            activations = [t.at(row, t.times(half, 4 * QUADS)) for row in codes]
            added = _added(t, bits, place, activations, ADDED[form.bits])
            halves.results = list(halves.values)
            for r, some in added:
                halves.results[r] = t.let(f"add <8 x i32> {halves.results[r]}, {_pairs(t, some, steps)}")
        words = [t.at(row, t.times(_halved(t, supers.index), WORDS), "i32") for row in sums]
        shifts = _shifts(t, form, pairs, _halved(t, count), words)
        supers.results = _finished(t, form, weight, halves.results, shifts, supers.values)
    factor = t.splat("float", "%factor")
    for r, total in enumerate(supers.results):
        where = t.at("%out", t.times("%stride", r), "float")
        t.do(f"store <8 x float> {t.let(f'fmul <8 x float> {total}, {factor}')}, ptr {where}, align 4")
    t.do("ret void")
    return t.function(f"define internal void @{kind}{form.bits}_{rows}({_ARGUMENTS}) noinline")


def _added(t: Text, bits: int, place: str, activations: Sequence[str], most: int) -> Iterator[tuple[int, str]]:
    """Multiply half a pair; for each row yield sums <16 x i16> of as many products as fit them."""
    added = [""] * len(activations)
    for at, quad in enumerate(_TURNS, 1):
        codes = _codes(t, bits, place, quad)
        for r, row in enumerate(activations):
            product = _multiplied(t, codes, _spread(t, row, 4 * quad, "<32 x i8>"))
            added[r] = t.let(f"add <16 x i16> {added[r]}, {product}") if added[r] else product
        if at % most == 0:
            yield from enumerate(added)
            added = [""] * len(activations)


def _codes(t: Text, bits: int, place: str, quad: int) -> str:
    """Return a quad's codes as <32 x i8>."""
    if bits == 7:
        return t.load("<32 x i8>", place, VECTOR * quad, align=VECTOR)
    both = t.load("<16 x i16>", place, VECTOR * (quad % 4), align=VECTOR)
    low = _masked(t, _shifted(t, both, -4 if quad & 4 else 0), 0x0F)
    if bits == 6:
        rest = t.load("<16 x i16>", place, VECTOR * (4 + quad // 4), align=VECTOR)
        high = _masked(t, _shifted(t, rest, 4 - 2 * (quad % 4)), 0x30)
        low = t.let(f"or <16 x i16> {low}, {high}")
    return t.let(f"bitcast <16 x i16> {low} to <32 x i8>")


def _halved(t: Text, value: str, by: int = 2) -> str:
    """Divide by a power of two."""
    return t.let(f"lshr i64 {value}, {by.bit_length() - 1}")


def _shifted(t: Text, value: str, left: int) -> str:
    if not left:
        return value
    by = f"<{', '.join([f'i16 {abs(left)}'] * 16)}>"
    return t.let(f"{'shl' if left > 0 else 'lshr'} <16 x i16> {value}, {by}")


def _masked(t: Text, value: str, byte: int) -> str:
    return t.let(f"and <16 x i16> {value}, <{', '.join([f'i16 {byte * 257}'] * 16)}>")


def _steps(t: Text, form: Form, place: str, offset: str | int) -> str:
    """Return 16 steps, two groups of each channel, as <16 x i16>."""
    return t.let(f"{'sext' if form.bits == 6 else 'zext'} <16 x i8> {t.load('<16 x i8>', place, offset)} to <16 x i16>")


def _shifts(t: Text, form: Form, pairs: str, count: str, words: Sequence[str]) -> list[str]:
    """Return for each row what the sums of its activations make with offsets, or with steps where codes have a zero."""
    with t.loop(0, count, 1, [("<8 x i32>", "zeroinitializer")] * len(words)) as each:
        pair = t.at(pairs, t.times(each.index, form.pair))
        totals = each.values
        for part in range(form.steps // FACTOR):
            if form.offsets:
                offsets = t.load("<16 x i8>", pair, form.offset_at)
                numbers = t.let(f"sext <16 x i8> {offsets} to <16 x i16>")
            else:
                numbers = _steps(t, form, pair, form.step_at + FACTOR * part)
            word = 4 * (1 + part if form.steps > FACTOR else 0)
            some = [t.at(row, t.times(each.index, 4 * WORDS)) for row in words]
            products = [_pairs(t, _spread(t, row, word, "<16 x i16>"), numbers) for row in some]
            totals = [t.let(f"add <8 x i32> {a}, {b}") for a, b in zip(totals, products, strict=True)]
        each.results = totals
    return each.results


def _finished(
    t: Text, form: Form, weight: str, totals: Sequence[str], shifts: Sequence[str], floats: Sequence[str]
) -> list[str]:
    """Multiply a super-block's sums with its factors, and add them to floats."""
    factor, *more = (_halves(t, weight, FACTOR * part) for part in range(1 + form.offsets))
    found = []
    for total, shift, before in zip(totals, shifts, floats, strict=True):
        if more:
            whole = t.let(fma(_floats(t, total), factor, before))
            found.append(t.let(fma(_floats(t, shift), more[0], whole)))
        else:
            zeros = ", ".join([f"i32 {ZERO[form.bits]}"] * 8)
            zero = t.let(f"mul <8 x i32> {shift}, <{zeros}>")
            number = _floats(t, t.let(f"sub <8 x i32> {total}, {zero}"))
            found.append(t.let(fma(number, factor, before)))
    return found


def _prefetch(t: Text, base: str, half: str, form: Form) -> None:
    """Fetch the share that a half has of a super-block, a line at a time."""
    share = -(-form.stride // HALVES)
    place = t.at(base, t.times(half, share))
    for line in range(0, share, 64):
        t.do(f"call void @llvm.prefetch.p0(ptr {t.at(place, line)}, i32 0, i32 3, i32 1)")


def _spread(t: Text, base: str, offset: int, to: str) -> str:
    """Put one word of 32 bits into all lanes."""
    return t.let(f"bitcast <8 x i32> {t.splat('i32', t.load('i32', base, offset, align=4))} to {to}")


def _multiplied(t: Text, codes: str, activations: str) -> str:
    """Multiply unsigned with signed bytes; neighbours are added."""
    return t.let(f"call <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8> {codes}, <32 x i8> {activations})")


def _pairs(t: Text, numbers: str, others: str) -> str:
    """Multiply 16-bit numbers; neighbours are added."""
    return t.let(f"call <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16> {numbers}, <16 x i16> {others})")


def _halves(t: Text, base: str, offset: int) -> str:
    return t.let(f"fpext <8 x half> {t.load('<8 x half>', base, offset)} to <8 x float>")


def _floats(t: Text, integers: str) -> str:
    return t.let(f"sitofp <8 x i32> {integers} to <8 x float>")


def _unpack(form: Form) -> str:
    """Lay the codes of a tile out as bytes."""
    t = Text()
    with t.loop(0, "%halves") as halves:
        weight = t.at("%weight", t.times(_halved(t, halves.index, HALVES), form.stride))
        half, odd = (t.let(f"and i64 {halves.index}, {most}") for most in (HALVES - 1, 1))
        pair = t.at(weight, t.plus(t.times(_halved(t, half), form.pair), form.factors))
        place = t.at(pair, t.times(odd, form.codes))
        to = t.at("%bytes", t.times(halves.index, QUADS * VECTOR))
        for quad in range(QUADS):
            codes = _codes(t, form.bits, place, quad)
            t.do(f"store <32 x i8> {codes}, ptr {t.at(to, VECTOR * quad)}, align {VECTOR}")
    t.do("ret void")
    return t.function(f"define internal void @unpack{form.bits}(ptr %weight, ptr %bytes, i64 %halves)")


_DECLARATIONS = """
declare <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8>, <32 x i8>)
declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.sse2.pause()"""


def _tiles(form: Form) -> str:
    """All rows of the tiles from one to another."""
    unpacks = form.bits in UNPACKED
    names = {f"last{rows}": f"first{form.bits}_{rows}" for rows in range(1, BLOCK)}
    names |= {"full": f"first{form.bits}_{BLOCK}", "further": f"{_kind(form)}{form.bits}_{BLOCK}"}
    given = "ptr %tile, ptr %bytes, ptr %codes.r, ptr %sums.r, ptr %out.r, i64 %k, i64 %halves, i64 %words, i64 %size"
    cases = "\n".join(f"    i64 {rows}, label %last{rows}" for rows in range(1, BLOCK))
    calls = "\n".join(
        f"{label}:\n  call void @{name}({given}, i64 %stride, float %factor)\n  br label %rows.next"
        for label, name in names.items()
    )
    return f"""
define internal void @tiles{form.bits}(ptr %weight, ptr %codes, ptr %sums, ptr %out, i64 %first, i64 %end, i64 %k,
    i64 %rows, i64 %stride, float %factor) {{
entry:
  %halves = udiv i64 %k, {PAIR // 2}
  %pairs = udiv i64 %k, {PAIR}
  %words = mul i64 %pairs, {WORDS}
  %supers.more = add i64 %halves, {HALVES - 1}
  %supers = udiv i64 %supers.more, {HALVES}
  %factors = mul i64 %supers, {form.factors}
  %rest = mul i64 %pairs, {form.pair}
  %size = add i64 %factors, %rest
  %unpacks = icmp ugt i64 %rows, {BLOCK if unpacks else -1}
  %room = mul i64 %k, {TILE}
  %needed = select i1 %unpacks, i64 %room, i64 0
  %bytes = alloca i8, i64 %needed, align 64
  %any = icmp ult i64 %first, %end
  br i1 %any, label %tile.loop, label %done
tile.loop:
  %t = phi i64 [%first, %entry], [%t.next, %tile.next]
  %at = mul i64 %t, %size
  %tile = getelementptr i8, ptr %weight, i64 %at
  %channel = mul i64 %t, {TILE}
  %out.t = getelementptr float, ptr %out, i64 %channel
  br i1 %unpacks, label %unpack, label %rows.loop
unpack:
{f"  call void @unpack{form.bits}(ptr %tile, ptr %bytes, i64 %halves)" if unpacks else ""}
  br label %rows.loop
rows.loop:
  %r = phi i64 [0, %tile.loop], [0, %unpack], [%r.next, %rows.next]
  %left = sub i64 %rows, %r
  %codes.at = mul i64 %r, %k
  %codes.r = getelementptr i8, ptr %codes, i64 %codes.at
  %sums.at = mul i64 %r, %words
  %sums.r = getelementptr i32, ptr %sums, i64 %sums.at
  %out.at = mul i64 %r, %stride
  %out.r = getelementptr float, ptr %out.t, i64 %out.at
  switch i64 %left, label %four [
{cases}
  ]
four:
  %whole = icmp {f"ule i64 %rows, {BLOCK}" if unpacks else "eq i64 %r, 0"}
  br i1 %whole, label %full, label %further
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
