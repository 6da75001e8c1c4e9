"""The graph of a program, laid out in layers: each operation is below those that it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.types import type_of

__all__ = ["laid_out"]

# Larger graphs are unreadable, and slow in a browser.
_MOST_NODES = 400
_SWEEPS = 4
_WIDTH, _HEIGHT, _BETWEEN, _LAYER = 150, 34, 16, 64
_Place = Callable[[str], tuple[int, int] | None]


def laid_out(body: Body, place: _Place) -> dict[str, Any]:
    """A body as nodes and edges with coordinates.

    Args:
      body: a body whose arguments, operations and results become the nodes.
      place: returns the file number and the line of a location, or None.

    Returns:
      A dict of ``width``, ``height``, ``nodes`` (with ``x``, ``y``, ``op``, ``type``, ``file``,
      ``line``) and ``edges`` (pairs of node numbers). If the graph has too many nodes, it is left
      empty, and ``left_out`` is their number.
    """
    nodes: list[dict[str, Any]] = []
    edges: list[tuple[int, int]] = []
    maker: dict[Any, int] = {}

    def add(op: str, type_: str, values: Sequence[Any], where: Any) -> int:
        file, line = where if where else (None, None)
        nodes.append({"op": op, "type": type_, "file": file, "line": line})
        maker.update(dict.fromkeys(values, len(nodes) - 1))
        return len(nodes) - 1

    for i, argument in enumerate(body.arguments):
        add(f"argument {i}", str(type_of(argument)), [argument], None)
    for op in body.operations:
        results = results_of(op)
        types = ", ".join(str(type_of(r)) for r in results)
        number = add(op.name.removeprefix("gnomon."), types, results, place(str(op.location)))
        edges += [(maker[x], number) for x in dict.fromkeys(operands_of(op)) if x in maker]
    for i, result in enumerate(body.results):
        if result in maker:
            edges.append((maker[result], add(f"result {i}", str(type_of(result)), [], None)))
    if len(nodes) > _MOST_NODES:
        return {"nodes": [], "edges": [], "width": 0, "height": 0, "left_out": len(nodes)}
    layers = _layers(len(nodes), edges)
    width = max((len(layer) for layer in layers), default=0) * (_WIDTH + _BETWEEN)
    for depth, layer in enumerate(layers):
        left = (width - len(layer) * (_WIDTH + _BETWEEN)) / 2
        for i, number in enumerate(layer):
            nodes[number] |= {"x": left + i * (_WIDTH + _BETWEEN), "y": depth * _LAYER}
    height = len(layers) * _LAYER
    size = {"node_width": _WIDTH, "node_height": _HEIGHT, "width": width, "height": height}
    return {"nodes": nodes, "edges": edges, "left_out": 0, **size}


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The nodes by depth; within a layer, each is placed close to its neighbours in the graph."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        before[end].append(start)
        after[start].append(end)
    depth = [0] * count
    for number in range(count):  # in program order, so that operands come first
        depth[number] = max((depth[i] + 1 for i in before[number]), default=0)
    for number in reversed(range(count)):  # arguments and constants next to their first use
        if not before[number] and after[number]:
            depth[number] = min(depth[i] for i in after[number]) - 1
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number in range(count):
        layers[depth[number]].append(number)
    for sweep in range(_SWEEPS):
        neighbours = after if sweep % 2 else before
        for layer in reversed(layers) if sweep % 2 else layers:
            position = {n: i / len(row) for row in layers for i, n in enumerate(row)}

            def wanted(
                n: int, near: list[list[int]] = neighbours, at: dict[int, float] = position
            ) -> float:
                places = [at[i] for i in near[n]]
                return sum(places) / len(places) if places else at[n]

            layer.sort(key=wanted)
    return layers
