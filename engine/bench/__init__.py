"""The benchmark behind `foretype bench`: known files with holes, a recorded session, and what a pass costs.

All contestants of a suite, peers included, run in one process and in turn on each hole, so that a change of the
machine's mood meets all of them. What is timed is decoding alone: the pass that reads the prompt counts for nobody.
"""
