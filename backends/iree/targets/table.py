"""The machines that IREE compiles for, as data: a row per family, and a reason for each flag."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from gnomon.backends.iree.targets.detection import (
    cuda_architecture,
    no_architecture,
    rocm_architecture,
)
from gnomon.backends.iree.targets.model import Architecture, Capabilities, Family, Flag, Target
from gnomon.dialects.types import ANY, short_name

__all__ = ["CPU", "CPUS", "FAMILIES"]

_ALL = frozenset(map(short_name, ANY))
_WIDE = frozenset({"f64", "c128", "i64", "u64"})
_WIDE_FLOATS = frozenset({"f64", "c128"})
_STORED = frozenset({"i8", "u8", "i16", "u16", "f16", "bf16"})

_INPUT_FLAGS = (
    Flag("--iree-input-type=stablehlo", "skips the detection of the input dialect"),
    Flag("--iree-input-demote-f64-to-f32=false", "the default silently computes f64 in f32"),
    Flag("--iree-input-demote-i64-to-i32=false", "this is the default, which must remain"),
    Flag("--iree-input-demote-f32-to-f16=false", "this is the default, which must remain"),
    Flag(
        "--iree-opt-const-eval=false",
        "constants are computed when the program is loaded; the default is a second compilation, "
        "which takes time and cannot link calls of the C library",
    ),
    Flag(
        "--iree-vm-bytecode-module-strip-source-map=true",
        "smaller executables; gnomon keeps locations itself",
    ),
)

# ------------------------------------------------------------------------------------- processors

_CPU_FLAGS = (
    Flag("--iree-hal-target-backends=llvm-cpu", "the code generator"),
    *_INPUT_FLAGS,
    Flag("--iree-llvmcpu-debug-symbols=false", "saves 20 to 30 ms of emitting and linking"),
    Flag(
        "--iree-llvmcpu-enable-ukernels=none",
        "loading their bitcode takes 100 ms for each program, and generated code is as fast",
    ),
)

# The dialects of a plugin take part in every pass that collects patterns from all dialects.
_UNUSED_PLUGINS = tuple(
    Flag(
        f"--iree-plugin=-{name}",
        "not used for processors; without these plugins, a small program compiles 10 % sooner",
    )
    for name in (
        *("input_torch", "input_tosa", "hal_target_cuda", "hal_target_rocm"),
        *("hal_target_vulkan_spirv", "hal_target_metal_spirv", "hal_target_vmvx"),
    )
)

CPU = Target(
    name="cpu",
    platform="cpu",
    hal_backend="llvm-cpu",
    code="elf",
    memory="host",
    drivers=MappingProxyType(
        {"sync": "local-sync", "blocking": "local-task", "async": "local-task"}
    ),
    flags=(
        *_CPU_FLAGS,
        Flag("--iree-llvmcpu-target-cpu=host", "for this processor, which the cache key contains"),
    ),
    process_flags=(
        Flag(
            "--iree-stream-resource-min-offset-alignment=16",
            "compiled code otherwise assumes buffers at multiples of 64 bytes, and a NumPy array, "
            "which starts at any multiple of 16, crashes the process when used in place; no "
            "slower in a 64 and a 256 matmul and a 10^6 multiply-add with AVX2",
        ),
        Flag(
            "--iree-llvmcpu-reassociate-fp-reductions=true",
            "a sum is computed in the lanes of a vector, instead of element by element: 170 ns an "
            "element become 3 in a softmax of 2000 rows of 2000, 0.8 become 0.2 in their sums "
            "(sums of squares take up to twice as long). It belongs to the optimization level, but "
            "the level of a program does not set options of the process",
        ),
        Flag(
            "--iree-llvmcpu-max-allowed-number-of-native-vectors=1024",
            "kernels of more than 512 vectors are refused by default, and the tiles of an f64 "
            "product on AVX-512, 8 by 32 by 16 as for f32, are exactly 512: every product from 32 "
            "by 32 on. Its code is good: 48 GFLOP/s at 256, OpenBLAS 51, tiles for AVX2 32, "
            "compiled in the same time",
        ),
        Flag(
            "--iree-llvmcpu-vector-pproc-strategy=peel",
            "the rest of a row after its last whole vector is computed separately; masked "
            "vectors, the default, are taken apart where the processor has no masks: softmax of "
            "f32[300,1023] 109 ms, with this flag 0.6",
        ),
        *_UNUSED_PLUGINS,
    ),
    capabilities=Capabilities(
        dtypes=_ALL,
        widened=frozenset(),
        libm="system",
        rounds=True,
        atomics=False,
        host_memory=True,
        host_calls=True,
        import_alignment=16,
        max_bindings=32,
    ),
    legalized=("NumPy, which shares memory, computes long sorts, transforms and factorizations",),
    meaning="this machine's processor",
    is_host=True,
)

_ALONE = (
    "no library is linked: functions are computed by arithmetic only",
    "no calls of Python: systems, Cholesky and LU factors and determinants of up to 8 unknowns are "
    "written out, other factorizations are refused, long sorts become sorting networks",
)


def _processor(
    name: str,
    triple: str,
    cpu: str,
    meaning: str,
    *others: Flag,
    code: str = "elf",
    machine: str = "",
    features: tuple[str, ...] = (),
) -> Target:
    """A processor to cross-compile for; artifacts are self-contained.

    For WebAssembly, the compiler calls a library even for the logarithm and the rounding of f64.
    """
    return Target(
        name=name,
        platform="cpu",
        hal_backend="llvm-cpu",
        code=code,
        memory="host",
        drivers=CPU.drivers if code == "elf" else MappingProxyType({}),
        flags=(
            *_CPU_FLAGS,
            Flag(f"--iree-llvmcpu-target-triple={triple}", "the machine and its conventions"),
            Flag(
                f"--iree-llvmcpu-target-cpu={cpu}", "the instructions that every such processor has"
            ),
            *others,
        ),
        process_flags=CPU.process_flags,
        capabilities=Capabilities(
            dtypes=_ALL - _WIDE_FLOATS if code == "wasm" else _ALL,
            widened=frozenset(),
            libm="none",
            rounds=code != "wasm",
            atomics=False,
            host_memory=True,
            host_calls=False,
            import_alignment=16,
            max_bindings=32,
        ),
        legalized=_ALONE,
        meaning=meaning,
        machine=machine,
        features=features,
    )


_EMBEDDED = Flag(
    "--iree-llvmcpu-link-embedded=true",
    "IREE's own library format: linked and loaded without the tools of either machine",
)

_V2 = ("sse4_2", "popcnt", "ssse3")
_V3 = (*_V2, "avx2", "bmi2", "fma", "f16c")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ZEN_4 = (
    *_V4,
    *("avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg"),
    *("avx512_vpopcntdq", "avx512_bf16", "gfni", "vpclmulqdq"),
)


def _x86(cpu: str, meaning: str, features: tuple[str, ...]) -> Target:
    triple = "x86_64-unknown-linux-gnu"
    return _processor(cpu, triple, cpu, meaning, _EMBEDDED, machine="x86_64", features=features)


def _arm(name: str, cpu: str, meaning: str, features: tuple[str, ...] = ()) -> Target:
    triple = "aarch64-unknown-linux-gnu"
    return _processor(name, triple, cpu, meaning, _EMBEDDED, machine="aarch64", features=features)


CPUS: tuple[Target, ...] = (
    CPU,
    _x86("x86-64-v2", "any x86-64 processor with SSE 4.2: nearly all since 2009", _V2),
    _x86("x86-64-v3", "any x86-64 processor with AVX2: nearly all since 2015", _V3),
    _x86("x86-64-v4", "any x86-64 processor with AVX-512", _V4),
    _x86("skylake-avx512", "Intel Xeon since 2017 (Skylake)", (*_V4, "adx")),
    _x86(
        "sapphirerapids",
        "Intel Xeon since 2023 (Sapphire Rapids)",
        (*_ZEN_4, "adx", "avx512_fp16", "avx_vnni"),
    ),
    _x86("znver4", "AMD EPYC 9004, Ryzen 7000 (Zen 4)", (*_ZEN_4, "adx")),
    _x86("znver5", "AMD EPYC 9005, Ryzen 9000 (Zen 5)", (*_ZEN_4, "adx", "avx_vnni")),
    _arm("aarch64-linux", "generic", "any 64-bit Arm processor"),
    _arm(
        "graviton3",
        "neoverse-v1",
        "AWS Graviton3 (Arm Neoverse V1)",
        ("asimddp", "asimdhp", "bf16", "i8mm", "sve"),
    ),
    _processor(
        "riscv64-linux",
        "riscv64-unknown-linux-gnu",
        "generic-rv64",
        "any 64-bit RISC-V processor with floats and compressed instructions",
        _EMBEDDED,
        Flag("--iree-llvmcpu-target-abi=lp64d", "floats are passed in floating-point registers"),
        Flag(
            "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+c",
            "the general-purpose set, which every Linux distribution asks for",
        ),
        machine="riscv64",
    ),
    _processor(
        "wasm32",
        "wasm32-unknown-unknown",
        "generic",
        "any browser or other runtime of WebAssembly with threads and vectors",
        Flag(
            "--iree-llvmcpu-target-cpu-features=+atomics,+bulk-memory,+simd128",
            "128-bit vectors and shared memory, which all current browsers have",
        ),
        Flag("--iree-llvmcpu-link-embedded=false", "a module of WebAssembly, not an ELF file"),
        code="wasm",
        machine="wasm32",
    ),
)

# ------------------------------------------------------------------------------------------- GPUs

_DEVICE_PROCESS_FLAGS = (
    Flag(
        "--iree-stream-resource-min-offset-alignment=256",
        "the largest that a Vulkan driver may ask for; one for all GPUs, so that one process "
        "compiles for all",
    ),
)
_NATIVE_PROCESS_FLAGS = (
    *_DEVICE_PROCESS_FLAGS,
    Flag(
        "--iree-stream-resource-alias-mutable-bindings=true",
        "the parts of one buffer that a kernel writes otherwise take a binding each: 21 in a "
        "quotient of complex numbers, of the 16 that the drivers allow",
    ),
)
_VULKAN_PROCESS_FLAGS = (
    *_DEVICE_PROCESS_FLAGS,
    Flag(
        "--iree-hal-memoization=false",
        "the driver repeats recorded copies with the buffers of the first call, so a program that "
        "reads its indices on the host takes those of another call",
    ),
)
_DEVICE = Capabilities(
    dtypes=_ALL,
    widened=frozenset(),
    libm="device",
    rounds=True,
    atomics=False,
    host_memory=False,
    host_calls=True,
    import_alignment=64,
    max_bindings=32,
)
_ON_HOST = (
    "NumPy computes factorizations, with operands and results copied; long sorts become sorting "
    "networks"
)


def _gpu(
    name: str,
    hal_backend: str,
    code: str,
    driver: str,
    *flags: Flag,
    capabilities: Capabilities,
    legalized: tuple[str, ...] = (_ON_HOST,),
    process_flags: tuple[Flag, ...] = _DEVICE_PROCESS_FLAGS,
) -> Target:
    """A device with its own memory; ``flags`` are added to the flags of all GPUs."""
    chosen = Flag(f"--iree-hal-target-backends={hal_backend}", "the code generator")
    return Target(
        name=name,
        platform=name,
        hal_backend=hal_backend,
        code=code,
        memory="device",
        drivers=MappingProxyType(dict.fromkeys(("sync", "blocking", "async"), driver)),
        flags=(chosen, *_INPUT_FLAGS, *flags),
        process_flags=process_flags,
        capabilities=capabilities,
        legalized=legalized,
    )


def _nvidia(architecture: str, ptx: int, shared_memory: int) -> str:
    """An NVIDIA GPU whose name IREE 3.13 accepts, but whose properties it does not know."""
    products = ("F32_16x8x16_F16", "F16_16x8x16_F16", "F32_16x8x16_BF16")
    matrix = ", ".join(f"<NV_MMA_SYNC_{name}>" for name in products)
    properties = ", ".join(
        (
            "compute = fp64|fp32|fp16|int64|int32|int16|int8",
            "storage = b64|b32|b16|b8",
            "subgroup = shuffle|arithmetic",
            "dot = dp4xi8toi32",
            f"mma = [{matrix}]",
            "subgroup_size_choices = [32]",
            "max_workgroup_sizes = [1024, 1024, 1024]",
            "max_thread_count_per_workgroup = 1024",
            f"max_workgroup_memory_bytes = {shared_memory}",
            "max_workgroup_counts = [2147483647, 65535, 65535]",
        )
    )
    gpu = f'#iree_gpu.target<arch = "{architecture}", features = "+ptx{ptx}", wgp = <{properties}>>'
    code = f'#hal.executable.target<"cuda", "cuda-nvptx-fb", {{iree_codegen.target_info = {gpu}}}>'
    return f'[#hal.device.target<"cuda", [{code}]> : !hal.device]'


# The drivers for CUDA and HIP bind 16 buffers to a kernel.
_NATIVE = replace(_DEVICE, max_bindings=16)

_CUDA = Family(
    target=_gpu(
        "cuda", "cuda", "ptx", "cuda", capabilities=_NATIVE, process_flags=_NATIVE_PROCESS_FLAGS
    ),
    flag=Flag("--iree-cuda-target={}", "its PTX runs on this and all later architectures"),
    architectures=(
        Architecture("sm_70", "Volta: V100"),
        Architecture("sm_75", "Turing: T4, RTX 20"),
        Architecture("sm_80", "Ampere: A100"),
        Architecture("sm_86", "Ampere: A10, A40, RTX 30"),
        Architecture("sm_89", "Ada: L4, L40, RTX 40"),
        Architecture("sm_90", "Hopper: H100, H200", device=_nvidia("sm_90", 80, 232448)),
        Architecture("sm_100", "Blackwell: B100, B200", device=_nvidia("sm_100", 86, 232448)),
        Architecture("sm_120", "Blackwell: RTX 50"),
    ),
    default="sm_80",
    detect=cuda_architecture,
)

_ROCM = Family(
    target=_gpu(
        "rocm", "rocm", "hsaco", "hip", capabilities=_NATIVE, process_flags=_NATIVE_PROCESS_FLAGS
    ),
    flag=Flag("--iree-rocm-target={}", "its machine code runs on no other architecture"),
    architectures=(
        Architecture("gfx908", "CDNA 1: MI100"),
        Architecture("gfx90a", "CDNA 2: MI210, MI250"),
        Architecture("gfx942", "CDNA 3: MI300"),
        Architecture("gfx950", "CDNA 4: MI350"),
        Architecture("gfx1100", "RDNA 3: RX 7900"),
        Architecture("gfx1101", "RDNA 3: RX 7800"),
        Architecture("gfx1151", "RDNA 3.5: Ryzen AI Max"),
        Architecture("gfx1200", "RDNA 4: RX 9060"),
        Architecture("gfx1201", "RDNA 4: RX 9070"),
    ),
    default="gfx942",
    detect=rocm_architecture,
)

# The capabilities of shaders: no library to link, and memory that is addressed in words.
_SHADERS = replace(_DEVICE, widened=_STORED, libm="none", import_alignment=4096)
_NARROW = (
    _ON_HOST,
    "no f64: functions of f32 that others compute in f64 are computed in f32 and integers",
    "no library is linked",
)


def _vulkan(compute: str, storage: str) -> str:
    """A Vulkan device, described by the types that it computes with and stores.

    The generic device names that IREE knows store bytes in words, and lose the last bytes of an
    array whose size is not a multiple of four, because reads beyond its end return zeros. Subgroup
    operations are left out, because they require a fixed subgroup size.
    """
    properties = ", ".join(
        (
            f"compute = {compute}",
            f"storage = {storage}",
            "subgroup = none",
            "subgroup_size_choices = [8]",
            "max_workgroup_sizes = [128, 128, 64]",
            "max_thread_count_per_workgroup = 128",
            "max_workgroup_memory_bytes = 16384",
            "max_workgroup_counts = [65535, 65535, 65535]",
        )
    )
    gpu = f'#iree_gpu.target<arch = "", features = "spirv:v1.6,cap:Shader", wgp = <{properties}>>'
    code = (
        '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
        f"{{iree_codegen.target_info = {gpu}}}>"
    )
    return f'[#hal.device.target<"vulkan", [{code}]> : !hal.device]'


_VULKAN = Family(
    target=_gpu(
        "vulkan",
        "vulkan-spirv",
        "spirv",
        "vulkan",
        capabilities=replace(_SHADERS, dtypes=_ALL - _WIDE),
        legalized=_NARROW,
        process_flags=_VULKAN_PROCESS_FLAGS,
    ),
    flag=Flag("--iree-vulkan-target={}", "the features that the SPIR-V may require of the driver"),
    architectures=(
        Architecture(
            "portable",
            "any driver of Vulkan 1.3 that computes with bytes and half-precision floats",
            device=_vulkan("fp32|fp16|int32|int16|int8", "b32|b16|b8"),
        ),
        Architecture(
            "wide",
            "such a driver that has 64-bit floats and integers too",
            MappingProxyType({"dtypes": _ALL}),
            device=_vulkan("fp64|fp32|fp16|int64|int32|int16|int8", "b64|b32|b16|b8"),
        ),
        Architecture("adreno", "Qualcomm Adreno"),
        Architecture("valhall", "ARM Mali"),
        Architecture("ampere", "NVIDIA Ampere", MappingProxyType({"dtypes": _ALL})),
        Architecture("rdna3", "AMD RDNA 3", MappingProxyType({"dtypes": _ALL})),
    ),
    default="portable",
    detect=no_architecture,
)

_METAL = Family(
    target=_gpu(
        "metal",
        "metal-spirv",
        "msl",
        "metal",
        Flag(
            "--iree-metal-compile-to-metallib=false",
            "Apple's compiler is not needed: the artifact holds source, which is compiled when "
            "it is loaded",
        ),
        capabilities=replace(_SHADERS, dtypes=_ALL - _WIDE_FLOATS, max_bindings=31),
        legalized=_NARROW,
    ),
    flag=Flag("--iree-metal-target-platform={}", "the one of Apple's systems to compile for"),
    architectures=(
        Architecture("macos", "Macs with Apple's GPUs"),
        Architecture("ios", "iPhone and iPad"),
    ),
    default="macos",
    detect=no_architecture,
)

FAMILIES: tuple[Family, ...] = (_CUDA, _ROCM, _VULKAN, _METAL)
