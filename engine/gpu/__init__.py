"""The CUDA path: 4-bit, 8-bit and 16-bit weights, static caches, and passes recorded as graphs.

Everything but the graphs and the Triton kernels runs on a CPU too, through the same code: that is how it is tested.
"""
