"""Devices, meshes of them, and shardings: how arrays are spread over devices."""
