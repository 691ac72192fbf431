"""The command line: what goes to which stream, how a place in a file is counted, what a mistake costs."""

from __future__ import annotations

import codecs
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from engine import Engine
from engine.cli import main
from engine.errors import RequestError
from engine.location import offset_of, parse_location, read_text
from engine.tokenizer import CodeTokenizer

SOURCE = "import math\n\n\ndef area(radius):\n    return math.pi * \n\n\nprint(area(2))\n"
PLACE = "5:22"  # after `math.pi * `
SEEDS = range(40)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache folder that is not the user's, shared by the tests so that a model is converted once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _away_from_home(cache, monkeypatch, tmp_path):
    """Keep away from the user's cache and run in an empty folder."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: cache / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "shapes.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def run(tiny):
    """Call `foretype complete` with the tiny model and few tokens."""

    def invoke(location: object, *options: str) -> Result:
        fixed = ["--profile", "cpu-small", "--target", str(tiny), "--max-tokens", "16"]
        return CliRunner().invoke(main, ["complete", str(location), *fixed, *options])

    return invoke


def reply(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def prompt_text(tiny: Path, answer: dict) -> str:
    """The prompt as text: control tokens have none."""
    tokenizer = CodeTokenizer(json.loads((tiny / "tokenizer.json").read_text(encoding="utf-8")))
    return tokenizer.decode_bytes(answer["prompt_token_ids"]).decode()


def test_only_the_text_goes_to_standard_output(source, run):
    """Standard output holds the completion's bytes and nothing else; progress goes to standard error."""
    text = reply(run(f"{source}:{PLACE}", "--json"))["text"]
    result = run(f"{source}:{PLACE}")
    assert text
    assert result.stdout_bytes == text.encode()
    assert "loading" in result.stderr


