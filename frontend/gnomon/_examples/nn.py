"""Examples of generated initializers of `gnomon.nn`."""

from __future__ import annotations

NN: dict[str, str] = {
    "glorot_normal": """
>>> nn.initializers.glorot_normal()(random.key(0), (400, 400)).std().round(2)
Array(0.05, dtype=float32)
""",
    "glorot_uniform": """
>>> gnp.abs(nn.initializers.glorot_uniform()(random.key(0), (300, 300))).max().round(2)
Array(0.1, dtype=float32)
""",
    "he_normal": """
>>> nn.initializers.he_normal()(random.key(0), (200, 100)).std().round(2)
Array(0.1, dtype=float32)
""",
    "he_uniform": """
>>> gnp.abs(nn.initializers.he_uniform()(random.key(0), (600, 100))).max().round(2)
Array(0.1, dtype=float32)
""",
    "lecun_normal": """
>>> nn.initializers.lecun_normal()(random.key(0), (400, 100)).std().round(2)
Array(0.05, dtype=float32)
""",
    "lecun_uniform": """
>>> gnp.abs(nn.initializers.lecun_uniform()(random.key(0), (300, 100))).max().round(2)
Array(0.1, dtype=float32)
""",
}
