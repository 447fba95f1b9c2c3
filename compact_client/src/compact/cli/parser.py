"""The command line of `compactctl`. The help of each command has an example and the exit codes."""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from compact.agents.launch import find_launches
from compact.agents.registry import AGENTS, WITH_HOOKS, WITH_MCP, titles
from compact.cli import exit_codes
from compact.delivery.endpoint import LOCAL_URL, configured_url
from compact.gateway.settings import DEFAULT_PORT
from compact.policy import STYLES, RendererName

_EXIT_CODES = "exit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in exit_codes.MEANINGS.items())
_INPUT = """\
input:
  FILE is a JSON list of messages, an object with `messages` (and `tools`), one message per line, an archived
  transcript, or a session log of a coding agent. Use - for stdin. The message formats of chat completions,
  Responses and Anthropic are detected.
"""
_DESCRIPTION = """\
Context compaction for LLM agents, from the terminal.

Preview a compaction before you enable it, compare policies, inspect what an agent remembers, follow live events,
verify archives, and import the logs of other agents into Ariadne.
"""
_ENVIRONMENT = """\
environment:
  COMPACT_*          any setting, see `compactctl config show`
  ARIADNE_URL        address of the server, default http://127.0.0.1:8000
  ARIADNE_API_KEY    ingest key for `watch`, `import`, `hooks` and `doctor`
  ARIADNE_GATEWAY_TOKEN
                     token of `gateway --host`
  ARIADNE_API_TOKEN  API token for `tail` and `uncompact --server`
  NO_COLOR           disable colors

"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="compactctl",
        description=_DESCRIPTION,
        epilog=_ENVIRONMENT + _EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {installed_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add_command in (
        _add_compact, _add_dry_run, _add_diff, _add_remember, _add_uncompact, _add_mcp, _add_run, _add_gateway,
        _add_tail, _add_import, _add_watch, _add_hooks, _add_doctor, _add_verify, _add_config, _add_completion,
    ):  # fmt: skip
        add_command(commands)
    return parser


def installed_version() -> str:
    """Return the version of this distribution."""
    try:
        return version("compact-client")
    except PackageNotFoundError:
        return "(source tree)"


def _add_command(
    commands: Any, name: str, summary: str, *, text: str = "", example: str, writes_json: bool = True
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{text}",
        epilog=f"example:\n{example}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if writes_json:
        command.add_argument("--json", action="store_true", help="write JSON to stdout")
    return command


def _add_compact(commands: Any) -> None:
    command = _add_command(
        commands,
        "compact",
        "compact a conversation and write the result",
        text="Compacts regardless of the usage, as `/compact` would, and writes the messages in their original\n"
        "format. The number of saved tokens goes to stderr.\n\n" + _INPUT,
        example="  compactctl compact history.json -o shorter.json\n"
        "  cat session.jsonl | compactctl compact - --strategy decision_log",
    )
    _add_conversation_arguments(command)
    command.add_argument("-o", "--output", metavar="FILE", help="write the messages to FILE instead of stdout")
    command.add_argument("--if-needed", action="store_true", help="compact only if the policy's trigger requires it")
    command.add_argument("--note", default="compactctl", help="note for the trace")


def _add_dry_run(commands: Any) -> None:
    command = _add_command(
        commands,
        "dry-run",
        "show what a compaction would do, under one or more policies",
        text="Writes nothing. Repeat --policy to compare several policies. Each is a list of changes to the settings,\n"
        "such as keep_recent_turns=2,strategy=brief.\n\n" + _INPUT,
        example="  compactctl dry-run log.json --policy strategy=brief --policy keep_recent_turns=2,renderer=bridge",
    )
    _add_conversation_arguments(command)
    command.add_argument(
        "--policy", action="append", default=[], metavar="NAME=VALUE,…", help="also compare a policy with these changes"
    )


def _add_diff(commands: Any) -> None:
    command = _add_command(
        commands,
        "diff",
        "show the fate of every message, and the rule behind it",
        text=_INPUT,
        example="  compactctl diff history.json\n"
        "  compactctl diff history.json --json | jq '.ledger[] | select(.fate==\"dropped\")'",
    )
    _add_conversation_arguments(command)
    command.add_argument("--all", action="store_true", help="include the messages that are kept")


def _add_remember(commands: Any) -> None:
    command = _add_command(
        commands,
        "remember",
        "show what an agent would remember: summary, pinned messages and recent messages",
        text=_INPUT,
        example="  compactctl remember ~/.claude/projects/app/0a1b.jsonl",
    )
    _add_conversation_arguments(command)


def _add_uncompact(commands: Any) -> None:
    command = _add_command(
        commands,
        "uncompact",
        "print what the last compaction of a session dropped",
        text="Lists rules, decisions, open items, file changes and names that are no longer in the prompt, the most\n"
        "binding first, short enough to paste back. SESSION is a log file or the id of a session of\n"
        f"{titles('or')}, default the newest one. With --server, it is a\n"
        "session on the server.",
        example="  compactctl uncompact | pbcopy\n"
        "  compactctl uncompact 0a1b2c3d --query 'database port'\n"
        "  compactctl uncompact checkout-7 --server --json",
    )
    command.add_argument("session", nargs="?", metavar="SESSION", help="log file or session id, - for stdin")
    command.add_argument("--last", type=int, default=1, metavar="N", help="number of compactions, default 1, 0 for all")
    command.add_argument("--query", metavar="TEXT", help="instead, print the passages that match these words")
    command.add_argument(
        "--max-tokens", type=int, default=1_000, metavar="N", help="size of the output, default 1000 (not for --json)"
    )
    command.add_argument("--server", action="store_true", help="read from the server instead of local logs")
    _add_url(command)
    command.add_argument("--token", help="API token, default ARIADNE_API_TOKEN")


def _add_mcp(commands: Any) -> None:
    command = _add_command(
        commands,
        "mcp",
        "serve recall and uncompact to an agent over MCP (stdio), or register the server",
        text="Without an action, serves the tools recall, uncompact, explain_compaction, list_sessions and search\n"
        f"over the local logs of {titles('and')}. Only sessions of --directory,\n"
        "default the current one, can be read. Answers are redacted. Needs pip install 'compact-client[mcp]'.\n\n"
        "install, uninstall and status register the server with an agent, without changing its other settings.",
        example="  compactctl mcp install claude-code\n  compactctl mcp install codex --all-projects\n"
        "  compactctl mcp --directory ~/app",
    )
    command.add_argument("action", nargs="?", choices=["serve", "install", "uninstall", "status"], default="serve")
    command.add_argument("agent", nargs="?", choices=[agent.name for agent in WITH_MCP], default=WITH_MCP[0].name)
    command.add_argument("--directory", metavar="DIR", help="directory whose sessions can be read")
    command.add_argument("--all-projects", action="store_true", help="allow sessions of all directories")
    command.add_argument(
        "--scope", choices=["user", "project"], default="user", help="settings to change, default user"
    )
    command.add_argument("--settings", metavar="FILE", help="settings file to change instead")


def _add_conversation_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE", help="conversation, or - for stdin")
    command.add_argument("--config", metavar="FILE", help="settings in YAML or JSON, default compact.yaml if it exists")
    command.add_argument("--model", help="model whose tokens to count")
    command.add_argument("--max-tokens", type=int, metavar="N", help="size of the model's context window")
    command.add_argument("--strategy", choices=STYLES, help="summary style")
    command.add_argument("--renderer", choices=get_args(RendererName), help="layout of the result")
    command.add_argument("--keep-turns", type=int, metavar="N", help="number of recent turns to keep")
    command.add_argument(
        "--keep-pairs", type=int, metavar="N", help="number of recent tool calls to keep with their outputs"
    )


def _add_run(commands: Any) -> None:
    launches = find_launches()
    command = _add_command(
        commands,
        "run",
        "run an agent behind the gateway, which records its exact prompts",
        text="Starts the gateway, or joins the one of this user that runs, and starts the agent with the addresses it\n"
        "needs. Nothing is changed in requests, answers or settings, and a recorder that fails or a server that is\n"
        "down is never felt by the agent. The agent has the terminal, gets the signals, and its exit code is that of\n"
        "this command. At the end, the page of its session is printed. The gateway stops after the last agent.\n\n"
        "If a variable such as ANTHROPIC_BASE_URL already names an address, the gateway forwards to it. Options of\n"
        "this command come before the agent, and everything after it is the agent's.\n\n"
        "agents:\n"
        + "".join(f"  {name:<9} {launch.title}\n" for name, launch in launches.items())
        + "  --        any command that honors ANTHROPIC_BASE_URL, OPENAI_BASE_URL or GOOGLE_GEMINI_BASE_URL",
        example="  compactctl run claude\n"
        "  compactctl run --compact claude\n"
        "  compactctl run --open codex exec 'Fix the tests'\n"
        "  compactctl run -- node my-agent.js\n"
        "  compactctl run --upstream openai=http://127.0.0.1:11434 -- python agent.py    # Ollama, vLLM, LM Studio",
        writes_json=False,
    )
    _add_gateway_options(command)
    command.add_argument("--open", action="store_true", help="open the page of the session in a browser")
    command.add_argument("agent", nargs=argparse.REMAINDER, metavar="AGENT …", help=f"{', '.join(launches)} or --")


def _add_gateway(commands: Any) -> None:
    command = _add_command(
        commands,
        "gateway",
        "run the gateway alone, for a container or a team",
        text="Forwards to the upstreams that have a name, and records to ARIADNE_URL with ARIADNE_API_KEY.\n\n"
        "addresses:\n"
        "  /anthropic         ANTHROPIC_BASE_URL\n"
        "  /openai/v1         OPENAI_BASE_URL\n"
        "  /gemini            GOOGLE_GEMINI_BASE_URL\n"
        "  /custom/NAME/…     the upstream of --upstream NAME=URL\n"
        "  /healthz /metrics  health, and metrics for Prometheus\n\n"
        "Only this machine can connect, unless --host names another address. That needs a token, which a client sends\n"
        "in the path (/token/TOKEN/anthropic) or as the header X-Ariadne-Token. It is not forwarded.\n\n"
        "SIGTERM and Ctrl-C let streams finish, and a second signal ends them. SIGUSR2 or --upgrade starts the\n"
        "program again on the same socket without dropping a stream.\n\n"
        "With --compact, or for the agents in `gateway.compact` of compact.yaml, a prompt that exceeds the trigger is\n"
        "sent compacted, and a line says so. Any other request is sent as it came.",
        example="  compactctl gateway\n"
        "  compactctl gateway --compact\n"
        "  compactctl gateway --upstream ollama=http://127.0.0.1:11434 --upstream openai=https://openrouter.ai/api\n"
        "  ARIADNE_GATEWAY_TOKEN=… compactctl gateway --host 0.0.0.0\n"
        "  compactctl gateway --status",
    )
    _add_gateway_options(command)
    command.add_argument("--host", default="127.0.0.1", help="address to listen on, default 127.0.0.1")
    command.add_argument("--token", help="token that clients need, default ARIADNE_GATEWAY_TOKEN")
    command.add_argument("--status", action="store_true", help="show the gateway that runs, and exit")
    command.add_argument("--upgrade", action="store_true", help="restart the running gateway and drop no stream")


def _add_gateway_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"port of the gateway, default {DEFAULT_PORT}")
    command.add_argument(
        "--upstream", action="append", default=[], metavar="NAME=URL", help="replace a provider's address, or add one"
    )
    command.add_argument(
        "--http", action="store_true", help="answer requests for a websocket with 426, so that Codex uses HTTP"
    )
    command.add_argument(
        "--compact",
        action="store_true",
        help="compact prompts that get too long, with the settings of compact.yaml, and repeat calls that overflow",
    )
    command.set_defaults(host="127.0.0.1")


def _add_tail(commands: Any) -> None:
    command = _add_command(
        commands,
        "tail",
        "follow live events from the server",
        text="Reconnects after a lost connection without missing an event. Needs an API token with permission to tail\n"
        "(--token or ARIADNE_API_TOKEN). With --json, writes one event per line.",
        example="  compactctl tail --kind compact. --status error\n  compactctl tail --session s1 --json | jq .kind",
    )
    _add_url(command)
    command.add_argument("--token", help="API token, default ARIADNE_API_TOKEN")
    for name, text in {
        "session": "only events of this session",
        "kind": "only kinds with this prefix",
        "status": "only events with this status: ok or error",
        "q": "only events that contain this text",
        "project": "only events of this project",
        "after": "start after this sequence number",
    }.items():
        command.add_argument(f"--{name}", help=text)
    command.add_argument("-n", "--count", type=int, metavar="N", help="exit after N events")


def _add_import(commands: Any) -> None:
    command = _add_command(
        commands,
        "import",
        f"import session logs of {titles('and')} into Ariadne",
        text="Redacts secrets and sends model calls, tool calls, token counts and compactions as spans. Each\n"
        "compaction gets a ledger: the fate of every message, and the facts it kept and lost. Importing the same\n"
        "log again changes nothing, and a longer log adds only what is new. Directories are searched for logs. A\n"
        "line that cannot be read is skipped and reported with its file and number, and the exit code is 3.\n\n"
        "`compactctl watch` finds the logs by itself and follows them.",
        example="  compactctl import ~/.claude/projects ~/.codex/sessions\n"
        "  compactctl import session.jsonl --session-id demo",
    )
    _add_url(command)
    command.add_argument("paths", nargs="+", metavar="PATH", help="log files or directories")
    command.add_argument("--key", help="ingest key, default ARIADNE_API_KEY")
    command.add_argument("--session-id", help="session id, default the id in the log (one file only)")
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="size of the model's context window, if it is not in the log"
    )
    command.add_argument("--dry-run", action="store_true", help="read and count events without sending them")
    _add_import_options(command, with_transcripts=False)


def _add_watch(commands: Any) -> None:
    agents = ", ".join(agent.name for agent in AGENTS)
    *others, last = (agent.variable for agent in AGENTS)
    places = "\n".join(f"  {agent.title:<12} ~/{agent.directory}" for agent in AGENTS)
    command = _add_command(
        commands,
        "watch",
        "import the logs of the coding agents on this machine, and follow them live",
        text="Finds the session logs of all supported agents, imports what is there, and then sends what the agents\n"
        "write, within a second. Sessions, sub-agents, model calls, tool calls and token counts appear as the agent\n"
        "works. Each compaction shows which messages and facts it dropped.\n\n"
        "Secrets are redacted on this machine before anything is sent, and nothing is sent without an ingest key.\n"
        "A state file remembers what the server has, so the next run continues where this one stopped.\n\n"
        f"logs:\n{places}\n"
        f"  {', '.join(others)} and {last} are honored.\n"
        "  PATH replaces all.",
        example="  export ARIADNE_API_KEY=…        # printed by `make up`\n"
        "  compactctl watch\n"
        "  compactctl watch --once --since 7d\n"
        "  compactctl watch --project ~/src/shop --agent claude-code\n"
        "  compactctl watch --dry-run --json | jq '.logs[] | select(.compactions > 0)'",
    )
    _add_url(command)
    command.add_argument("paths", nargs="*", metavar="PATH", help="log files or directories, default the agents' own")
    command.add_argument("--key", help="ingest key, default ARIADNE_API_KEY")
    command.add_argument("--once", action="store_true", help="import what is there and exit")
    command.add_argument("--since", metavar="AGE", help="only logs changed since then: 12h, 7d, 2w or a date")
    command.add_argument("--project", metavar="DIR", help="only sessions of agents that worked in this folder")
    command.add_argument(
        "--agent", action="append", choices=[agent.name for agent in AGENTS], help=f"only this agent: {agents}"
    )
    command.add_argument("--state", metavar="FILE", help="state file, default one per server and key")
    command.add_argument("--dry-run", action="store_true", help="read and count once, without sending")
    _add_import_options(command, with_transcripts=True)


def _add_hooks(commands: Any) -> None:
    command = _add_command(
        commands,
        "hooks",
        f"let {titles('or', WITH_HOOKS)} archive its conversation before each compaction",
        text="install: add hooks for PreCompact, PostCompact, SessionStart and SessionEnd to the settings. Other\n"
        "hooks, comments and formatting stay as they are, and the old file is kept as a backup. Installing again\n"
        "changes nothing. A file that cannot be edited safely is not changed.\n"
        "uninstall: remove these hooks. status: show where they are installed.\n\n"
        "Before a compaction, the hook saves the log to the disk, starts a process that redacts and delivers it, and\n"
        "returns. The agent never waits for the server. Without a server, the next hook delivers.\n"
        "run and deliver are what the hooks call.",
        example="  compactctl hooks install claude-code\n"
        "  compactctl hooks install claude-code --scope project     # .claude/settings.json of this project\n"
        "  compactctl hooks install codex                           # ~/.codex/hooks.json\n"
        "  compactctl hooks status claude-code",
    )
    hooked = [agent.name for agent in WITH_HOOKS]
    command.add_argument("action", choices=["install", "uninstall", "status", "run", "deliver"])
    command.add_argument("agent", choices=hooked, metavar="AGENT", help=", ".join(hooked))
    command.add_argument(
        "--scope", choices=["user", "project", "local"], default="user", help="settings to edit, default user"
    )
    _add_url(command)
    command.add_argument("--key", help="ingest key to save for the hooks, default ARIADNE_API_KEY")


def _add_import_options(command: argparse.ArgumentParser, *, with_transcripts: bool) -> None:
    command.add_argument(
        "--archive",
        action=argparse.BooleanOptionalAction,
        default=with_transcripts,
        help="also archive the redacted prompt from before each compaction, as a transcript",
    )
    command.add_argument("--jobs", type=int, metavar="N", help="processes for large imports, default up to 4")


def _add_doctor(commands: Any) -> None:
    command = _add_command(
        commands,
        "doctor",
        "check the installation, the settings and the connection to the server",
        text="Checks the Python packages, the settings, the archive, the spool of unsent events, and whether the\n"
        "server accepts events with this key.",
        example="  compactctl doctor",
    )
    _add_url(command)
    command.add_argument("--key", help="ingest key, default ARIADNE_API_KEY")
    command.add_argument("--config", metavar="FILE", help="settings to check")


def _add_url(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--url",
        default=configured_url() or LOCAL_URL,
        help=f"address of the server, default ARIADNE_URL or {LOCAL_URL}",
    )


def _add_verify(commands: Any) -> None:
    command = _add_command(
        commands,
        "verify",
        "verify the hashes and signatures of archives and audit bundles",
        text="A directory is an archive of transcripts. Its files are checked against SHA256SUMS and against the\n"
        "compact.archival events. A .zip is an audit bundle from the server. Its signature is checked against\n"
        "--key, which needs pip install 'compact-client[verify]'.",
        example="  compactctl verify .compact/archive\n  compactctl verify bundle.zip --key server.pub",
    )
    command.add_argument("paths", nargs="+", metavar="PATH", help="archive directories or bundles")
    command.add_argument("--key", metavar="KEY", help="the server's public key, or a file that contains it")


def _add_config(commands: Any) -> None:
    command = _add_command(
        commands,
        "config",
        "check the settings, or show each one with its source",
        text="check: exit with 0 if all settings are valid, else with 1 and the path of each invalid setting.\n"
        "show: list every setting with its value, its source and its environment variable.",
        example="  compactctl config check compact.yaml\n  COMPACT_TRIGGER_PCT=0.9 compactctl config show",
    )
    command.add_argument("action", choices=["check", "show"])
    command.add_argument("file", nargs="?", metavar="FILE", help="settings in YAML or JSON")
    command.add_argument("--config", metavar="FILE", help="same as FILE")


def _add_completion(commands: Any) -> None:
    command = _add_command(
        commands,
        "completion",
        "print a completion script for your shell",
        text="Source the script, or save it where your shell looks for completions.",
        example="  source <(compactctl completion bash)\n"
        "  compactctl completion fish > ~/.config/fish/completions/compactctl.fish",
    )
    command.add_argument("shell", choices=["bash", "zsh", "fish"])
