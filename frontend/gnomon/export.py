"""Exported functions, which can be stored in files and called in other processes.

`export` traces a jitted function for given types; its result can be called, differentiated and
serialized. `save` writes functions with modules compiled for chosen targets into one file.
`gnomon.load` loads the file; without the compiler, `gnomon_runtime.load` does.
"""

from gnomon._export.deserialization import deserialize, load_exported
from gnomon._export.exported import CALLING_CONVENTION_VERSION, Exported
from gnomon._export.exporting import default_export_platform, export
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.saving import save
from gnomon._export.structures import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)
from gnomon._export.symbolic import symbolic_args_specs, symbolic_dim_bounds, symbolic_shape
from gnomon.dialects.symbolic.dimension import SymbolicScope, is_symbolic_dim

minimum_supported_calling_convention_version = CALLING_CONVENTION_VERSION
maximum_supported_calling_convention_version = CALLING_CONVENTION_VERSION

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "load_exported",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "save",
    "symbolic_args_specs",
    "symbolic_dim_bounds",
    "symbolic_shape",
]
