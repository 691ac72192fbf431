"""Attention as LLVM assembly: rotation, writing keys and values, and softmax(q k) v block by block of keys.

The softmax is the running one of Milakov and Gimelshein (arXiv:1805.02867), as flash attention has it: blocks of keys
stand at fixed places from the first key on, so a row's bits depend on nothing but the row and its keys. A key that a
row may not see has probability exactly 0, and adding 0 times a finite value changes nothing.

Keys and values are kept in half precision: reading them is what attention costs when rows are few. Keys lie in blocks
of 16: for each of the head's numbers those of 16 keys. Values lie key by key. Queries that share a key head are taken
up to 6 at a time, from one row or from several.
"""

from __future__ import annotations

from engine.kernels import exp_ir
from engine.kernels.job_ir import ARGUMENTS, FIELDS
from engine.kernels.text import Text, fma

KEYS = 16  # of a block, side by side
STRETCH = 128  # keys between two looks at the largest score
AHEAD = 8192  # bytes of keys that are fetched before they are needed
QUERIES = 6  # at a time: 12 sums, two vectors of keys and one of a query fill the 16 registers

WORDS = ("q", "out", "keys", "values", "key_heads", "group", "size", "start", "rows", "capacity", "each", "units")
"""What a pass says, in words of 8 bytes: `each` queries of a key head make a unit of work, `units` cover all of its.
`q` has room for keys and values behind the queries of each row; keys and values have room for `capacity` positions."""

LARGEST = "0x40EFFC0000000000"  # 65504, of half precision

_V, _H, _W = "<8 x float>", "<8 x half>", "<16 x float>"
_HIDDEN = "0xFFF0000000000000"  # minus infinity
_HIDDEN_16 = f"<{', '.join([f'float {_HIDDEN}'] * 16)}>"
_PLACES = f"<{', '.join(f'i64 {at}' for at in range(16))}>"


def source() -> str:
    """Return the functions."""
    attends = (_attend(queries) for queries in range(1, QUERIES + 1))
    parts = (_turned(), _added(), _weights(), *attends, _units(), _attention())
    return "\n".join([_DECLARATIONS, exp_ir.source(16), *parts])


def _words(t: Text) -> dict[str, str]:
    found = {name: t.load("i64", "%words", 8 * at, 8) for at, name in enumerate(WORDS)}
    for name in ("q", "out", "keys", "values"):
        found[name] = t.let(f"inttoptr i64 {found[name]} to ptr")
    return found


def _turned() -> str:
    """Scale a product, add the bias, rotate neighbours by their angle; in place."""
    t = Text()
    scale = t.splat("float", "%scale")
    signs = f"<{', '.join(['float -1.0', 'float 1.0'] * 4)}>"
    with t.loop(0, "%size", 8) as loop:
        x, bias, rope = (t.at(base, loop.index, "float") for base in ("%x", "%bias", "%rope"))
        value = t.let(fma(t.load(_V, x, 0, 4), scale, t.load(_V, bias, 0, 4)))
        angle = t.load(_V, rope, 0, 4)
        cos, sin, other = (
            t.let(f"shufflevector {_V} {of}, {_V} poison, <8 x i32> <{', '.join(f'i32 {at}' for at in order)}>")
            for of, order in (
                (angle, (0, 0, 2, 2, 4, 4, 6, 6)),
                (angle, (1, 1, 3, 3, 5, 5, 7, 7)),
                (value, (1, 0, 3, 2, 5, 4, 7, 6)),
            )
        )
        across = t.let(f"fmul {_V} {other}, {t.let(f'fmul {_V} {sin}, {signs}')}")
        t.do(f"store {_V} {t.let(fma(value, cos, across))}, ptr {x}, align 4")
    t.do("ret void")
    return t.function("define internal void @turned(ptr %x, ptr %bias, ptr %rope, i64 %size, float %scale)")


def _added() -> str:
    """Scale a product, add the bias, narrow."""
    t = Text()
    scale = t.splat("float", "%scale")
    with t.loop(0, "%size", 8) as loop:
        x, bias = (t.at(base, loop.index, "float") for base in ("%x", "%bias"))
        to = t.at("%to", loop.index, "half")
        value = t.let(fma(t.load(_V, x, 0, 4), scale, t.load(_V, bias, 0, 4)))
        t.do(f"store {_H} {_narrowed(t, value)}, ptr {to}, align 16")
    t.do("ret void")
    return t.function("define internal void @added(ptr %x, ptr %bias, ptr %to, i64 %size, float %scale)")


