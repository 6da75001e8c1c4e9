"""What gnomon knows of IREE that is not in IREE's interface.

Only modules of this package, and `gnomon_runtime.inside`, use private names of IREE, the operations
of its dialects between the compiler's phases, and the layout of its structures. All of it may
change in the next minor version, so `versions` refuses others than the tested one. The page
docs/iree.md lists the modules with what they gain, and what happens without them.
"""
