"""The command line of `compactctl`, and its help: each command says what it does, shows an example, and its exits."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from compact.cli import exit_codes
from compact.policy import STYLES

_EXITS = "exit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in exit_codes.MEANINGS.items())
_INPUTS = """\
input:
  FILE, or - for stdin: a JSON list of messages, an object with `messages` (and `tools`), one message a line, an
  archived transcript, or a session log of Claude Code or Codex. Chat, Responses and Anthropic formats are recognised.
"""
_DESCRIPTION = """\
Context compaction for LLM agents, from the terminal.

See what a compaction would do to a conversation before you enable it, compare policies, look at what an agent
remembers, follow live events, check archives, and bring the logs of other agents into Ariadne.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compactctl",
        description=_DESCRIPTION,
        epilog="environment:\n"
        "  COMPACT_*          any setting, see `compactctl config show`\n"
        "  ARIADNE_URL        the server, default http://127.0.0.1:8000\n"
        "  ARIADNE_API_KEY    its ingest key, for `import`\n"
        "  ARIADNE_API_TOKEN  an API token with the right to tail, for `tail`\n"
        "  NO_COLOR           no colour\n\n" + _EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _compacting(commands)
    _inspecting(commands)
    _serving(commands)
    _checking(commands)
    return parser


def _version() -> str:
    try:
        return version("compact-client")
    except PackageNotFoundError:
        return "of a source tree"


def _command(commands: Any, name: str, summary: str, text: str, example: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{text}",
        epilog=f"example:\n{example}\n\n{_EXITS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="one JSON document on stdout, for machines")
    return made


def _conversation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a conversation; - reads stdin")
    parser.add_argument(
        "--config", metavar="FILE", help="settings (YAML or JSON); default compact.yaml if there is one"
    )
    parser.add_argument("--model", help="count tokens for this model")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the model's window")
    parser.add_argument("--strategy", choices=STYLES, help="style of the summary")
    parser.add_argument("--renderer", choices=["layered", "inplace", "bridge"], help="shape of the result")
    parser.add_argument("--keep-turns", type=int, metavar="N", help="recent turns that stay")
    parser.add_argument("--keep-pairs", type=int, metavar="N", help="recent tool calls that stay with their outputs")


def _compacting(commands: Any) -> None:
    compact = _command(
        commands, "compact", "compact a conversation and write the result",
        "Compacts whatever the usage, as `/compact` would, and writes the messages in the format they came in.\n"
        "What was saved is told on stderr.\n\n" + _INPUTS,
        "  compactctl compact history.json -o shorter.json\n"
        "  cat session.jsonl | compactctl compact - --strategy decision_log",
    )  # fmt: skip
    _conversation(compact)
    compact.add_argument("-o", "--output", metavar="FILE", help="write here instead of stdout")
    compact.add_argument("--if-needed", action="store_true", help="only if the policy's trigger says so")
    compact.add_argument("--note", default="compactctl", help="a note for the trace")
    dry = _command(
        commands, "dry-run", "show what a compaction would do, under one policy or several side by side",
        "Nothing is written. Each --policy is compared: changes such as keep_recent_turns=2,strategy=brief.\n\n"
         + _INPUTS,
        "  compactctl dry-run history.json --policy strategy=brief --policy keep_recent_turns=2,renderer=bridge",
    )  # fmt: skip
    _conversation(dry)
    dry.add_argument("--policy", action="append", default=[], metavar="NAME=VALUE,…", help="another policy to compare")


def _inspecting(commands: Any) -> None:
    diff = _command(
        commands, "diff", "show the fate of every message: before, after, and why",
        _INPUTS, "  compactctl diff history.json\n"
        "  compactctl diff history.json --json | jq '.ledger[] | select(.fate==\"dropped\")'",
    )  # fmt: skip
    _conversation(diff)
    diff.add_argument("--all", action="store_true", help="also the messages that stay")
    remember = _command(
        commands, "remember", "show what an agent would remember now: summary, pinned messages, recent window",
        _INPUTS, "  compactctl remember ~/.claude/projects/app/0a1b.jsonl",
    )  # fmt: skip
    _conversation(remember)


def _serving(commands: Any) -> None:
    tail = _command(
        commands, "tail", "follow live events from the server",
        "Connects to the server's websocket and reconnects where it left off, so that nothing is missed. Needs an API\n"
        "token with the right to tail (--token or ARIADNE_API_TOKEN). With --json, one event a line.",
        "  compactctl tail --kind compact. --status error\n  compactctl tail --session s1 --json | jq .kind",
    )  # fmt: skip
    _server(tail)
    tail.add_argument("--token", help="API token; default ARIADNE_API_TOKEN")
    for name, text in (
        ("session", "only this session"), ("kind", "only kinds that begin so"), ("status", "only ok or error"),
        ("q", "only events that contain this text"), ("project", "this project"),
        ("after", "begin after this sequence number"),
    ):  # fmt: skip
        tail.add_argument(f"--{name}", help=text)
    tail.add_argument("-n", "--count", type=int, metavar="N", help="end after N events")
    brought = _command(
        commands, "import", "bring session logs of Claude Code and Codex into Ariadne",
        "Reads the logs, hides secrets, and sends model calls, tools, token counts and compactions as spans.\n"
        "Importing again changes nothing; a log that has grown adds what is new. A directory is searched for logs.",
        "  compactctl import ~/.claude/projects ~/.codex/sessions\n  compactctl import session.jsonl --session-id demo",
    )  # fmt: skip
    _server(brought)
    brought.add_argument("paths", nargs="+", metavar="PATH", help="log files or directories")
    brought.add_argument("--key", help="ingest key; default ARIADNE_API_KEY")
    brought.add_argument("--session-id", help="name of the session; default the log's own id (one file only)")
    brought.add_argument("--max-tokens", type=int, metavar="N", help="the model's window, if the log does not say")
    brought.add_argument("--dry-run", action="store_true", help="read and count, send nothing")
    doctor = _command(
        commands, "doctor", "check the installation, the settings and the way to the server",
        "Looks at the Python packages, the settings, the archive, the spool of unsent events, and whether the server\n"
        "takes events with this key.", "  compactctl doctor",
    )  # fmt: skip
    _server(doctor)
    doctor.add_argument("--key", help="ingest key; default ARIADNE_API_KEY")
    doctor.add_argument("--config", metavar="FILE", help="settings to look at")


def _server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="the server; default ARIADNE_URL, else http://127.0.0.1:8000")


