"""Rewriting of what IREE cannot take, or takes wrongly, into what it can.

Legalizations are data (`legalization`), declared beside their code, in one list (`order`), from
which docs/legalizations.md is printed. Most rewrite ops of the gnomon dialect, because rules and
builders exist there; the forms of the ops themselves stay those that suit other backends.
"""
