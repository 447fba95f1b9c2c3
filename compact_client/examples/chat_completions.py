"""OpenAI chat completions, or any compatible client: compaction with overflow recovery. Runs offline.

The fake client rejects requests over its own limit, as a provider does when its token count differs from ours.
"""

from types import SimpleNamespace
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter, NoopEstimator
from compact.integrations.openai import ChatCompletions


class FakeClient:
    """Has the same `chat.completions.create` as `openai.OpenAI()`."""

    limit = 3_000

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)

    def create(self, *, messages: list[dict[str, Any]], **_: Any) -> Any:
        tokens = sum(len(message["content"]) // 3 for message in messages)
        if tokens > self.limit:
            raise ValueError(f"This model's maximum context length is {self.limit} tokens, you requested {tokens}")
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="Noted."))], usage=None)


def main() -> None:
    manager = CompactManager(
        CompactConfig("gpt-5", 8_000, policy=CompactPolicy(keep_recent_turns=2), exporter=ConsoleExporter(),
                      token_estimator=NoopEstimator())
    )  # fmt: skip
    chat = ChatCompletions(FakeClient(), manager, session_id="chat")
    history: list[dict[str, Any]] = [{"role": "system", "content": "You keep a weather log."}]
    for number in range(12):
        history.append({"role": "user", "content": f"Entry {number}. " + "It rained on the hills again. " * 40})
        reply = chat.create(model="gpt-5", messages=history)
        history.append({"role": "assistant", "content": reply.choices[0].message.content})
    print(f"{len(history)} messages in the history, last request {manager.remember('chat').tokens:,} tokens")


if __name__ == "__main__":
    main()
