"""The last stages of a function compiled ahead of time: `Lowered` and `Compiled`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from gnomon import tree_util
from gnomon._arrays.concrete import committed_device
from gnomon._compilation.ahead_of_time import CompiledForTarget
from gnomon._compilation.arguments import Call
from gnomon._compilation.donation import usable_donations
from gnomon._compilation.entry import Entry, MeshEntry, PlacedEntry, ShardedEntry
from gnomon._compilation.explorer import ExplorerPage, explore
from gnomon._compilation.shardings import Shardings
from gnomon._compilation.stages import Stage, aval_of
from gnomon._config.current import config
from gnomon._sharding.device import HOST, Device, compiler_of, in_host_memory, is_described
from gnomon._sharding.device_group import is_spread
from gnomon._sharding.layout import row_major
from gnomon._sharding.sharding import Sharding, SingleDeviceSharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.evaluation import check_execution
from gnomon._tracing.function import Traced, has_float0, without_float0
from gnomon._tracing.partitioned import on_mesh, sharded_executable
from gnomon._tracing.shardings import sharding_in
from gnomon._tracing.trace import is_tracer
from gnomon.backends.compilation import Artifact, Stages, verified
from gnomon.backends.interface import Executable, lower_to_run
from gnomon.dialects.mlir import context, ensure_context, ir

__all__ = ["Compiled", "Lowered", "no_compiler_options"]

Options = dict[str, Any] | None


def no_compiler_options(what: str, options: Options) -> None:
    """Raise `NotImplementedError` if compiler options are given, which are XLA's."""
    if options:
        raise NotImplementedError(
            f"{what}: compiler_options {sorted(options)} are XLA's and are not supported; omit "
            "them (docs/devices.md and docs/targets.md list the supported choices)"
        )


