"""Cumulative sums of many elements, block by block; see `backends/long_sums.py`."""

from __future__ import annotations

from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.backends.long_sums import cumulative_rules

__all__ = ["LEGALIZATIONS"]

LEGALIZATIONS = (
    Legalization(
        name="cumulative-sums",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="accumulate many elements block by block",
        upstream="IREE 3.13 adds elements one after another: a cumulative sum of 20 million ones "
        "ends with 16777216",
        texts=("long_sums",),
        reproducer="a cumulative sum of a million times 1e-6 ends with 1.009",
        rules=always(cumulative_rules(rounded)),
    ),
)
