"""Devices, meshes of them, and shardings: how arrays are distributed over devices."""