class Lowered(Stage):
    """A traced and lowered function, ready to be compiled."""

    def __init__(
        self,
        fun: Callable[..., Any],
        traced: Traced,
        call: Call,
        place: tuple[Device, bool],
        shardings: Shardings,
        keep_stages: bool,
        donated: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(call, traced)
        self._shardings = shardings
        self._device, self._committed = place
        self._fun = fun
        self._donated = usable_donations(call, traced.avals) if donated is None else donated
        program = traced.program
        program.add("main", traced.body, public=True)
        program.rename(f"jit_{traced.name}")
        self._signature = program.signature("main")
        if is_described(self._device) or is_spread(self._device):
            shardings.annotate(program)
        with verified(config.enable_checks):
            backend = self._backend = compiler_of(self._device)
            self._artifact: Artifact = (
                backend.lower(program, keep_stages=True)
                if keep_stages
                else lower_to_run(backend, program)
            )

    @property
    def stages(self) -> Stages:
        """The program's text at each stage."""
        return self._artifact.stages

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The program as MLIR.

        Args:
          dialect: the stage: ``"traced"`` (transformations are ops), ``"gnomon"`` (transformations
            expanded), ``"legalized"`` (rewritten for the backend) or ``"stablehlo"``.
          debug_info: whether to include the user's source locations, and the names of
            `named_scope`.
        """
        names = {"gnomon": "expanded"}
        stage = names.get(dialect, dialect)
        if stage not in vars(self.stages):
            raise ValueError(
                f"as_text: there is no stage {dialect!r}; the stages are 'traced', 'gnomon', "
                "'legalized', 'stablehlo'"
            )
        text = getattr(self.stages, stage)
        return str(text.located if debug_info else text.plain)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program as a module of the MLIR bindings, with source locations.

        Args:
          dialect: the stage, see `as_text`; StableHLO by default.
        """
        text = self.as_text(dialect or "stablehlo", debug_info=True)
        ensure_context()
        return ir.Module.parse(text, context=context())

    def explore(self, *, target: str | None = None, code: bool = True) -> ExplorerPage:
        """One HTML page with the user's source next to every stage of the program.

        Each line is linked with the operations that it became, up to kernels and assembly where
        IREE compiles the program. The page also shows what each pass changed, an estimate of the
        cost of each line, and the program as a graph. A notebook displays it; ``save`` writes it
        to a file.

        Args:
          target: the target to lower for, see `compile`; by default the device of the arguments.
          code: whether to compile the program as well, to show its kernels and assembly.
        """
        target = target or self._device.platform
        text = self.stages.traced.located
        return explore(self._traced.name, text, self._traced.captures, target, code=code)

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of the cost of a call, before the compiler has fused anything.

        Returns:
          ``"flops"``, the numbers that arithmetic, comparisons and conversions compute;
          ``"transcendentals"``, the evaluations of functions such as exp and sqrt;
          ``"bytes accessed"``, those of arguments, results, and of what kernels pass to others;
          and ``"dispatches"``, the number of kernels launched one after another. The body of a
          loop counts once per iteration, or a hundred times if the number of iterations is not
          known.
        """
        return self._artifact.cost.analysis()

    @overload
    def compile(self, compiler_options: Options = None, *, target: None = None) -> Compiled: ...
    @overload
    def compile(self, compiler_options: Options = None, *, target: str) -> CompiledForTarget: ...
    def compile(
        self, compiler_options: Options = None, *, target: str | None = None
    ) -> Compiled | CompiledForTarget:
        """Compile for the device of the arguments, or for a target that this machine may lack.

        For devices of `gnomon.experimental.topologies`, the result is as for a target: it reports
        memory and costs and can be serialized, but does not run here.

        Args:
          compiler_options: must be None or empty: XLA's options do not apply here.
          target: ``"cuda:sm_90"``, ``"rocm:gfx942"``, ``"vulkan"``, ``"metal"``,
            ``"aarch64-linux"``, ``"tpu:v5e:2x2"``, ... (docs/targets.md).
        Raises:
          ValueError: there is no such target.
          UnsupportedOnTarget: the target does not support an op or a dtype of the program.
        """
        no_compiler_options("compile", compiler_options)
        self._shardings.report_inspections(self._device)
        if target is not None:
            return self._compile_for(target)
        if is_described(self._device):
            backend: Any = self._device.backend
            return self._compile_for(backend.target)
        device, donated = self._device, self._donated
        if in_host_memory(device):
            executable = self._backend.compile(self._artifact, device=HOST)
        else:
            executable = self._backend.compile(self._artifact, device=device, donate=donated)
        if device is HOST and not self._committed:
            return Compiled(self, executable, Entry(executable, self._traced, donated))
        entry: PlacedEntry
        outs = self._shardings.outs
        if outs is not None and is_spread(device):
            return self._compiled_on_mesh(executable, outs)
        if outs is not None:
            entry = ShardedEntry(executable, self._traced, donated, device, outs)
        else:
            entry = PlacedEntry(executable, self._traced, donated, device, self._committed)
        return Compiled(self, executable, entry)

    def _compiled_on_mesh(self, partitioned: Any, outs: Sequence[Sharding]) -> Compiled:
        """The program for all devices of a mesh, for devices that do not share memory."""
        shardings, mesh = self._shardings, self._shardings.mesh
        assert mesh is not None
        arguments, results = self._signature
        input_shardings = [*shardings.ins, *shardings.captured]
        ins = [on_mesh(s, mesh, t.rank) for s, t in zip(input_shardings, arguments, strict=True)]
        executable = sharded_executable(
            partitioned,
            mesh,
            list(zip(ins, arguments, strict=True)),
            list(zip(outs, results, strict=True)),
        )
        entry = MeshEntry(executable, self._traced, self._donated, self._device, ins, outs)
        return Compiled(self, executable, entry)

    def _compile_for(self, target: str) -> CompiledForTarget:
        donated, closed = self._donated, self._traced._replace(captures=[])

        def bind(executable: Executable, device: Device) -> Compiled:
            entry = PlacedEntry(executable, closed, donated, device, device is not HOST)
            return Compiled(self, executable, entry, device)

        text = self.stages.traced.located
        captures = self._traced.captures
        if not is_described(self._device):
            return CompiledForTarget(target, text, captures, donated, bind)
        here = self._shardings.whole or SingleDeviceSharding(self._device)
        outs = self._shardings.outs or [here] * self.out_tree.num_leaves
        shardings = (
            tree_util.tree_unflatten(self.in_tree, [s or here for s in self._shardings.ins]),
            tree_util.tree_unflatten(self.out_tree, outs),
        )
        return CompiledForTarget(target, text, captures, donated, bind, shardings)


class Compiled(Stage):
    """A function compiled for one signature; call it with arguments of exactly that signature."""

    def __init__(
        self, lowered: Lowered, executable: Executable, entry: Entry, device: Device | None = None
    ) -> None:
        super().__init__(lowered._call, lowered._traced)
        self._lowered = lowered
        self._device = device or lowered._device
        self.executable = executable
        self.entry = entry

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The program as MLIR; see `Lowered.as_text`."""
        return self._lowered.as_text(dialect, debug_info=debug_info)

    def serialize(self) -> bytes:
        """The compiled program: for IREE's targets a ``.vmfb``, which its runtime loads.

        The bytes contain the arrays that the function closes over.

        Raises:
          ValueError: the program calls Python.
        """
        serialize = getattr(self.executable, "serialize", None)
        if serialize is not None:
            return bytes(serialize())
        return self._lowered.compile(target=self._device.platform).serialize()

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of the cost of a call; see `Lowered.cost_analysis`."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, results, temporaries and code, on each device.

        On IREE's targets, the temporaries are an upper bound: all branches count, and what a loop's
        body passes to its next run counts twice.

        Returns:
          An object with the attributes ``argument_size_in_bytes``, ``output_size_in_bytes``,
          ``alias_size_in_bytes`` (what results share with arguments), ``temp_size_in_bytes``,
          ``generated_code_size_in_bytes`` and ``peak_memory_in_bytes``; None if the sizes depend on
          the arguments of a call.
        """
        analyze = getattr(self.executable, "memory_analysis", None)
        return None if analyze is None else analyze()

    @property
    def input_shardings(self) -> Any:
        """The shardings of the arguments: a tuple for the positional ones, a dict for keywords."""
        here = SingleDeviceSharding(self._device)
        leaf_shardings = [sharding or here for sharding in self._lowered._shardings.ins]
        return tree_util.tree_unflatten(self.in_tree, leaf_shardings)

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results."""
        outs = self._lowered._shardings.outs
        here = SingleDeviceSharding(self._device)
        leaf_shardings = [here] * self.out_tree.num_leaves if outs is None else outs
        return tree_util.tree_unflatten(self.out_tree, leaf_shardings)

    @property
    def input_formats(self) -> Any:
        """The layouts and shardings of the arguments, as in `input_shardings`."""
        leaves = tree_util.tree_leaves(self.input_shardings)
        types = self._lowered._signature.arguments[: len(leaves)]
        formats = [row_major(len(t.shape), s) for t, s in zip(types, leaves, strict=True)]
        return tree_util.tree_unflatten(self.in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """The layouts and shardings of the results."""
        leaves = tree_util.tree_leaves(self.output_shardings)
        avals = self._traced.avals
        formats = [row_major(len(a.shape), s) for a, s in zip(avals, leaves, strict=True)]
        return tree_util.tree_unflatten(self.out_tree, formats)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
          TypeError: structure, shapes or dtypes are not those it was compiled for.
          ValueError: an argument is on another device, or has another sharding.
        """
        expected = self._lowered._call
        check_execution("a compiled function")
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != expected.tree and has_float0(leaves):
            leaves, tree = tree_util.tree_flatten(without_float0((args, kwargs)))
        if tree != expected.tree:
            raise TypeError(
                f"the function was compiled for arguments of structure {expected.tree}, called "
                f"with {tree} (omit static arguments)"
            )
        device = committed_device(leaves, lambda i: f"argument {i} of the compiled function")
        if device is not None and device is not self._device:
            raise ValueError(
                f"the function was compiled for {self._device!r}, called with arguments that are "
                f"committed to {device!r}; move them there with gnomon.device_put, or compile for "
                "their device"
            )
        for i, (leaf, other) in enumerate(zip(leaves, expected.leaves, strict=True)):
            if is_tracer(leaf):
                raise TypeError(
                    "a function that was lowered and compiled for given types cannot be traced: "
                    f"it was called with {leaf!r}. Call the function that jit returned"
                )
            self._check_sharding(i, leaf)
            given, wanted = aval_of(leaf), aval_of(other)
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                name = expected.leaf_names(self._lowered._fun)[i]
                raise TypeError(
                    f"the function was compiled for {wanted} as {name}, called with {given}"
                )
        return self.entry([as_operand(leaf) for leaf in leaves])

    def _check_sharding(self, i: int, leaf: Any) -> None:
        wanted, given = self._lowered._shardings.ins[i], sharding_in(leaf)
        if given is None or wanted is None or given.is_equivalent_to(wanted, leaf.ndim):
            return
        name = self._lowered._call.leaf_names(self._lowered._fun)[i]
        raise ValueError(
            f"{name} has the sharding {given}, but the function was compiled for {wanted}"
        )
