"""Rewriting of programs that IREE rejects or miscompiles into programs that it compiles well.

Legalizations are data (`legalization`), declared next to their code and collected in one list
(`order`), from which docs/legalizations.md is printed. Most rewrite ops of the gnomon dialect,
because rules and builders exist there; the lowering of each op stays as other backends need it.
"""
