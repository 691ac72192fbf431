"""How threads share a job, as LLVM assembly.

They take chunks from one word that holds the job's number and how many chunks are left, so that a thread that comes
late finds nothing, and one that is not there is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.kernels.layout import FORMS

# The job that a team shares, in words of 8 bytes; what several threads write lies in cache lines of its own.
WORD, FINISHED, ARGUMENTS, STOP, BUSY, WORDS = 0, 8, 16, 32, 33, 40
FIELDS = ("kind", "weight", "codes", "sums", "out", "tiles", "chunk", "k", "rows", "stride", "factor")
"""What a job says: for a product, `kind` is the bits of its codes; for attention it is 0, and `weight` its words."""


def source() -> str:
    """Return the functions."""
    return "\n".join([_work(), _SHARE, _SERVE, _linear()])


def _arguments() -> Iterator[tuple[str, int]]:
    return ((name, ARGUMENTS + at) for at, name in enumerate(FIELDS))


def _work() -> str:
    """Take chunks of the job until none is left. Who owns a chunk may read the job, which cannot end without it."""
    reads = "\n".join(
        f"  %{name}.at = getelementptr i64, ptr %job, i64 {at}\n  %{name} = load i64, ptr %{name}.at, align 8"
        for name, at in _arguments()
    )
    pointers = "\n".join(f"  %{n}.p = inttoptr i64 %{n} to ptr" for n in ("weight", "codes", "sums", "out"))
    cases = "\n".join(f"    i64 {bits}, label %bits{bits}" for bits in FORMS)
    calls = "\n".join(
        f"bits{bits}:\n  call void @tiles{bits}(ptr %weight.p, ptr %codes.p, ptr %sums.p, ptr %out.p, "
        "i64 %first, i64 %end, i64 %k, i64 %rows, i64 %stride, float %factor.f)\n  br label %finished"
        for bits in FORMS
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
  switch i64 %kind, label %attention [
{cases}
  ]
{calls}
attention:
  call void @attention_units(ptr %weight.p, i64 %first, i64 %end)
  br label %finished
finished:
  %count = getelementptr i64, ptr %job, i64 {FINISHED}
  %before = atomicrmw add ptr %count, i64 1 release
  br label %look
done:
  ret void
}}"""


_SHARE = f"""
define internal void @share(ptr %job, i64 %chunks) {{
entry:
  %finished = getelementptr i64, ptr %job, i64 {FINISHED}
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
  ret void
}}"""

_SERVE = f"""
define void @serve(ptr %job, i64 %patience) {{
entry:
  %stop = getelementptr i64, ptr %job, i64 {STOP}
  %busy = getelementptr i64, ptr %job, i64 {BUSY}
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
  %passing = load atomic i64, ptr %busy monotonic, align 8
  %between = icmp eq i64 %passing, 0
  %long = icmp ugt i64 %spins.next, %patience
  %bored = and i1 %long, %between
  %leave = or i1 %stopped, %bored
  br i1 %leave, label %done, label %wait
done:
  ret void
}}"""


def _linear() -> str:
    """Run one job for each part of a weight. A part is six words: see `PART` in kernels."""
    given = ("codes", "sums", "k", "rows", "stride")
    part = {"kind": 0, "weight": 1, "tiles": 2, "chunk": 3, "factor": 5}
    reads = "\n".join(
        f"  %{name}.at = getelementptr i64, ptr %p, i64 {at}\n  %{name} = load i64, ptr %{name}.at, align 8"
        for name, at in part.items()
    )
    values = {name: f"%{name}.i" if name in ("codes", "sums") else f"%{name}" for name in (*given, *part)}
    values["out"] = "%out.i"
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
  br label %part
part:
  %n = phi i64 [0, %entry], [%n.next, %part]
  %place = mul i64 %n, 6
  %p = getelementptr i64, ptr %parts, i64 %place
{reads}
  %channel.at = getelementptr i64, ptr %p, i64 4
  %channel = load i64, ptr %channel.at, align 8
  %out.p = getelementptr float, ptr %out, i64 %channel
  %out.i = ptrtoint ptr %out.p to i64
{writes}
  %rounded = add i64 %tiles, %chunk
  %rounded.less = sub i64 %rounded, 1
  %chunks = udiv i64 %rounded.less, %chunk
  call void @share(ptr %job, i64 %chunks)
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %count
  br i1 %more, label %part, label %end
end:
  ret void
}}"""