def _attend(queries: int) -> str:
    """Attend for some queries of one key head, from number `first` on; they are counted row by row."""
    t = Text()
    w = _words(t)
    scores = t.let(f"alloca [{4 * STRETCH * queries} x i8], align 64")
    heads = t.times(w["key_heads"], w["group"])
    row_size = t.times(t.plus(heads, t.times(w["key_heads"], 2)), w["size"])
    asked, answers, seen = [], [], []
    for at in range(queries):
        number = t.plus("%first", at)
        row = t.let(f"udiv i64 {number}, {w['group']}")
        head = t.plus(t.times("%kv", w["group"]), t.let(f"urem i64 {number}, {w['group']}"))
        place = t.times(head, w["size"])
        asked.append(t.at(w["q"], t.plus(t.times(row, row_size), place), "float"))
        answers.append(t.at(w["out"], t.plus(t.times(row, t.times(heads, w["size"])), place), "float"))
        seen.append(t.plus(t.plus(w["start"], row), 1))
    own = t.times("%kv", t.times(w["capacity"], w["size"]))
    keys, values = (t.at(w[name], own, "half") for name in ("keys", "values"))
    for answer in answers:
        with t.loop(0, w["size"], 16) as clear:
            t.do(f"store {_W} zeroinitializer, ptr {t.at(answer, clear.index, 'float')}, align 4")
    begin = [("float", _HIDDEN)] * queries + [(_W, "zeroinitializer")] * queries
    with t.loop(0, seen[-1], STRETCH, begin) as stretch:
        largest, sums = stretch.values[:queries], stretch.values[queries:]
        count = t.least(t.let(f"sub i64 {seen[-1]}, {stretch.index}"), STRETCH)
        found = _scores(t, asked, keys, values, w["size"], stretch.index, count, scores, seen)
        most, fades = _fades(t, largest, found)
        totals = [
            t.let(
                f"call {_W} @weights(ptr {t.at(scores, 4 * STRETCH * at)}, i64 {count}, float {most[at]}, "
                f"float {fades[at]}, {_W} {sums[at]})"
            )
            for at in range(queries)
        ]
        _weigh(t, answers, values, w["size"], stretch.index, count, scores, fades)
        stretch.results = [*most, *totals]
    for answer, total in zip(answers, stretch.results[queries:], strict=True):
        whole = t.let(f"call float @llvm.vector.reduce.fadd.v16f32(float 0.0, {_W} {total})")
        share = t.splat("float", t.let(f"fdiv float 1.0, {whole}"), 16)
        with t.loop(0, w["size"], 16) as rest:
            to = t.at(answer, rest.index, "float")
            t.do(f"store {_W} {t.let(f'fmul {_W} {t.load(_W, to, 0, 4)}, {share}')}, ptr {to}, align 4")
    t.do("ret void")
    return t.function(f"define internal void @attend{queries}(ptr %words, i64 %kv, i64 %first) noinline")


def _scores(
    t: Text, asked: list[str], keys: str, values: str, size: str, base: str, count: str, scores: str, seen: list[str]
) -> list[str]:
    """Write the scores of a stretch of keys, return the largest ones of each query, <16 x float>.

    Meanwhile the next keys, and the values of these, come from memory: a line for each line that is worked on.
    """
    with t.loop(0, count, KEYS, [(_W, _HIDDEN_16)] * len(asked)) as block:
        first = t.plus(base, block.index)
        own, later = (t.at(base, t.times(first, size), "half") for base in (keys, values))
        with t.loop(0, size, 1, [(_V, "zeroinitializer")] * (2 * len(asked))) as number:
            line = t.times(number.index, KEYS)
            of_keys = t.at(own, line, "half")
            for needed in (t.at(of_keys, AHEAD), t.at(later, line, "half")):
                t.do(f"call void @llvm.prefetch.p0(ptr {needed}, i32 0, i32 3, i32 1)")
            both = [_widened(t, of_keys, half) for half in (0, 1)]
            for at, query in enumerate(asked):
                one = t.splat("float", t.load("float", t.at(query, number.index, "float"), align=4))
                number.results += [t.let(fma(one, both[half], number.values[2 * at + half])) for half in (0, 1)]
        places = t.let(f"add <16 x i64> {t.splat('i64', first, 16)}, {_PLACES}")
        for at, limit in enumerate(seen):
            low, high = number.results[2 * at : 2 * at + 2]
            order = ", ".join(f"i32 {lane}" for lane in range(16))
            whole = t.let(f"shufflevector {_V} {low}, {_V} {high}, <16 x i32> <{order}>")
            visible = t.let(f"icmp ult <16 x i64> {places}, {t.splat('i64', limit, 16)}")
            shown = t.let(f"select <16 x i1> {visible}, {_W} {whole}, {_W} {_HIDDEN_16}")
            t.do(f"store {_W} {shown}, ptr {t.at(scores, t.plus(block.index, STRETCH * at), 'float')}, align 64")
            block.results.append(t.let(f"call nnan {_W} @llvm.maxnum.v16f32({_W} {block.values[at]}, {_W} {shown})"))
    return block.results


