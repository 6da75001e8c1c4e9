"""Shardings: how an array is distributed over devices."""

from gnomon._api.explicit_axes import auto_axes, explicit_axes, reshard
from gnomon._api.meshes import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from gnomon._config.contexts import no_collectives
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.manual_axis_type import ManualAxisType
from gnomon._sharding.mesh import AbstractDevice, AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import (
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)
from gnomon._transformations.shard_map import Infer

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "Infer",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "no_collectives",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]
