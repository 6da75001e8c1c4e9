"""Structures as data."""

from __future__ import annotations

import collections

import pytest

import gnomon_runtime as gr
from gnomon_runtime.tree import TreeFormatError

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("*", 1),
        (None, None),
        ({"tuple": []}, ()),
        ({"tuple": ["*", {"list": ["*", None]}]}, (1, [2, None])),
        ({"dict": [["a", "*"], [3, "*"], [True, "*"]]}, {"a": 1, 3: 2, True: 3}),
        ({"ordered_dict": [["b", "*"], ["a", "*"]]}, collections.OrderedDict(b=1, a=2)),
    ],
)
def test_a_value_is_split_and_joined(data, value) -> None:
    tree = gr.Tree(data)
    leaves = tree.flatten(value)
    assert tree.num_leaves == len(leaves) == len(tree.paths())
    again = tree.unflatten(leaves)
    assert again == value
    assert type(again) is type(value)


def test_named_tuples_have_the_fields_and_the_name() -> None:
    tree = gr.Tree({"namedtuple": "tests.Point", "fields": ["x", "y"], "children": ["*", "*"]})
    assert tree.flatten(Point(1, 2)) == [1, 2]
    again = tree.unflatten([1, 2])
    assert (again.x, again.y, type(again).__name__) == (1, 2, "Point")
    assert tree.paths() == [".x", ".y"]
    with pytest.raises(TypeError, match=r"must be tests\.Point"):
        tree.flatten((1, 2))
    with pytest.raises(TypeError, match="must be"):
        gr.Tree({"tuple": ["*", "*"]}).flatten(Point(1, 2))
    gr.register_namedtuple("tests.Point", Point)
    assert type(tree.unflatten([1, 2])) is Point
    with pytest.raises(ValueError, match="already registered"):
        gr.register_namedtuple("tests.Point", Point)


class Pair:
    def __init__(self, first, second, scale: int) -> None:
        self.parts, self.scale = (first, second), scale


def test_registered_classes() -> None:
    data = {"node": "tests.Pair", "data": "Mg==", "children": ["*", "*"]}
    tree = gr.Tree(data)
    with pytest.raises(TypeError, match=r"registered as 'tests\.Pair'"):
        tree.flatten(Pair(1, 2, 2))
    opaque = tree.unflatten([1, 2])
    assert opaque == gr.Opaque("tests.Pair", b"2", (1, 2))
    assert tree.flatten(opaque) == [1, 2]
    node = gr.Node(
        Pair,
        lambda p: (p.parts, str(p.scale).encode()),
        lambda rest, parts: Pair(*parts, int(rest)),
    )
    gr.register_node("tests.Pair", node)
    assert tree.flatten(Pair(1, 2, 2)) == [1, 2]
    again = tree.unflatten([3, 4])
    assert (again.parts, again.scale) == ((3, 4), 2)
    with pytest.raises(TypeError, match="static fields"):
        tree.flatten(Pair(1, 2, 3))
    with pytest.raises(TypeError, match="instance of Pair"):
        tree.flatten((1, 2))
    with pytest.raises(ValueError, match="already registered"):
        gr.register_node("tests.Pair", node)


@pytest.mark.parametrize(
    ("data", "value", "message"),
    [
        ({"tuple": ["*"]}, [1], r"x must be \(\*,\), got list"),
        ({"tuple": ["*"]}, (1, 2), "x must have 1 parts, got 2"),
        ({"list": [{"dict": [["a", "*"]]}]}, [{"b": 1}], r"x\[0\] has the keys"),
        ({"list": [None]}, [1], r"x\[0\] must be None"),
    ],
)
def test_a_value_of_another_structure_is_refused(data, value, message) -> None:
    with pytest.raises(TypeError, match=message):
        gr.Tree(data).flatten(value, "x")


@pytest.mark.parametrize(
    "data",
    [
        7,
        True,
        "leaf",
        {},
        [],
        {"set": []},
        {"tuple": "ab"},
        {"tuple": [], "list": []},
        {"dict": [["a"]]},
        {"dict": [[1.5, "*"]]},
        {"dict": [["a", "*"], ["a", "*"]]},
        {"namedtuple": "P", "fields": ["x"], "children": []},
        {"namedtuple": "P", "fields": ["x", "x"], "children": ["*", "*"]},
        {"namedtuple": "P", "fields": ["class"], "children": ["*"]},
        {"namedtuple": "P", "fields": ["__init__"], "children": ["*"]},
        {"namedtuple": 3, "fields": ["x"], "children": ["*"]},
        {"node": "P", "data": "?", "children": []},
        {"node": 1, "data": "", "children": []},
    ],
)
def test_other_data_is_not_a_structure(data) -> None:
    with pytest.raises(TreeFormatError):
        gr.Tree(data)


def test_an_infinite_structure_is_refused() -> None:
    data = "*"
    for _ in range(300):
        data = {"list": [data]}
    with pytest.raises(TreeFormatError, match="deeper"):
        gr.Tree(data)