def _fades(t: Text, before: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    """Return each query's largest score so far, and the factor on what it has summed up to now."""
    most, steps = [], "zeroinitializer"
    for at, (old, new) in enumerate(zip(before, found, strict=True)):
        largest = t.let(f"call nnan float @llvm.vector.reduce.fmax.v16f32({_W} {new})")
        most.append(t.let(f"call nnan float @llvm.maxnum.f32(float {old}, float {largest})"))
        step = t.let(f"fsub float {old}, {most[-1]}")
        steps = t.let(f"insertelement {_W} {steps}, float {step}, i32 {at}")
    powers = t.let(f"call {_W} @exp16({_W} {steps})")
    return most, [t.let(f"extractelement {_W} {powers}, i32 {at}") for at in range(len(most))]


def _weights() -> str:
    """Turn a query's scores into probabilities, but for the sum of all; return that sum so far."""
    t = Text()
    faded = t.let(f"fmul {_W} %total, {t.splat('float', '%fade', 16)}")
    off = t.splat("float", "%most", 16)
    with t.loop(0, "%count", KEYS, [(_W, faded)]) as block:
        place = t.at("%scores", block.index, "float")
        score = t.load(_W, place, 0, 64)
        power = t.let(f"call {_W} @exp16({_W} {t.let(f'fsub {_W} {score}, {off}')})")
        hidden = t.let(f"fcmp oeq {_W} {score}, {_HIDDEN_16}")
        own = t.let(f"select <16 x i1> {hidden}, {_W} zeroinitializer, {_W} {power}")
        t.do(f"store {_W} {own}, ptr {place}, align 64")
        block.results = [t.let(f"fadd {_W} {block.values[0]}, {own}")]
    t.do(f"ret {_W} {block.results[0]}")
    return t.function(
        f"define internal {_W} @weights(ptr %scores, i64 %count, float %most, float %fade, {_W} %total) noinline"
    )


def _weigh(
    t: Text, answers: list[str], values: str, size: str, base: str, count: str, scores: str, fades: list[str]
) -> None:
    """Add a stretch's values, weighed, to the answers."""
    own = t.at(values, t.times(base, size), "half")
    factors = [t.splat("float", fade) for fade in fades]
    with t.loop(0, size, 16) as part:
        places = [t.at(answer, part.index, "float") for answer in answers]
        faded = [
            (_V, t.let(f"fmul {_V} {t.load(_V, place, 32 * half, 4)}, {factor}"))
            for place, factor in zip(places, factors, strict=True)
            for half in (0, 1)
        ]
        with t.loop(0, count, 1, faded) as key:
            value = t.at(own, t.plus(t.times(key.index, size), part.index), "half")
            both = [_widened(t, value, half) for half in (0, 1)]
            for at in range(len(answers)):
                place = t.at(scores, t.plus(key.index, STRETCH * at), "float")
                one = t.splat("float", t.load("float", place, 0, 4))
                key.results += [t.let(fma(one, both[half], key.values[2 * at + half])) for half in (0, 1)]
        for at, place in enumerate(places):
            for half in (0, 1):
                t.do(f"store {_V} {key.results[2 * at + half]}, ptr {t.at(place, 32 * half)}, align 4")


def _widened(t: Text, base: str, half: int) -> str:
    return t.let(f"fpext {_H} {t.load(_H, base, 16 * half, 16)} to {_V}")


def _narrowed(t: Text, value: str) -> str:
    """Turn floats into halves, what is too large into the largest: 0 times an infinite value would not be 0."""
    lanes = f"<{', '.join([f'float {LARGEST}'] * 8)}>"
    least = t.let(f"fneg {_V} {lanes}")
    below = t.let(f"call {_V} @llvm.minnum.v8f32({_V} {value}, {_V} {lanes})")
    return t.let(f"fptrunc {_V} {t.let(f'call {_V} @llvm.maxnum.v8f32({_V} {below}, {_V} {least})')} to {_H}")


def _units() -> str:
    """Do the units of work from one number to another."""
    t = Text()
    w = _words(t)
    with t.loop("%from", "%end") as unit:
        kv = t.let(f"udiv i64 {unit.index}, {w['units']}")
        first = t.times(t.let(f"urem i64 {unit.index}, {w['units']}"), w["each"])
        left = t.let(f"sub i64 {t.times(w['rows'], w['group'])}, {first}")
        count = t.least(left, w["each"])
        cases = " ".join(f"i64 {n}, label %attend{n}" for n in range(1, QUERIES))
        t.do(f"switch i64 {count}, label %attend{QUERIES} [ {cases} ]")
        for n in range(1, QUERIES + 1):
            t.label(f"attend{n}")
            t.do(f"call void @attend{n}(ptr %words, i64 {kv}, i64 {first})")
            t.do("br label %attended")
        t.label("attended")
    t.do("ret void")
    return t.function("define internal void @attention_units(ptr %words, i64 %from, i64 %end)")


def _attention() -> str:
    """Turn a product into queries, keys and values, store the latter two, and share the rest out to the team."""
    t = Text()
    w = _words(t)
    heads = t.times(w["key_heads"], w["group"])
    turned = t.plus(heads, w["key_heads"])
    row_size = t.times(t.plus(turned, w["key_heads"]), w["size"])
    head_size = t.times(w["capacity"], w["size"])
    with t.loop(0, w["rows"]) as row:
        x = t.at(w["q"], t.times(row.index, row_size), "float")
        rope = t.at("%rope", t.times(row.index, w["size"]), "float")
        scale = t.load("float", t.at("%scale", row.index, "float"), align=4)
        position = t.plus(w["start"], row.index)
        with t.loop(0, turned) as head:
            at = t.times(head.index, w["size"])
            places = ", ".join(f"ptr {t.at(base, at, 'float')}" for base in (x, "%bias"))
            t.do(f"call void @turned({places}, ptr {rope}, i64 {w['size']}, float {scale})")
        with t.loop(0, w["key_heads"]) as key:
            from_ = t.at(x, t.times(t.plus(heads, key.index), w["size"]), "float")
            block = t.times(t.let(f"and i64 {position}, {-KEYS}"), w["size"])
            lane = t.plus(block, t.let(f"and i64 {position}, {KEYS - 1}"))
            to = t.at(w["keys"], t.plus(t.times(key.index, head_size), lane), "half")
            with t.loop(0, w["size"], 8) as number:
                halves = _narrowed(t, t.load(_V, t.at(from_, number.index, "float"), 0, 4))
                for part in range(8):
                    one = t.let(f"extractelement {_H} {halves}, i32 {part}")
                    place = t.at(to, t.times(t.plus(number.index, part), KEYS), "half")
                    t.do(f"store half {one}, ptr {place}, align 2")
            at = t.times(t.plus(turned, key.index), w["size"])
            places = ", ".join(f"ptr {t.at(base, at, 'float')}" for base in (x, "%bias"))
            to = t.at(w["values"], t.plus(t.times(key.index, head_size), t.times(position, w["size"])), "half")
            t.do(f"call void @added({places}, ptr {to}, i64 {w['size']}, float {scale})")
    units = t.times(w["units"], w["key_heads"])
    job = {"kind": "0", "weight": t.let("ptrtoint ptr %words to i64"), "tiles": units, "chunk": "1"}
    for name, value in job.items():
        t.do(f"store i64 {value}, ptr {t.at('%job', ARGUMENTS + FIELDS.index(name), 'i64')}, align 8")
    t.do(f"call void @share(ptr %job, i64 {units})")
    t.do("ret void")
    return t.function("define void @attention(ptr %job, ptr %words, ptr %bias, ptr %rope, ptr %scale)")


_DECLARATIONS = """
declare i64 @llvm.umin.i64(i64, i64)
declare <8 x float> @llvm.minnum.v8f32(<8 x float>, <8 x float>)
declare <8 x float> @llvm.maxnum.v8f32(<8 x float>, <8 x float>)
declare float @llvm.vector.reduce.fadd.v16f32(float, <16 x float>)
declare float @llvm.vector.reduce.fmax.v16f32(<16 x float>)"""
