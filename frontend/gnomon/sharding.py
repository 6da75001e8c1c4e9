"""Shardings: how an array is spread over devices."""

from gnomon._arrays.sharding import Sharding, SingleDeviceSharding

__all__ = ["Sharding", "SingleDeviceSharding"]
