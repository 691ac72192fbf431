"""What a keystroke costs in a large document, here and in pygls: `python -m tests.bench.keystrokes`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter

from lsprotocol import types
from pygls.workspace import PositionCodec, TextDocument

from lsp_server.documents.positions import Encoding, width
from lsp_server.documents.store import DocumentStore

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
RADIUS = 16_384
OURS, PYGLS = 2_000, 5

Case = tuple[str, int, str]  # the text, and before which line and after which part of it one types


def cases() -> dict[str, Case]:
    """Return the texts by name, each with a place to type at."""
    lines = [f"value_{number:06d} = {number % 97:04d}\n" for number in range(300_000)]
    ascii_line = "value = f(12345, x); " * 50_000
    other_line = "значение = ф(«é», 数); " * 43_000 + "🦊" + "значение = ф(«é», 数); " * 5_000
    return {
        "6 MB in 300,000 lines, middle": ("".join(lines), 150_000, ""),
        "6 MB in 300,000 lines, CRLF": ("".join(lines).replace("\n", "\r\n"), 150_000, ""),
        "ASCII line of 1 MB, its end": (ascii_line, 0, ascii_line),
        "non-ASCII line of 1 MB, its end": (other_line, 0, other_line),
    }


def insertion(line: int, column: int) -> types.TextDocumentContentChangePartial:
    """Return the change that typing one letter makes."""
    place = types.Position(line, column)
    return types.TextDocumentContentChangePartial(types.Range(place, place), "x")


def ours(case: Case, encoding: Encoding) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return what applies the n-th letter to our store, and what then looks around it."""
    text, line, before = case
    store = DocumentStore(encoding)
    document = store.open("file:///w/big.py", "python", 0, text)
    start = width(before, encoding)

    def press(count: int) -> None:
        store.change("file:///w/big.py", count + 1, [insertion(line, start + count)])

    def look(count: int) -> None:
        document.excerpt(line, start + count + 1, RADIUS)

    return press, look


def theirs(case: Case, encoding: Encoding) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return the same for pygls, whose nearest thing to an excerpt is the offset of a position."""
    text, line, before = case
    codec = PositionCodec(types.PositionEncodingKind(encoding))
    document = TextDocument("file:///w/big.py", text, 0, "python", position_codec=codec)
    start = width(before, encoding)

    def press(count: int) -> None:
        document.apply_change(insertion(line, start + count))

    def look(count: int) -> None:
        document.offset_at_position(types.Position(line, start + count + 1))

    return press, look


def measure(press: Callable[[int], None], look: Callable[[int], None], times: int) -> str:
    """Return median and 99th percentile in milliseconds of a key, of looking around it, and of both."""
    keys, looks = [], []
    for count in range(times):
        begin = perf_counter()
        press(count)
        middle = perf_counter()
        look(count)
        keys.append((middle - begin) * 1000)
        looks.append((perf_counter() - middle) * 1000)
    both = [key + seen for key, seen in zip(keys, looks, strict=True)]
    return "   ".join(f"{median(values):8.3f} {quantiles(values, n=100)[98]:8.3f}" for values in (keys, looks, both))


def main() -> None:
    """Print one row for each text and encoding, ours and pygls's."""
    print(f"milliseconds: median and p99 of {OURS} keystrokes (pygls: {PYGLS}); excerpt of {RADIUS} to each side")
    print(f"{'':48}{'key':>17}   {'excerpt / offset':>17}   {'both':>17}")
    for name, case in cases().items():
        for encoding in ENCODINGS:
            label = f"{name}, {encoding}"
            print(f"{label:42}{'ours':6}{measure(*ours(case, encoding), OURS)}")
            print(f"{label:42}{'pygls':6}{measure(*theirs(case, encoding), PYGLS)}", flush=True)


if __name__ == "__main__":
    main()
