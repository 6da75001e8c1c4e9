"""The ops without a form in the gnomon dialect, with the reasons."""

from gnomon.dialects.raising.source import refuse

refuse(
    "the program exchanges data with other devices; gnomon imports programs for one device",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "async_done",
    "async_start",
    "collective_broadcast",
    "collective_permute",
    "collective_reduce",
    "partition_id",
    "recv",
    "reduce_scatter",
    "replica_id",
    "sdy.manual_computation",
    "send",
)
refuse(
    "the program exchanges data with its host while it runs, which no target of gnomon does",
    "infeed",
    "outfeed",
)
refuse(
    "its values are up to the compiler: use rng_bit_generator, or pass random numbers as arguments",
    "rng",
)
refuse(
    "the gnomon dialect has no quantized types; express the program with integers and scales",
    "uniform_dequantize",
    "uniform_quantize",
)
refuse(
    "the sizes of values are part of their types and cannot change while a program runs",
    "set_dimension_size",
)
refuse("it is a part of the expansion of asin and acos: keep those ops", "chlo._asin_acos_kernel")
