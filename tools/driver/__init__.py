"""``gnomon``: the compiler driver.

    gnomon compile model.py:loss --grad --emit asm               # to an executable, or a stage
    gnomon run model.py:loss --input x.npy --output y.npz        # or --benchmark
    gnomon inspect model.py:loss                                 # signature, cost, ops by stage
    gnomon explore model.py:loss                                 # every stage, as an HTML page
    gnomon diff old.mlir new.mlir                                # what differs between two programs
    gnomon devices | targets | doctor | version                  # this machine, and other ones
    gnomon cache list | size | prune | clear                     # the executables kept on disk
    gnomon opt ...                                               # `gnomon-opt`: single passes
    gnomon completion bash                                       # for the shell

docs/driver.md has a transcript of each command. `command_line` defines the options; each other
module implements one command, or a part that several commands share.
"""

from gnomon.tools.driver.command_line import main

__all__ = ["main"]
