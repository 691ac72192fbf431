"""All layers of a pass as one function, as LLVM assembly: from the first norm to the last product without a way back.

Between two products Python and torch would work for tens of microseconds, out of a cache through which a weight has
just gone, while memory, which a pass waits for, rests.
"""

from __future__ import annotations

from engine.kernels.attention_ir import WORDS
from engine.kernels.text import Text

LINEARS = ("qkv", "out", "gate_up", "down")
LAYER = ("input_norm", "qkv_bias", "post_norm", *(f"{name}_{what}" for name in LINEARS for what in ("parts", "count")))
"""What a layer is, in words of 8 bytes: places of its norms, its bias and its linears' parts, and how many parts."""

PASS = (
    *("x", "delta", "product", "attended", "room", "codes", "sums", "scale", "attention", "rope"),
    *("rows", "last", "hidden", "heads", "intermediate", "layers", "keys", "values"),
    *(f"{name}_stride" for name in LINEARS),
)
"""What a pass says: places of x and `delta` [rows, hidden], `product` [rows, largest stride] and `attended`
[rows, heads], of room for a row, for codes and their sums and for four scales of each row, of the attention's words and
angles; then sizes, bytes from one layer's keys or values to the next one's, and room for a row of each product."""


def source() -> str:
    """Return the function."""
    t = Text()
    w = {name: t.load("i64", "%pass", 8 * at, 8) for at, name in enumerate(PASS)}
    for name in PASS[: PASS.index("rows")]:
        w[name] = t.let(f"inttoptr i64 {w[name]} to ptr")
    # one for each place at which rows are rounded: before qkv, out, gate_up and down
    first, again, between, final = (t.at(w["scale"], t.times(w["rows"], at), "float") for at in range(4))
    end = t.let(f"sub i64 {w['layers']}, 1")
    with t.loop(0, w["layers"]) as loop:
        layer = _Layer(t, t.at("%layers", t.times(loop.index, 8 * len(LAYER))), w)
        changes = t.let(f"icmp ne i64 {loop.index}, 0")
        layer.norm(w["x"], final, "input_norm", first, w["rows"], t.let(f"zext i1 {changes} to i64"))
        layer.multiply("qkv", w["hidden"], w["rows"], w["product"])
        places = f"ptr {w['attention']}, ptr {layer.place('qkv_bias')}, ptr {w['rope']}, ptr {first}"
        t.do(f"call void @attention(ptr %job, {places})")
        for name in ("keys", "values"):
            word = t.at(w["attention"], WORDS.index(name), "i64")
            t.do(f"store i64 {t.plus(t.load('i64', word, 0, 8), w[name])}, ptr {word}, align 8")
        # of the rows before the last ones no one needs more than the last layer's keys and values
        cut = t.let(f"icmp eq i64 {loop.index}, {end}")
        rows = t.let(f"select i1 {cut}, i64 {w['last']}, i64 {w['rows']}")
        left = t.let(f"sub i64 {w['rows']}, {rows}")
        x = t.at(w["x"], t.times(left, w["hidden"]), "float")
        attended = t.at(w["attended"], t.times(left, w["heads"]), "float")
        rounded = f"ptr {w['codes']}, ptr {w['sums']}, ptr {again}"
        t.do(f"call void @rounded(ptr {attended}, {rounded}, i64 {w['heads']}, i64 {rows})")
        layer.multiply("out", w["heads"], rows, w["delta"])
        layer.norm(x, again, "post_norm", between, rows, "1")
        layer.multiply("gate_up", w["hidden"], rows, w["product"])
        gated = f"ptr {w['product']}, ptr {between}, ptr {w['codes']}, ptr {w['sums']}, ptr {final}"
        sizes = f"i64 {w['intermediate']}, i64 {rows}, i64 {w['gate_up_stride']}"
        t.do(f"call void @gated({gated}, {sizes})")
        layer.multiply("down", w["intermediate"], rows, w["delta"])
    t.do("ret void")
    return t.function("define void @layers(ptr %job, ptr %layers, ptr %pass, float %eps)")


class _Layer:
    """Calls with one layer's weights."""

    def __init__(self, t: Text, words: str, facts: dict[str, str]) -> None:
        self._t, self._words, self._pass = t, words, facts

    def _word(self, name: str) -> str:
        return self._t.load("i64", self._words, 8 * LAYER.index(name), 8)

    def place(self, name: str) -> str:
        return self._t.let(f"inttoptr i64 {self._word(name)} to ptr")

    def norm(self, x: str, change: str, weight: str, scale: str, rows: str, changes: str) -> None:
        """Add what the last product says to x and round its norm."""
        w = self._pass
        places = f"ptr {x}, ptr {w['delta']}, ptr {change}, ptr {self.place(weight)}, ptr {w['room']}"
        to = f"ptr {w['codes']}, ptr {w['sums']}, ptr {scale}"
        self._t.do(f"call void @normed({places}, {to}, i64 {w['hidden']}, i64 {rows}, i64 {changes}, float %eps)")

    def multiply(self, name: str, inputs: str, rows: str, out: str) -> None:
        """Multiply the rounded rows."""
        w, parts, count = self._pass, self.place(f"{name}_parts"), self._word(f"{name}_count")
        places = f"ptr %job, ptr {w['codes']}, ptr {w['sums']}, ptr {out}, ptr {parts}"
        sizes = f"i64 {count}, i64 {inputs}, i64 {rows}, i64 {w[f'{name}_stride']}"
        self._t.do(f"call void @linear({places}, {sizes})")
