"""Legalizations of lowered modules run where the ops that they need occur."""

import pytest

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.pipeline import Pipeline
from gnomon.backends.iree.targets import CPU
from gnomon.dialects.mlir import ensure_context, ir

_ABS = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.abs %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


def _legalization(name, needs, run, stage=Stage.LOWERED):
    return Legalization(
        name=name,
        stage=stage,
        kind=Kind.SLOW,
        doc="",
        upstream="",
        no_reproducer="a test",
        run=run,
        needs=frozenset(needs),
    )


def _names_of_those_that_ran(*described):
    """Run legalizations on a module of one ``abs``: (name, ops needed, op written or None)."""
    ran = []

    def make(name, needs, written):
        def run(module, target):
            ran.append(name)
            if written is None:
                return False
            function = module.body.operations[0].operation
            op = function.regions[0].blocks[0].operations[0].operation
            with ir.InsertionPoint(op), op.location:
                ir.Operation.create(
                    written, results=[op.operands[0].type], operands=[op.operands[0]]
                )
            return True

        return _legalization(name, needs, run)

    ensure_context()
    module = ir.Module.parse(_ABS)
    pipeline = Pipeline(CPU, [make(*one) for one in described])
    for step in pipeline._on_module(Stage.LOWERED):
        step.run(module)
    return ran


def test_a_legalization_runs_where_one_of_its_ops_occurs():
    assert _names_of_those_that_ran(
        ("any", (), None),
        ("needed", ("stablehlo.abs", "stablehlo.sine"), None),
        ("other", ("stablehlo.sine",), None),
    ) == ["any", "needed"]


def test_an_op_that_an_earlier_legalization_writes_counts():
    assert _names_of_those_that_ran(
        ("before", ("stablehlo.sine",), None),
        ("writer", ("stablehlo.abs",), "stablehlo.sine"),
        ("after", ("stablehlo.sine",), None),
    ) == ["writer", "after"]


def test_ops_of_stablehlo_are_not_needed_before_the_lowering():
    with pytest.raises(ValueError, match="needs ops of StableHLO, but runs before the lowering"):
        _legalization("early", ("stablehlo.abs",), lambda program, target: None, Stage.FUSE)


@pytest.mark.parametrize(
    "one", [one for one in LEGALIZATIONS if one.needs], ids=lambda one: one.name
)
def test_a_module_without_the_needed_ops_does_not_change(one):
    ensure_context()
    text = _ABS.replace("stablehlo.abs", "stablehlo.add").replace("add %x", "add %x, %x")
    module = ir.Module.parse(text)
    before = str(module)
    assert one.run(module, CPU) is False
    assert str(module) == before


def test_legalizations_say_that_they_have_changed_a_module():
    ensure_context()
    module = ir.Module.parse(
        """
        func.func @main(%x: tensor<2xf32>) -> tensor<1x2xf32> {
          %y = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<1x2xf32>
          %z = stablehlo.abs %y : tensor<1x2xf32>
          return %z : tensor<1x2xf32>
        }
        """
    )
    (one,) = [one for one in LEGALIZATIONS if one.name == "moved-functions"]
    assert one.run(module, CPU) is True
    assert one.run(module, CPU) is False
