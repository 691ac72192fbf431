"""Compiled kernels of the CPU forward: products with weights in groups, attention, and what stands between.

LLVM compiles them when a model is loaded, in under a second, for the processor at hand; nothing is needed but the
package llvmlite. The files named `_ir` write LLVM assembly. Where the processor or the package is not there,
`find_kernels` says None, and torch's operators do the same work.
"""