def test_the_object_has_the_documented_keys(source, run):
    """`--json` prints one object with exactly the documented keys, and its counts agree with each other."""
    result = run(f"{source}:{PLACE}", "--json")
    answer = reply(result)
    assert result.stdout.count("\n") == 1
    assert sorted(answer) == ["finish_reason", "prompt_token_ids", "stats", "text", "token_ids"]
    stats = answer["stats"]
    assert list(stats) == [
        "prompt_tokens",
        "reused_tokens",
        "computed_tokens",
        "target_passes",
        "drafted",
        "accepted",
        "mean_acceptance_length",
        "ms",
    ]
    assert sorted(stats["ms"]) == ["draft", "first_token", "load", "overhead", "prefill", "total", "verify"]
    assert stats["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert stats["reused_tokens"] + stats["computed_tokens"] == stats["prompt_tokens"]
    assert all(isinstance(i, int) for i in answer["token_ids"])
    assert answer["finish_reason"] in ("stop", "length", "line", "block", "suffix")
    assert all(value >= 0 for value in stats["ms"].values())


def test_the_object_is_plain_ascii(source, run):
    """Whatever the model writes, the object can be printed on a terminal of any encoding and read back."""
    for seed in SEEDS:
        result = run(f"{source}:{PLACE}", "--json", "--temperature", "3", "--seed", str(seed))
        assert result.stdout.isascii()
        if not reply(result)["text"].isascii():
            return
    pytest.fail("no text beyond ASCII was sampled, so nothing was tested")


def test_the_trace_has_a_row_for_each_round(source, run, tiny_draft):
    """`--trace` writes a table with one row per target pass to standard error, and the counts below it."""
    result = run(f"{source}:{PLACE}", "--trace", "--json", "--draft", str(tiny_draft))
    stats = reply(result)["stats"]
    rounds = [int(n) for n in re.findall(r"^\s*(\d+)\s+(?:lookup|draft model|none)\s", result.stderr, re.MULTILINE)]
    assert rounds == list(range(1, stats["target_passes"] + 1))
    assert f"in {stats['target_passes']} target passes" in result.stderr
    assert f"prompt {stats['prompt_tokens']} tokens: 0 reused" in result.stderr
    assert "rounds:" not in run(f"{source}:{PLACE}").stderr


def test_a_seed_stands_for_a_text(source, run, tiny_draft):
    """At temperature 0.8 a seed gives the same text with no drafter and with both, and another seed another."""

    def text(seed: int, drafters: str) -> str:
        options = ["--temperature", "0.8", "--seed", str(seed), "--drafters", drafters, "--draft", str(tiny_draft)]
        return run(f"{source}:{PLACE}", *options).stdout

    plain = {seed: text(seed, "none") for seed in range(4)}
    assert {seed: text(seed, "lookup,model") for seed in range(4)} == plain
    assert len(set(plain.values())) > 1


def test_greedy_takes_no_notice_of_the_seed(source, run):
    """Without a temperature every seed gives the one greedy text."""
    assert run(f"{source}:{PLACE}", "--seed", "1").stdout == run(f"{source}:{PLACE}", "--seed", "2").stdout


@pytest.fixture
def two_lines(tmp_path, run):
    """A place, options that sample a text of several lines there, and that text."""
    path = tmp_path / "top.py"
    path.write_text("x = 1\n")
    for seed in SEEDS:
        options = ("--temperature", "1.5", "--seed", str(seed))
        text = run(f"{path}:2:1", *options).stdout
        if "\n" in text.strip("\n"):
            return path, options, text
    raise AssertionError("no sampled text has two lines; choose other seeds")


def test_a_single_line_ends_at_its_break(run, two_lines):
    """`--single-line` gives the first line of what would have been several."""
    path, options, text = two_lines
    answer = reply(run(f"{path}:2:1", *options, "--single-line", "--json"))
    assert answer["text"] == text.split("\n")[0]
    assert answer["finish_reason"] == "line"


def test_line_breaks_are_the_files_own(run, two_lines):
    """A CRLF file is the same question as its LF twin, and the answer comes back with CRLF."""
    path, options, text = two_lines
    lf = reply(run(f"{path}:2:1", *options, "--json"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    crlf = reply(run(f"{path}:2:1", *options, "--json"))
    assert crlf["prompt_token_ids"] == lf["prompt_token_ids"]
    assert crlf["text"] == text.replace("\n", "\r\n")
    assert run(f"{path}:2:1", *options).stdout_bytes == text.replace("\n", "\r\n").encode()


def test_a_place_in_a_crlf_file_is_that_of_its_lines(source, run):
    """Lines and columns in the middle of a CRLF file lead to the same prompt as in its LF twin."""
    for place in (PLACE, "4:1", "5:9", "9:1"):
        source.write_text(SOURCE)
        lf = reply(run(f"{source}:{place}", "--json"))
        source.write_bytes(SOURCE.replace("\n", "\r\n").encode())
        assert reply(run(f"{source}:{place}", "--json"))["prompt_token_ids"] == lf["prompt_token_ids"]


def test_a_byte_order_mark_counts_for_nothing(source, run):
    """A byte-order mark shifts no column, not even in the first line, and is not shown to the model."""
    for place in (PLACE, "1:7"):
        source.write_text(SOURCE)
        bare = reply(run(f"{source}:{place}", "--json"))
        source.write_bytes(codecs.BOM_UTF8 + SOURCE.encode())
        assert reply(run(f"{source}:{place}", "--json"))["prompt_token_ids"] == bare["prompt_token_ids"]


def test_columns_count_characters(tmp_path, run, tiny):
    """An emoji, an accent or a tab before the cursor is one column each, whatever its bytes or UTF-16 units."""
    path = tmp_path / "signs.py"
    path.write_text("\tx = '🦀é'; y = MARK\n", encoding="utf-8")
    shown = prompt_text(tiny, reply(run(f"{path}:1:16", "--json")))
    assert "MARK" in shown  # right of the cursor
    assert re.search(r"MARK\s+\tx = '🦀é'; y =?$", shown)


def test_a_colon_in_a_path_is_part_of_it(tmp_path, run):
    """Line and column are split off from the right."""
    path = tmp_path / "a:1.py"
    path.write_text(SOURCE)
    assert run(f"{path}:{PLACE}").exit_code == 0


def test_buffers_are_shown_to_the_model(tmp_path, source, run, tiny):
    """Each `--buffer` adds an open file to the prompt, named as the user would name it and never by its whole path."""
    (tmp_path / "sub").mkdir()
    near, far = tmp_path / "sub" / "near.py", tmp_path.parent / f"{tmp_path.name}-far.py"
    near.write_text("def area_of_near(radius):\n    return math.pi * radius\n")
    far.write_text("def area_of_far(radius):\n    return math.pi * radius\n")
    alone = prompt_text(tiny, reply(run(f"{source}:{PLACE}", "--json")))
    shown = prompt_text(tiny, reply(run(f"{source}:{PLACE}", "--json", "--buffer", str(near), "--buffer", str(far))))
    assert "area_of_near" not in alone
    assert "sub/near.py\n" in shown
    assert f"{far.name}\n" in shown
    assert str(tmp_path.parent) not in shown
    assert "area_of_near" in shown
    assert "area_of_far" in shown


MISTAKES = {
    "no numbers": ("{file}", [], "is no PATH:LINE:COL"),
    "one number": ("{file}:3", [], "is no PATH:LINE:COL"),
    "line zero": ("{file}:0:1", [], "both numbers count from 1"),
    "a word": ("{file}:one:1", [], "is no PATH:LINE:COL"),
    "other digits": ("{file}:²:1", [], "is no PATH:LINE:COL"),
    "line beyond": ("{file}:99:1", [], "shapes.py has 9 lines, line 99 does not exist"),
    "column beyond": ("{file}:1:13", [], "line 1 of {file} has 11 characters, so columns reach 12, not 13"),
    "folder": ("{folder}:1:1", [], "is a folder; give the path of a text file"),
    "missing": ("{folder}/none.py:1:1", [], "none.py does not exist"),
    "below a file": ("{file}/x.py:1:1", [], "x.py cannot be read"),
    "Latin-1": ("{folder}/latin.py:1:1", [], "latin.py is not UTF-8 text"),
    "profile": ("{file}:1:1", ["--profile", "huge"], "profile is 'huge'; set it to one of auto, cpu-small"),
    "drafter": ("{file}:1:1", ["--drafters", "lookup,magic"], "drafters has 'magic'"),
    "no drafter": ("{file}:1:1", ["--drafters", ""], "drafters has ''"),
    "dtype": ("{file}:1:1", ["--dtype", "int4"], "dtype is 'int4'"),
    "device": ("{file}:1:1", ["--device", "tpu"], "device is 'tpu'"),
    "max tokens": ("{file}:1:1", ["--max-tokens", "-1"], "max_tokens is -1"),
    "temperature": ("{file}:1:1", ["--temperature", "-0.5"], "temperature is -0.5"),
    "top p": ("{file}:1:1", ["--top-p", "0"], "top_p is 0.0"),
    "top k": ("{file}:1:1", ["--top-k", "-2"], "top_k is -2"),
    "seed": ("{file}:1:1", ["--seed", "-3"], "seed is -3"),
    "target": ("{file}:1:1", ["--target", "{folder}/no/model"], "model does not exist"),
    "buffer": ("{file}:1:1", ["--buffer", "{folder}/none.py"], "none.py does not exist"),
    "buffer folder": ("{file}:1:1", ["--buffer", "{folder}"], "is a folder"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_one_sentence(source, run, tmp_path, name):
    """A mistake gives exit code 1, one sentence with its remedy on standard error, and nothing on standard output."""
    (tmp_path / "latin.py").write_bytes("größe = 1\n".encode("latin-1"))
    location, options, fault = MISTAKES[name]
    names = {"file": str(source), "folder": str(tmp_path)}
    result = run(location.format(**names), *(option.format(**names) for option in options))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert fault.format(**names) in result.stderr
    assert "; " in result.stderr or ", so " in result.stderr


def test_a_broken_draft_is_noted_and_the_text_comes(source, run, tmp_path):
    """A draft that is not there is said in one line on standard error; the text is that of the target alone."""
    broken = run(f"{source}:{PLACE}", "--draft", str(tmp_path / "no" / "[red]draft[/red]"))
    assert broken.exit_code == 0
    (note,) = [line for line in broken.stderr.splitlines() if line.startswith("note: ")]
    assert "[red]draft[/red] does not exist" in note
    assert broken.stdout == run(f"{source}:{PLACE}", "--drafters", "none").stdout


def test_an_interrupt_is_quiet(source, run, monkeypatch):
    """Ctrl-C ends with the customary code and no trace."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "load", stop)
    result = run(f"{source}:{PLACE}")
    assert result.exit_code == 130
    assert result.output == ""


def test_a_log_level_that_does_not_exist_is_said(source, run, monkeypatch):
    """A level nobody knows is named, and the command runs all the same."""
    monkeypatch.setenv("FORETYPE_LOG", "loud")
    result = run(f"{source}:{PLACE}")
    assert result.exit_code == 0
    assert "FORETYPE_LOG is 'LOUD'; use DEBUG, INFO, WARNING or ERROR" in result.stderr


# In a process of its own


def foretype(cache: Path, *arguments: str, **options) -> subprocess.CompletedProcess[bytes]:
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": root, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-W", "error::DeprecationWarning:engine", "-m", "engine", *arguments]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False, **options)


def test_the_version_is_printed(cache):
    """`python -m engine --version` works installed or from a source tree."""
    done = foretype(cache, "--version", capture_output=True)
    assert done.returncode == 0
    assert re.fullmatch(rb"foretype, version \S.*\n", done.stdout)
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches where no variable says so")
def test_a_whole_process_completes(cache, source, run, tiny):
    """Run as a program, with an output that only knows ASCII, the same UTF-8 text comes and nothing else."""
    options = ["--profile", "cpu-small", "--target", str(tiny), "--max-tokens", "16", "--temperature", "3"]
    for seed in SEEDS:
        wanted = run(f"{source}:{PLACE}", "--temperature", "3", "--seed", str(seed)).stdout_bytes
        if not wanted.isascii():
            break
    else:
        pytest.fail("no text beyond ASCII was sampled, so nothing was tested")
    done = foretype(cache, "complete", f"{source}:{PLACE}", *options, "--seed", str(seed), capture_output=True)
    assert done.returncode == 0
    assert done.stdout == wanted
    known = ("loading ", "measuring passes")
    assert [line for line in done.stderr.decode().splitlines() if not line.startswith(known)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="pipes and caches of Linux")
def test_a_reader_that_leaves_is_no_error(cache, source, tiny):
    """When the reader of a pipe has gone, the command ends without a trace."""
    reading, writing = os.pipe()
    os.close(reading)
    options = ["--profile", "cpu-small", "--target", str(tiny), "--max-tokens", "16"]
    place = f"{source}:{PLACE}"
    done = foretype(cache, "complete", place, *options, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


# Places in files


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("a.py:3:4", ("a.py", 3, 4)),
        (r"C:\code\a.py:12:5", (r"C:\code\a.py", 12, 5)),
        ("odd:name:1:2.py:7:1", ("odd:name:1:2.py", 7, 1)),
        ("a b.py:1:1", ("a b.py", 1, 1)),
    ],
)
def test_a_location_is_split_from_the_right(location, parts):
    """What stands before the last two colons is the path, drive letter and all."""
    path, line, column = parse_location(location)
    assert (str(path), line, column) == (str(Path(parts[0])), *parts[1:])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_place_of_a_text_has_its_offset(end):
    """Lines and columns lead to the character that stands there, for each kind of line break."""
    lines = ["abc", "", "🦀é\tx", "\x0c form feed", "par\u2028agraph", ""]
    text = end.join(lines)
    for number, line in enumerate(lines, 1):
        for column in range(1, len(line) + 2):
            at = offset_of(text, number, column, Path("a.py"))
            assert text[:at].split(end) == [*lines[: number - 1], line[: column - 1]]
        with pytest.raises(RequestError, match=f"columns reach {len(line) + 1}, not {len(line) + 2}"):
            offset_of(text, number, len(line) + 2, Path("a.py"))
    with pytest.raises(RequestError, match="has 6 lines, line 7 does not exist"):
        offset_of(text, 7, 1, Path("a.py"))


def test_an_empty_file_has_one_place():
    """An empty text has line 1 with column 1 and no other."""
    assert offset_of("", 1, 1, Path("a.py")) == 0
    for line, column in ((1, 2), (2, 1)):
        with pytest.raises(RequestError):
            offset_of("", line, column, Path("a.py"))


def test_an_empty_file_completes(tmp_path, run):
    """An empty file is a question like any other."""
    (tmp_path / "empty.py").write_bytes(b"")
    assert run(f"{tmp_path / 'empty.py'}:1:1").exit_code == 0


def test_reading_keeps_line_breaks(tmp_path):
    """Text is read as it is but for a byte-order mark at its start."""
    path = tmp_path / "a.txt"
    path.write_bytes(codecs.BOM_UTF8 + b"a\r\nb\rc\n\xef\xbb\xbfd")
    assert read_text(path) == "a\r\nb\rc\n\ufeffd"


# The doctor


def test_the_doctors_object_has_the_documented_keys(cache):
    """`doctor --json` prints one object that names machine, versions, models and the profile `auto` takes."""
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert list(report) == [
        "device",
        "processor",
        "threads",
        "cores",
        "memory_gib",
        "free_memory_gib",
        "vram_gib",
        "card",
        "int8",
        "platform",
        "python",
        "versions",
        "models_folder",
        "profiles",
        "auto",
    ]
    assert report["models_folder"] == str(cache / "foretype" / "models")
    assert set(report["int8"]) == {"codec", "how"}
    assert set(report["versions"]) >= {"foretype", "torch", "transformers", "bitsandbytes", "pygls"}
    assert report["auto"]["profile"] in report["profiles"]
    for rows in report["profiles"].values():
        assert rows
        assert all(list(row) == ["name", "bytes", "state", "verified"] for row in rows)
    assert {row["state"] for rows in report["profiles"].values() for row in rows} == {"missing"}


def test_the_doctor_sees_a_file_that_is_only_begun(cache):
    """A model that lies there in part is called partial, not missing and not present."""
    folder = cache / "foretype" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    begun = folder / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf.partial"
    begun.write_bytes(b"GGUF")
    report = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    begun.unlink()
    assert [(row["state"], row["verified"]) for row in report["profiles"]["cpu-small"]] == [("partial", False)]


def test_the_doctor_prints_for_people(cache):
    """Without `--json` the same facts come as tables on standard output."""
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    for fact in ("device", "GiB free", "codes", "torch", "cpu-small", "missing"):
        assert fact in shown


def test_every_command_explains_itself():
    """Each command has help, and every option in it a text."""
    assert set(main.commands) == {"complete", "pull", "doctor", "bench"}
    for name, command in main.commands.items():
        assert CliRunner().invoke(main, [name, "-h"]).exit_code == 0
        assert command.help
        assert all(p.help for p in command.params if isinstance(p, click.Option))
