"""`parley completion`: print a completion script for bash, zsh or fish, generated from the parsers.

The script has the commands and the options. For values it calls `parley __complete`; see `cli.candidates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, make_parser, screen_of
from parley.cli.exits import OK

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _completion(args: argparse.Namespace) -> int:
    words = _options_by_command()
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](words)
    screen_of(args).line(script)
    return OK


def _options_by_command() -> dict[str, list[str]]:
    """Each command with its options."""
    from parley.cli.dispatch import COMMANDS as ALL
    from parley.cli.dispatch import load_command

    options = {}
    for name in ALL:
        parser = make_parser(f"parley {name}", load_command(name))
        options[name] = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
    return options


def _bash(words: dict[str, list[str]], shell: str = "bash") -> str:
    cases = "\n".join(
        f'    "{name}"*) offers="{" ".join(options)}" ;;' for name, options in sorted(words.items(), reverse=True)
    )
    firsts = " ".join(sorted({name.split()[0] for name in words} | {"oacp"}))
    seconds = "\n".join(
        f'    {group}) offers="{" ".join(n.split()[1] for n in words if n.startswith(group + " "))}" ;;'
        for group in sorted({name.split()[0] for name in words if " " in name})
    )
    # No variable `words`: it is one of zsh itself.
    return f"""_parley() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" offers="" value line="${{COMP_WORDS[*]:1:COMP_CWORD-1}}"
  if [ "$COMP_CWORD" -eq 1 ]; then offers="{firsts}"
  elif [ "${{current:0:1}}" = "-" ]; then case "$line" in
{cases}
    esac
  elif [ "$COMP_CWORD" -eq 2 ]; then case "$line" in
{seconds}
    esac
  fi
  COMPREPLY=($(compgen -W "$offers" -- "$current"))
  [ -z "$offers" ] && [ "$COMP_CWORD" -gt 1 ] || return 0
  while IFS= read -r value; do
    COMPREPLY+=("$value")
  done < <(printf '%s\\0' "${{COMP_WORDS[@]:0:COMP_CWORD+1}}" | "${{COMP_WORDS[0]}}" __complete {shell} 2>/dev/null)
}}
complete -o default -F _parley parley"""


# `commandline` gives the words without quotes, and fish quotes what it completes.
_FISH_VALUES = """function __parley_values
  set -l current (commandline -ct)
  printf '%s\\0' (commandline -opc) "$current" | parley __complete fish 2>/dev/null
end"""


def _zsh(words: dict[str, list[str]]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(words, "zsh")


def _fish(words: dict[str, list[str]]) -> str:
    lines = [
        _FISH_VALUES,
        "complete -c parley -f",
        "complete -c parley -n 'not __fish_use_subcommand' -a '(__parley_values)'",
    ]
    for first in sorted({name.split()[0] for name in words} | {"oacp"}):
        lines.append(f"complete -c parley -n __fish_use_subcommand -a {first}")
    for name, options in words.items():
        first, *second = name.split()
        if second:
            lines.append(f"complete -c parley -n '__fish_seen_subcommand_from {first}' -a {second[0]}")
        lines += [f"complete -c parley -n '__fish_seen_subcommand_from {first}' -l {o[2:]}" for o in options]
    return "\n".join(lines)


COMMANDS = {
    "completion": Command(
        "Print a completion script for bash, zsh or fish",
        _add_arguments,
        _completion,
        ('eval "$(parley completion bash)"', "parley completion fish > ~/.config/fish/completions/parley.fish"),
    ),
}
