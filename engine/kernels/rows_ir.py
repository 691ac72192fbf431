"""The kernels between two products, as LLVM assembly: norms, the gate, and rounding activations to int8 codes.

A row is worked on alone and always in the same order, so its bits do not depend on the rows beside it. All leave codes
within +-127 and sums of them in the order that products want (see layout and products_ir), and the row's scale: the
size for which 127 stands.
"""

from __future__ import annotations

from engine.kernels import exp_ir
from engine.kernels.layout import PAIR
from engine.kernels.products_ir import WORDS

TINY = "0x39B4484C00000000"  # about 1e-30: keeps an all-zero row from dividing by zero
LEVELS = "1.270000e+02"
GROUP = PAIR // 2  # numbers at a time
V = f"<{GROUP} x float>"


def source() -> str:
    """Return the functions."""
    return "\n".join([_DECLARATIONS, exp_ir.source(GROUP), _QUANTISE, _QUANTISE_ROW, _NORMED, _GATED, _ROUNDED])


def _splat(value: str) -> str:
    return f"<{', '.join([f'float {value}'] * GROUP)}>"


_DECLARATIONS = f"""
declare i32 @llvm.vector.reduce.add.v{GROUP // 2}i32(<{GROUP // 2} x i32>)
declare {V} @llvm.fabs.v{GROUP}f32({V})
declare float @llvm.vector.reduce.fadd.v{GROUP}f32(float, {V})
declare float @llvm.vector.reduce.fmax.v{GROUP}f32({V})
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.sqrt.f32(float)"""


def _broadcast(name: str, value: str) -> str:
    return (
        f"  %{name}.one = insertelement {V} poison, float {value}, i32 0\n"
        f"  %{name} = shufflevector {V} %{name}.one, {V} poison, <{GROUP} x i32> zeroinitializer"
    )


def _narrowed(name: str) -> str:
    """Round one half of a pair: its codes two and two, and the sums of its two groups of 16."""
    half = GROUP // 2
    sums = "\n".join(
        f"""  %{name}.{at} = shufflevector <{GROUP} x i32> %{name}.wide, <{GROUP} x i32> poison, <{half} x i32> <{
            ", ".join(f"i32 {i}" for i in range(half * at, half * (at + 1)))
        }>
  %{name}.sum{at} = call i32 @llvm.vector.reduce.add.v{half}i32(<{half} x i32> %{name}.{at})"""
        for at in (0, 1)
    )
    return f"""  %{name}.whole = call {V} @llvm.rint.v{GROUP}f32({V} %{name})
  %{name}.wide = fptosi {V} %{name}.whole to <{GROUP} x i32>
  %{name}.narrow = trunc <{GROUP} x i32> %{name}.wide to <{GROUP} x i8>
  %{name}.twos = bitcast <{GROUP} x i8> %{name}.narrow to <{half} x i16>
{sums}
  %{name}.sum = add i32 %{name}.sum0, %{name}.sum1"""


def _word(at: int, sum_: str) -> str:
    """Store a sum of each half of a pair as one word."""
    return f"""  %low{at} = and i32 %a.{sum_}, 65535
  %high{at} = shl i32 %b.{sum_}, 16
  %word{at} = or i32 %low{at}, %high{at}
  %word{at}.at = getelementptr i32, ptr %words, i64 {at}
  store i32 %word{at}, ptr %word{at}.at, align 4"""


