"""The kernels, compiled by LLVM for the processor at hand when a model is loaded."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

from engine.kernels import attention_ir, job_ir, products_ir, rows_ir, stack_ir

NEEDED = ("avx2", "fma", "f16c")


class Library:
    """The module, compiled; it lives as long as its functions may be called."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(_source())
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
        )
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        for known in ("loop_unrolling", "loop_vectorization", "loop_interleaving", "slp_vectorization"):
            setattr(options, known, False)  # done by hand where it pays, and time to compile is time to start
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.linear = self._function("linear", pointers=5, numbers=4)
        self.serve = self._function("serve", pointers=1, numbers=1)
        self.attention = self._function("attention", pointers=5, numbers=0)
        self.layers = self._function("layers", pointers=3, numbers=0, floats=1)
        self.normed = self._function("normed", pointers=8, numbers=3, floats=1)
        self.gated = self._function("gated", pointers=5, numbers=3)
        self.rounded = self._function("rounded", pointers=4, numbers=2)

    def _function(self, name: str, pointers: int, numbers: int, floats: int = 0) -> Any:  # noqa: ANN401  (ctypes' types)
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers + [ctypes.c_float] * floats
        return ctypes.CFUNCTYPE(None, *kinds)(self._engine.get_function_address(name))  # calls leave Python's lock


def _source() -> str:
    return "\n".join(part.source() for part in (products_ir, rows_ir, attention_ir, job_ir, stack_ir))


def suits() -> bool:
    """Whether the processor has what the kernels are made of."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return all(features.get(name) for name in NEEDED)
