"""The exponential, as LLVM assembly: of numbers from -87 to 88, others count as these. exp(0) is exactly 1.

After Cephes (expf): 2^n times a polynomial of the rest.
"""

from __future__ import annotations

LOWEST, HIGHEST = "0xC055C00000000000", "0x4056000000000000"  # -87, 88
LOG2E, LN2_HIGH, LN2_LOW = "0x3FF7154760000000", "0xBFE6300000000000", "0x3F2BD01060000000"
POLYNOMIAL = (
    "0x3F2A0D2CE0000000",
    "0x3F56E879C0000000",
    "0x3F81112100000000",
    "0x3FA5553820000000",
    "0x3FC5555540000000",
    "0x3FE0000000000000",
)


def source(lanes: int) -> str:
    """Return the function of a vector of so many lanes, named by them, and what it needs declared."""
    v = f"<{lanes} x float>"

    def splat(value: str) -> str:
        return f"<{', '.join([f'float {value}'] * lanes)}>"

    steps = "\n".join(
        f"  %p{at + 1} = call {v} @llvm.fma.v{lanes}f32({v} %p{at}, {v} %r, {v} {splat(factor)})"
        for at, factor in enumerate(POLYNOMIAL[1:])
    )
    return f"""
declare {v} @llvm.fma.v{lanes}f32({v}, {v}, {v})
declare {v} @llvm.rint.v{lanes}f32({v})
declare {v} @llvm.maxnum.v{lanes}f32({v}, {v})
declare {v} @llvm.minnum.v{lanes}f32({v}, {v})

define internal {v} @exp{lanes}({v} %x) alwaysinline {{
  %low = call nnan {v} @llvm.maxnum.v{lanes}f32({v} %x, {v} {splat(LOWEST)})
  %in = call nnan {v} @llvm.minnum.v{lanes}f32({v} %low, {v} {splat(HIGHEST)})
  %turns = fmul {v} %in, {splat(LOG2E)}
  %n = call {v} @llvm.rint.v{lanes}f32({v} %turns)
  %r.high = call {v} @llvm.fma.v{lanes}f32({v} %n, {v} {splat(LN2_HIGH)}, {v} %in)
  %r = call {v} @llvm.fma.v{lanes}f32({v} %n, {v} {splat(LN2_LOW)}, {v} %r.high)
  %p0 = fadd {v} zeroinitializer, {splat(POLYNOMIAL[0])}
{steps}
  %square = fmul {v} %r, %r
  %one = fadd {v} %r, {splat("1.000000e+00")}
  %mantissa = call {v} @llvm.fma.v{lanes}f32({v} %p{len(POLYNOMIAL) - 1}, {v} %square, {v} %one)
  %whole = fptosi {v} %n to <{lanes} x i32>
  %shifted = shl <{lanes} x i32> %whole, <{", ".join(["i32 23"] * lanes)}>
  %bits = bitcast {v} %mantissa to <{lanes} x i32>
  %scaled = add <{lanes} x i32> %bits, %shifted
  %result = bitcast <{lanes} x i32> %scaled to {v}
  ret {v} %result
}}"""