_WORDS = "\n".join(_word(at, sum_) for at, sum_ in enumerate(("sum", "sum0", "sum1")))
_BY_TURNS = ", ".join(f"i32 {i}, i32 {i + GROUP // 2}" for i in range(GROUP // 2))

_QUANTISE = f"""
define internal void @quantise_pair({V} %a, {V} %b, ptr %codes, ptr %words) alwaysinline {{
{_narrowed("a")}
{_narrowed("b")}
  %mixed = shufflevector <{GROUP // 2} x i16> %a.twos, <{GROUP // 2} x i16> %b.twos, <{GROUP} x i32> <{_BY_TURNS}>
  store <{GROUP} x i16> %mixed, ptr %codes, align 1
{_WORDS}
  ret void
}}"""

_QUANTISE_ROW = f"""
define internal float @quantise_row(ptr %x, ptr %codes, ptr %sums, i64 %pairs, {V} %sizes) {{
entry:
  %reduced = call nnan float @llvm.vector.reduce.fmax.v{GROUP}f32({V} %sizes)
  %largest = call nnan float @llvm.maxnum.f32(float %reduced, float {TINY})
  %factor.x = fdiv float {LEVELS}, %largest
{_broadcast("factor", "%factor.x")}
  br label %loop
loop:
  %p = phi i64 [0, %entry], [%next, %loop]
  %at = mul i64 %p, {PAIR}
  %from = getelementptr float, ptr %x, i64 %at
  %a.value = load {V}, ptr %from, align 4
  %a = fmul {V} %a.value, %factor
  %from.b = getelementptr float, ptr %from, i64 {GROUP}
  %b.value = load {V}, ptr %from.b, align 4
  %b = fmul {V} %b.value, %factor
  %to = getelementptr i8, ptr %codes, i64 %at
  %word = mul i64 %p, {WORDS}
  %words = getelementptr i32, ptr %sums, i64 %word
  call void @quantise_pair({V} %a, {V} %b, ptr %to, ptr %words)
  %next = add i64 %p, 1
  %more = icmp ult i64 %next, %pairs
  br i1 %more, label %loop, label %done
done:
  ret float %largest
}}"""

_ROW_LOOP = f"""
  %groups = udiv i64 %k, {GROUP}
  %pairs = udiv i64 %k, {PAIR}
  %words = mul i64 %pairs, {WORDS}
  br label %row
row:
  %r = phi i64 [0, %entry], [%r.next, %row.done]
  %codes.at = mul i64 %r, %k
  %codes.r = getelementptr i8, ptr %codes, i64 %codes.at
  %sums.at = mul i64 %r, %words
  %sums.r = getelementptr i32, ptr %sums, i64 %sums.at
  %scale.r = getelementptr float, ptr %scale, i64 %r"""

_ROW_NEXT = """
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %rows
  br i1 %r.more, label %row, label %end
end:
  ret void
}"""

_GROUP_NEXT = """
  %next = add i64 %g, 1
  %more = icmp ult i64 %next, %groups
  br i1 %more, label %loop, label %row.done"""

_NORMED = f"""
define void @normed(ptr %x, ptr %delta, ptr %delta.scale, ptr %weight, ptr %room, ptr %codes, ptr %sums, ptr %scale,
    i64 %k, i64 %rows, i64 %add, float %eps) {{
entry:
  %width = uitofp i64 %k to float
  %share = fdiv float 1.000000e+00, %width{_ROW_LOOP}
  %x.r = getelementptr float, ptr %x, i64 %codes.at
  %delta.r = getelementptr float, ptr %delta, i64 %codes.at
  %ds.at = getelementptr float, ptr %delta.scale, i64 %r
  %adds = icmp ne i64 %add, 0
  br i1 %adds, label %read, label %ready
read:
  %ds.read = load float, ptr %ds.at, align 4
  br label %ready
ready:
  %ds.x = phi float [%ds.read, %read], [0.000000e+00, %row]
{_broadcast("ds", "%ds.x")}
  br label %loop
loop:
  %g = phi i64 [0, %ready], [%next, %summed]
  %squares = phi {V} [zeroinitializer, %ready], [%squares.next, %summed]
  %sizes = phi {V} [zeroinitializer, %ready], [%sizes.next, %summed]
  %at = mul i64 %g, {GROUP}
  %from = getelementptr float, ptr %x.r, i64 %at
  %old = load {V}, ptr %from, align 4
  br i1 %adds, label %sum, label %summed
sum:
  %d.at = getelementptr float, ptr %delta.r, i64 %at
  %d = load {V}, ptr %d.at, align 4
  %new = call {V} @llvm.fma.v{GROUP}f32({V} %d, {V} %ds, {V} %old)
  store {V} %new, ptr %from, align 4
  br label %summed
summed:
  %value = phi {V} [%old, %loop], [%new, %sum]
  %squares.next = call {V} @llvm.fma.v{GROUP}f32({V} %value, {V} %value, {V} %squares)
  %w.at = getelementptr float, ptr %weight, i64 %at
  %w = load {V}, ptr %w.at, align 4
  %weighted = fmul {V} %value, %w
  %room.at = getelementptr float, ptr %room, i64 %at
  store {V} %weighted, ptr %room.at, align 4
  %size = call {V} @llvm.fabs.v{GROUP}f32({V} %weighted)
  %sizes.next = call nnan {V} @llvm.maxnum.v{GROUP}f32({V} %sizes, {V} %size){_GROUP_NEXT}
row.done:
  %square = call float @llvm.vector.reduce.fadd.v{GROUP}f32(float 0.000000e+00, {V} %squares.next)
  %mean = fmul float %square, %share
  %safe = fadd float %mean, %eps
  %root = call float @llvm.sqrt.f32(float %safe)
  %largest = call float @quantise_row(ptr %room, ptr %codes.r, ptr %sums.r, i64 %pairs, {V} %sizes.next)
  %own = fdiv float %largest, %root
  store float %own, ptr %scale.r, align 4{_ROW_NEXT}"""

_GATED = f"""
define void @gated(ptr %both, ptr %both.scale, ptr %codes, ptr %sums, ptr %scale, i64 %k, i64 %rows, i64 %stride) {{
entry:{_ROW_LOOP}
  %both.at = mul i64 %r, %stride
  %gate.r = getelementptr float, ptr %both, i64 %both.at
  %up.r = getelementptr float, ptr %gate.r, i64 %k
  %bs.at = getelementptr float, ptr %both.scale, i64 %r
  %bs.x = load float, ptr %bs.at, align 4
{_broadcast("bs", "%bs.x")}
  br label %loop
loop:
  %g = phi i64 [0, %row], [%next, %loop]
  %sizes = phi {V} [zeroinitializer, %row], [%sizes.next, %loop]
  %at = mul i64 %g, {GROUP}
  %gate.at = getelementptr float, ptr %gate.r, i64 %at
  %gate = load {V}, ptr %gate.at, align 4
  %value = fmul {V} %gate, %bs
  %minus = fneg {V} %value
  %power = call {V} @exp32({V} %minus)
  %below = fadd {V} %power, {_splat("1.000000e+00")}
  %silu = fdiv {V} %value, %below
  %up.at = getelementptr float, ptr %up.r, i64 %at
  %up = load {V}, ptr %up.at, align 4
  %result = fmul {V} %silu, %up
  store {V} %result, ptr %gate.at, align 4
  %size = call {V} @llvm.fabs.v{GROUP}f32({V} %result)
  %sizes.next = call nnan {V} @llvm.maxnum.v{GROUP}f32({V} %sizes, {V} %size){_GROUP_NEXT}
row.done:
  %largest = call float @quantise_row(ptr %gate.r, ptr %codes.r, ptr %sums.r, i64 %pairs, {V} %sizes.next)
  %own = fmul float %largest, %bs.x
  store float %own, ptr %scale.r, align 4{_ROW_NEXT}"""

_ROUNDED = f"""
define void @rounded(ptr %x, ptr %codes, ptr %sums, ptr %scale, i64 %k, i64 %rows) {{
entry:{_ROW_LOOP}
  %x.r = getelementptr float, ptr %x, i64 %codes.at
  br label %loop
loop:
  %g = phi i64 [0, %row], [%next, %loop]
  %sizes = phi {V} [zeroinitializer, %row], [%sizes.next, %loop]
  %at = mul i64 %g, {GROUP}
  %from = getelementptr float, ptr %x.r, i64 %at
  %value = load {V}, ptr %from, align 4
  %size = call {V} @llvm.fabs.v{GROUP}f32({V} %value)
  %sizes.next = call nnan {V} @llvm.maxnum.v{GROUP}f32({V} %sizes, {V} %size){_GROUP_NEXT}
row.done:
  %largest = call float @quantise_row(ptr %x.r, ptr %codes.r, ptr %sums.r, i64 %pairs, {V} %sizes.next)
  store float %largest, ptr %scale.r, align 4{_ROW_NEXT}"""
