"""A writer of LLVM assembly: instructions with fresh names, and loops whose carried values find their way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Loop:
    """A loop being written: its index, its carried values as they are at the top, and what they become."""

    index: str
    values: list[str]
    results: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Text:
    """The body of one function."""

    lines: list[str] = field(default_factory=list)
    block: str = "entry"
    count: int = 0

    def name(self, kind: str = "v") -> str:
        """Return a name that nothing has yet."""
        self.count += 1
        return f"{kind}{self.count}"

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        """Write an instruction, return the name of its result."""
        name = f"%{self.name()}"
        self.do(f"{name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def at(self, base: str, offset: str | int, kind: str = "i8") -> str:
        """Return the place of an element."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: str | int = 0, align: int = 1) -> str:
        """Read from so many bytes after a place."""
        return self.let(f"load {kind}, ptr {self.at(base, offset)}, align {align}")

    def splat(self, kind: str, value: str, lanes: int = 8) -> str:
        """Put one value into all lanes of a vector."""
        one = self.let(f"insertelement <{lanes} x {kind}> poison, {kind} {value}, i32 0")
        return self.let(
            f"shufflevector <{lanes} x {kind}> {one}, <{lanes} x {kind}> poison, <{lanes} x i32> zeroinitializer"
        )

    def times(self, value: str, factor: str | int) -> str:
        """Multiply two lengths."""
        return self.let(f"mul i64 {value}, {factor}")

    def plus(self, value: str, other: str | int) -> str:
        """Add two lengths."""
        return self.let(f"add i64 {value}, {other}")

    def least(self, value: str, other: str | int) -> str:
        """Return the smaller of two lengths."""
        return self.let(f"call i64 @llvm.umin.i64(i64 {value}, i64 {other})")

    @contextmanager
    def loop(
        self, first: str | int, end: str | int, step: int = 1, carried: Sequence[tuple[str, str]] = ()
    ) -> Iterator[Loop]:
        """Write a loop from `first` until `end` is reached; it runs once at least.

        `carried` names kind and first value of what goes from one turn to the next. The body sets `results`; after
        the loop they are the last turn's.
        """
        top = self.name("loop")
        before, place = self.block, len(self.lines) + 2
        self.do(f"br label %{top}")
        self.label(top)
        loop = Loop(f"%{top}.i", [f"%{top}.c{at}" for at in range(len(carried))])
        yield loop
        after = self.plus(loop.index, step)
        more = self.let(f"icmp ult i64 {after}, {end}")
        phis = [f"  {loop.index} = phi i64 [{first}, %{before}], [{after}, %{self.block}]"]
        for name, (kind, value), result in zip(loop.values, carried, loop.results, strict=True):
            phis.append(f"  {name} = phi {kind} [{value}, %{before}], [{result}, %{self.block}]")
        self.lines[place:place] = phis
        done = self.name("done")
        self.do(f"br i1 {more}, label %{top}, label %{done}")
        self.label(done)

    def function(self, head: str) -> str:
        """Return the whole function."""
        return f"{head} {{\nentry:\n" + "\n".join(self.lines) + "\n}"


def fma(x: str, y: str, z: str, lanes: int = 8) -> str:
    """Multiply and add, as an instruction."""
    v = f"<{lanes} x float>"
    return f"call {v} @llvm.fma.v{lanes}f32({v} {x}, {v} {y}, {v} {z})"
