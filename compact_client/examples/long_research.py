"""A research session three times as long as the context window, without a framework and without a network.

Shows `before_model_call` in a hand-written loop, a protected message, a manual compaction, and the resulting memory.
"""

import itertools
from types import SimpleNamespace
from typing import Any

from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, TiktokenEstimator
from compact.integrations.generic import before_model_call

WINDOW = 16_000
TOPICS = ("tides", "currents", "salinity", "plankton", "storms")


def page(number: int) -> str:
    topic = TOPICS[number % len(TOPICS)]
    measured = f"Station {number:03d} measured {topic} of {number * 1.7:.1f} units on day {number}."
    return f"{measured} " + "The report describes the instruments, the weather and the method in detail. " * 30


def main() -> None:
    events: list[dict[str, Any]] = []
    manager = CompactManager(
        CompactConfig(
            model="gpt-5",
            max_context_tokens=WINDOW,
            policy=CompactPolicy(keep_recent_turns=3, keep_tool_io_pairs=2),
            exporter=CallbackExporter(events.append),
        )
    )
    hook = before_model_call(manager)
    counter = TiktokenEstimator()
    rule = "Cite the station of every number. Never extrapolate beyond day 200."
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful oceanographer."},
        {"role": "user", "content": rule, "meta": {"protected": True}},
    ]
    total = largest = 0
    for number in itertools.count():
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "fetch", "arguments": f'{{"page": {number}}}'},
        }
        messages += [
            {"role": "user", "content": f"What does page {number} say about {TOPICS[number % len(TOPICS)]}?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": page(number)},
        ]
        total += counter.count_tokens(page(number), "gpt-5")
        context = SimpleNamespace(session_id="research", messages=messages)
        hook(context)
        used = manager.remember("research").tokens
        largest = max(largest, used)
        assert used <= WINDOW - 1_500, "The request is over budget."
        assert any(message.get("content") == rule for message in context.messages), "The protected message was removed."
        messages.append({"role": "assistant", "content": f"Page {number} is noted."})
        if total >= 3 * WINDOW:
            break

    compactions = sum(1 for event in events if event["event"] == "compact.pruned_messages")
    print(f"{total:,} tokens of tool output, window {WINDOW:,}: {compactions} compactions, at most {largest:,} used")
    manager.manual_compact("research", messages, note="/compact")
    print(manager.remember("research"))


if __name__ == "__main__":
    main()
