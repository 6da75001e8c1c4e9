"""``gnomon completion``: a script that completes the commands and their options in a shell.

The script is generated from the parser and is static, so that a key press does not start Python.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from gnomon.backends.iree.targets import target_names

__all__ = ["SHELLS", "script"]

# Options whose values are targets.
_TARGETS = ("--target",)


@dataclass(frozen=True)
class Option:
    """An option, or a positional argument with choices, as a shell completes it.

    Attributes:
      names: the names of the option; empty for a positional argument.
      values: the values to offer; None if it takes none, empty for files.
      meaning: the help text.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] | None
    meaning: str


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def meanings_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The help of each command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {}


def options_of(parser: argparse.ArgumentParser) -> Iterator[Option]:
    """The options of a command."""
    for action in parser._actions:
        names = tuple(action.option_strings)
        values: tuple[str, ...] | None = tuple(map(str, action.choices or ()))
        if set(names) & set(_TARGETS):
            values = tuple(target_names())
        if names and (action.nargs == 0 or isinstance(action, argparse._HelpAction)):
            values = None
        if names or values:
            yield Option(names, values, (action.help or "").split(";")[0].replace("%%", "%"))


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of the shells in `SHELLS`."""
    return SHELLS[shell](parser)


def _bash(parser: argparse.ArgumentParser) -> str:
    lines = [
        "# gnomon: completion for bash. Load it with: source <(gnomon completion bash)",
        "_gnomon() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local command="${COMP_WORDS[1]}" words=""',
        "  # A colon is part of a target's name.",
        "  if declare -F __ltrim_colon_completions >/dev/null; then _get_comp_words_by_ref -n : "
        "-c word -p previous 2>/dev/null; fi",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f"    words={shlex.quote(' '.join(commands_of(parser)))}",
        "  else",
        '    case "$command $previous" in',
    ]
    rest = []
    for command, sub in commands_of(parser).items():
        plain: list[str] = []
        for option in options_of(sub):
            plain += option.names if option.names else option.values or ()
            for name in option.names:
                if option.values:
                    words = shlex.quote(" ".join(option.values))
                    lines.append(f"      {shlex.quote(f'{command} {name}')}) words={words} ;;")
        rest.append(f"      {shlex.quote(command)}' '*) words={shlex.quote(' '.join(plain))} ;;")
    lines += rest
    lines += [
        "    esac",
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        '  if [ "${#COMPREPLY[@]}" -eq 0 ]; then COMPREPLY=($(compgen -f -- "$word")); fi',
        "  if declare -F __ltrim_colon_completions >/dev/null; then "
        '__ltrim_colon_completions "$word"; fi',
        "}",
        "complete -o filenames -F _gnomon gnomon",
    ]
    return "\n".join(lines) + "\n"


def _zsh(parser: argparse.ArgumentParser) -> str:
    def quoted(text: str) -> str:
        return shlex.quote(text.replace(":", "\\:"))

    lines = [
        "#compdef gnomon",
        "# gnomon: completion for zsh. Load it with: source <(gnomon completion zsh)",
        "_gnomon() {",
        "  local -a commands",
        "  commands=(",
    ]
    for command, meaning in meanings_of(parser).items():
        lines.append(f"    {shlex.quote(f'{command}:{meaning}')}")
    lines += [
        "  )",
        "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
        '  case "$words[2]" in',
    ]
    for command, sub in commands_of(parser).items():
        specs = []
        for option in options_of(sub):
            meaning = option.meaning.replace("[", "(").replace("]", ")")
            if not option.names:
                specs.append(f"'1: :({' '.join(option.values or ())})'")
                continue
            value = ""
            if option.values is not None:
                words = " ".join(v.replace(":", "\\:") for v in option.values)
                value = f":value:({words})" if words else ":file:_files"
            specs += [shlex.quote(f"{name}[{meaning}]{value}") for name in option.names]
        if not any(spec.startswith("'1:") for spec in specs):
            specs.append("'*:file:_files'")
        lines.append(f"    {shlex.quote(command)})")
        lines.append("      shift words; (( CURRENT-- ))")
        lines.append("      _arguments \\")
        lines += [f"        {spec} \\" for spec in specs[:-1]]
        lines.append(f"        {specs[-1]} ;;")
    lines += ["  esac", "}", "compdef _gnomon gnomon"]
    return "\n".join(lines) + "\n"


def _fish(parser: argparse.ArgumentParser) -> str:
    lines = [
        "# gnomon: completion for fish. Load it with: gnomon completion fish | source",
    ]
    for command, meaning in meanings_of(parser).items():
        first = f"complete -c gnomon -n __fish_use_subcommand -f -a {command}"
        lines.append(f"{first} -d {_fish_quoted(meaning)}")
    for command, sub in commands_of(parser).items():
        when = f"-n '__fish_seen_subcommand_from {command}'"
        for option in options_of(sub):
            head = f"complete -c gnomon {when}"
            for name in option.names:
                head += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
            if option.values is not None and option.names:
                head += " -r"
            if option.values:
                head += f" -f -a {_fish_quoted(' '.join(option.values))}"
            lines.append(f"{head} -d {_fish_quoted(option.meaning)}")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