def _checking(commands: Any) -> None:
    verify = _command(
        commands, "verify", "check archives and audit bundles against their hashes and signatures",
        "A directory is an archive of transcripts (SHA256SUMS and compact.archival events are checked); a .zip is an\n"
        "audit bundle from the server, whose signature is checked against --key.",
        "  compactctl verify .compact/archive\n  compactctl verify bundle.zip --key server.pub",
    )  # fmt: skip
    verify.add_argument("paths", nargs="+", metavar="PATH", help="archive directories or bundles")
    verify.add_argument("--key", metavar="KEY", help="the server's public key, or a file that holds it")
    config = _command(
        commands, "config", "check the settings, or show each with the place it came from",
        "check: exit 0 if file, environment and defaults make sense, else 1 with the path of each wrong field.\n"
        "show: every setting, its value, where it came from, and its environment variable.",
        "  compactctl config check compact.yaml\n  COMPACT_TRIGGER_PCT=0.9 compactctl config show",
    )  # fmt: skip
    config.add_argument("action", choices=["check", "show"])
    config.add_argument("file", nargs="?", metavar="FILE", help="settings (YAML or JSON)")
    config.add_argument("--config", metavar="FILE", help="the same")
    completion = _command(
        commands, "completion", "print a completion script for your shell",
        "Put it where your shell looks for completions, or source it.",
        "  source <(compactctl completion bash)\n"
        "  compactctl completion fish > ~/.config/fish/completions/compactctl.fish",
    )  # fmt: skip
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])


Run = Callable[[argparse.Namespace], int]
