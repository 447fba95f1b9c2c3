"""Train a compression dictionary for the data of spans: `python -m tools.payload_dictionary NUMBER`.

Writes `ingest/storage/dictionary_files/NUMBER.zdict`. The samples are the demo's sessions and synthetic ones, so a
release contains no text of anyone's agents. A dictionary that was released stays as it is: train a new one with the
next number, and set `CURRENT` in `ingest/storage/dictionaries.py`.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import zstandard
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy
from compact.policy import STYLES

from ariadne.demo import coding_agent, research_agent, shop_sessions, support_agent, support_sessions
from ariadne.demo.clock import PastClock
from ariadne.demo.player import Player
from ingest.decoding.records import Span
from ingest.http.decode_jobs import decode_events
from ingest.storage.dictionaries import FOLDER
from ingest.storage.payloads import unpack

# Data of compaction events has 69 bytes with this size, 77 with half of it, and 69 with twice of it.
SIZE_BYTES = 16 * 1024
_MAX_SAMPLE_BYTES = 2_000
_MODELS = ("gpt-5", "gpt-5-mini", "claude-sonnet-4-5", "gemini-2.5-pro")
_TOOLS = ("read_file", "write_file", "search", "run_command", "web_search", "list_files", "update_plan")
_WORDS = """
the file has test error result function value and is not for with user session token context order request update check
plan server client config build run data list name status response message model tool call
""".split()  # noqa: SIM905 - a list of one word per line would be fifty lines


def main() -> None:
    number = int(sys.argv[1])
    path = FOLDER / f"{number}.zdict"
    if path.exists():
        sys.exit(f"{path} exists. Stored spans may need it, so use another number.")
    samples = list(_samples())
    dictionary = zstandard.train_dictionary(SIZE_BYTES, samples, dict_id=number, level=1)
    path.write_bytes(dictionary.as_bytes())
    sys.stdout.write(f"{path}: {len(samples):,} samples, {len(dictionary):,} bytes\n")


def _samples() -> Iterator[bytes]:
    """Yield the data of spans and their short payloads as JSON. Some clients put short texts into the data."""
    events = [*_demo_events(), *_compaction_events(), *_other_spans()]
    random.Random(1).shuffle(events)  # noqa: S311 - samples
    for event in events:
        for record in decode_events(json.dumps([event]).encode(), "json", 1).records:
            if isinstance(record, Span):
                values = map(unpack, filter(None, (record.data, record.payload)))
                yield from (value for value in values if len(value) <= _MAX_SAMPLE_BYTES)


def _demo_events() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    stories = [past.story for past in (*support_sessions.SESSIONS, *research_agent.SESSIONS, *shop_sessions.SESSIONS)]
    for story in (*stories, support_agent.STORY, research_agent.STORY, coding_agent.STORY):
        Player(story, CallbackExporter(events.append), None, PastClock(timedelta(days=1))).play()
    return events


def _compaction_events() -> list[dict[str, Any]]:
    """Return the events of checks and compactions of invented conversations, under several policies."""
    events: list[dict[str, Any]] = []
    chance = random.Random(2)  # noqa: S311 - samples
    for window, strategy in product((8_000, 12_000, 16_000), STYLES):
        model = chance.choice(_MODELS)
        config = CompactConfig(
            model=model,
            max_context_tokens=window,
            policy=CompactPolicy(strategy=strategy),
            exporter=CallbackExporter(events.append),
        )
        manager, session_id, messages = CompactManager(config), f"session-{uuid.uuid4()}", _first_messages(chance)
        for turn in range(25):
            messages += _turn(chance, turn, tokens=window // 20)
            manager.preflight(session_id, messages)
    return events


def _first_messages(chance: random.Random) -> list[dict[str, Any]]:
    return [{"role": "system", "content": f"You are a helpful agent. {_sentence(chance, 30)}"}]


def _turn(chance: random.Random, number: int, *, tokens: int) -> Iterator[dict[str, Any]]:
    call = f"call_{uuid.UUID(int=chance.getrandbits(128)).hex[:24]}"
    arguments = f'{{"path": "src/module_{number}.py"}}'
    yield {"role": "user", "content": _sentence(chance, 25)}
    function = {"name": chance.choice(_TOOLS), "arguments": arguments}
    yield {"role": "assistant", "content": None, "tool_calls": [{"id": call, "type": "function", "function": function}]}
    yield {"role": "tool", "tool_call_id": call, "content": _sentence(chance, tokens)}
    yield {"role": "assistant", "content": _sentence(chance, 60)}


def _other_spans() -> Iterator[dict[str, Any]]:
    """Yield model and tool calls with the attributes that common instrumentations send."""
    chance = random.Random(3)  # noqa: S311 - samples
    for number in range(1_500):
        model, tool = chance.choice(_MODELS), chance.choice(_TOOLS)
        prompt, completion = chance.randrange(200, 90_000), chance.randrange(5, 3_000)
        texts = {"input": _sentence(chance, 40), "output": _sentence(chance, 40)}
        usage = {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}
        session_id = str(uuid.UUID(int=chance.getrandbits(128)))
        conventions: tuple[dict[str, Any], ...] = (
            {"model": model, "usage": usage, "session_id": session_id, "turn": number % 90, "temperature": 0.2},
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.response.model": model,
                "gen_ai.conversation.id": session_id,
                "gen_ai.usage.input_tokens": prompt,
                "gen_ai.usage.output_tokens": completion,
                "gen_ai.response.finish_reasons": ["stop"],
                "server.address": "api.openai.com",
            },
            {
                "openinference.span.kind": "LLM",
                "llm.model_name": model,
                "llm.token_count.prompt": prompt,
                "llm.token_count.completion": completion,
                "llm.token_count.total": prompt + completion,
                "llm.invocation_parameters": '{"temperature": 0.0, "max_tokens": 4096}',
                "session.id": session_id,
            },
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": session_id},
            {"tool": tool, "duration_ms": chance.randrange(9_000), "session_id": session_id},
        )
        yield {
            "type": "span",
            "trace_id": uuid.uuid4().hex,
            "span_id": f"{number:016x}",
            "kind": "tool" if number % 5 > 2 else "generation",
            "name": tool,
            "data": conventions[number % 5],
            "payload": texts,
        }


def _sentence(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(count)).capitalize() + "."


if __name__ == "__main__":
    main()
