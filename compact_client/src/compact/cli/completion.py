"""Shell completion, made from the parser itself: a new option completes without another line here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from compact.cli import exit_codes
from compact.cli.parser import build_parser


def completion(options: argparse.Namespace) -> int:
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    sys.stdout.write("\n".join(writers[options.shell]()) + "\n")
    return exit_codes.OK


def _commands() -> dict[str, tuple[str, list[argparse.Action]]]:
    parser = build_parser()
    chosen = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in chosen._choices_actions}
    return {name: (helps.get(name, ""), sub._actions) for name, sub in chosen.choices.items()}


def _words(actions: list[argparse.Action]) -> list[str]:
    words = [option for action in actions for option in action.option_strings]
    return words + [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]


def _bash() -> Iterator[str]:
    commands = _commands()
    yield "_compactctl() {"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" words=""'
    yield '  case "${COMP_WORDS[1]}" in'
    for name, (_, actions) in commands.items():
        yield f"    {name}) words={' '.join(_words(actions))!r} ;;"
    yield f'    *) words="{" ".join(commands)} --help" ;;'
    yield "  esac"
    yield f'  [ "$COMP_CWORD" -eq 1 ] && words="{" ".join(commands)} --help"'
    yield '  COMPREPLY=( $(compgen -W "$words" -- "$cur") )'
    yield "}"
    yield "complete -o default -o bashdefault -F _compactctl compactctl"


def _zsh() -> Iterator[str]:
    yield "#compdef compactctl"
    yield "_compactctl() {"
    yield "  local -a commands; commands=("
    for name, (text, _) in _commands().items():
        yield f"    '{name}:{text}'"
    yield "  )"
    yield "  if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield '  case "${words[2]}" in'
    for name, (_, actions) in _commands().items():
        yield f"    {name}) compadd -- {' '.join(_words(actions))}; _files ;;"
    yield "  esac"
    yield "}"
    yield "compdef _compactctl compactctl"


def _fish() -> Iterator[str]:
    for name, (text, actions) in _commands().items():
        yield f"complete -c compactctl -n __fish_use_subcommand -f -a {name} -d {text!r}"
        for action in actions:
            for option in action.option_strings:
                flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                said = action.help or ""
                yield f"complete -c compactctl -n '__fish_seen_subcommand_from {name}' {flag} -d {said!r}"
            if not action.option_strings and action.choices:
                words = " ".join(str(choice) for choice in action.choices)
                yield f"complete -c compactctl -n '__fish_seen_subcommand_from {name}' -f -a {words!r}"
