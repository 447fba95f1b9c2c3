"""Play a story the way an agent loop runs: preflight, model call, tool calls, each as a span.

The script decides what the models say and when they refuse, omit something or overflow. The reactions are the
library's own.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.events import parent_span
from compact.exceptions import SummaryRefused
from compact.protocols import Exporter, StorageAdapter
from compact.summarizers import ExtractiveSummarizer

from ariadne.demo.clock import Clock, PastClock, PastExporter
from ariadne.demo.script import Step, Story, Turn

_ARTIFACT = "{artifact}"
# Ratio of the provider's token count to the estimate in a scripted overflow.
_UNDERCOUNT = 1.4


class Player:
    """Plays one session of one story."""

    def __init__(
        self,
        story: Story,
        exporter: Exporter,
        storage: StorageAdapter | None,
        clock: Clock,
    ) -> None:
        self._story = story
        self._exporter = exporter
        self._clock = clock
        self._summarizer = ScriptedSummarizer(omits=story.summarizer_omits)
        self._overflows = 0
        self._manager = CompactManager(
            CompactConfig(
                model=story.model,
                max_context_tokens=story.window_tokens,
                policy=CompactPolicy(
                    strategy=story.strategy,
                    hard_cap_buffer=600,
                    keep_recent_turns=3,
                    # A rule that a summary omits is only restored if its message has left the prompt.
                    story_pct=0.0 if story.summarizer_omits else CompactPolicy().story_pct,
                ),
                summarizer=self._summarizer,
                exporter=PastExporter(exporter, clock) if isinstance(clock, PastClock) else exporter,
                storage=storage,
                artifact_store=MemoryArtifactStore() if story.externalizes else None,
            )
        )
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": story.system}]
        self._tools = [_schema(name) for name in story.tools]
        self._trace_id = ""
        self._turns = 0
        self._last_prompt: list[dict[str, Any]] = []
        self._last_tokens = 0

    def play(self) -> None:
        for number, turn in enumerate(self._story.turns, start=1):
            self._clock.is_fast = number < self._story.live_from
            self._play_turn(number, turn)
            self._clock.spend(self._story.user_pause_s)

    def _play_turn(self, number: int, turn: Turn) -> None:
        """Play one user message and all the agent's work on it as one trace, like the Agents SDK."""
        self._trace_id = secrets.token_hex(16)
        trace = {"type": "trace", "trace_id": self._trace_id, "group_id": self._story.session_id}
        opening = {"name": f"Request {number}", "started_at": self._now(), "metadata": self._story.metadata}
        self._exporter.emit({**trace, **opening})
        self._summarizer.refusals += turn.summarizer_refuses
        self._overflows += turn.provider_overflows
        self._messages.append({"role": "user", "content": self._with_artifact_id(turn.user)})
        with self._span("agent", self._story.agent, data={}, payload={"input": turn.user}) as agent_id:
            for index, step in enumerate(turn.steps):
                self._play_step(f"call_{number}_{index}", step, agent_id)
            with self._turn(agent_id) as turn_id:
                self._generate(turn.reply, turn_id)
            self._messages.append({"role": "assistant", "content": turn.reply})
        self._exporter.emit({**trace, "ended_at": self._now()})

    def _play_step(self, call_id: str, step: Step, agent_id: str) -> None:
        arguments = json.dumps(step.arguments)
        call = {"id": call_id, "type": "function", "function": {"name": step.tool, "arguments": arguments}}
        with self._turn(agent_id) as turn_id:
            self._generate(step.says or f"{step.tool}({arguments})", turn_id)
            self._messages.append({"role": "assistant", "content": step.says, "tool_calls": [call]})
            with self._span(
                *("tool", step.tool),
                parent_id=turn_id,
                data={"arguments": step.arguments},
                payload={"output": step.output},
                is_error=step.is_error,
            ):
                self._clock.spend(step.seconds)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": step.output})

    def _turn(self, agent_id: str) -> AbstractContextManager[str]:
        """Open the span of one model call and the tool calls it makes."""
        self._turns += 1
        return self._span("turn", f"Turn {self._turns}", parent_id=agent_id, data={"turn": self._turns})

    def _generate(self, output: str, parent_id: str) -> None:
        """Call the model after a preflight, and retry if the provider reports an overflow."""
        session_id = self._story.session_id
        token = parent_span.set((self._trace_id, parent_id))
        try:
            self._manager.call_with_recovery(
                session_id,
                self._messages,
                lambda prompt: self._call_model(prompt, output, parent_id),
                tools=self._tools,
            )
        finally:
            parent_span.reset(token)

    def _call_model(self, prompt: list[dict[str, Any]], output: str, parent_id: str) -> None:
        input_tokens = self._manager.remember(self._story.session_id).tokens
        is_overflow, self._overflows = self._overflows > 0, max(0, self._overflows - 1)
        data: dict[str, Any] = {"model": self._story.model, "prompt_messages": len(prompt)}
        if is_overflow:
            refusal = ContextLengthExceeded(self._story.window_tokens, round(input_tokens * _UNDERCOUNT))
            data["error"] = {"message": str(refusal)}
            with self._span("generation", self._story.model, parent_id=parent_id, data=data, is_error=True):
                self._clock.spend(0.4)
            raise refusal
        data["usage"] = {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": self._cached_tokens(prompt, input_tokens)},
            "output_tokens": max(1, len(output) // 4),
        }
        with self._span("generation", self._story.model, parent_id=parent_id, data=data, payload={"output": output}):
            self._clock.spend(1.4 + len(output) / 80)

    def _cached_tokens(self, prompt: list[dict[str, Any]], input_tokens: int) -> int:
        """Return the tokens that a provider would read from its cache. The prompt must extend the one before."""
        is_prefix = prompt[: len(self._last_prompt)] == self._last_prompt
        cached_tokens = self._last_tokens if self._last_prompt and is_prefix else 0
        self._last_prompt, self._last_tokens = list(prompt), input_tokens
        return min(cached_tokens, input_tokens)

    def _with_artifact_id(self, text: str) -> str:
        """Insert the id of the first externalized page where the script refers to it."""
        if _ARTIFACT not in text:
            return text
        plan = self._manager.plan(self._story.session_id)
        artifact_ids = [record.artifact_id for record in plan.externalizations] if plan else []
        return text.replace(_ARTIFACT, artifact_ids[0] if artifact_ids else "the first page")

    @contextmanager
    def _span(
        self,
        kind: str,
        name: str,
        *,
        parent_id: str | None = None,
        data: dict[str, Any],
        payload: dict[str, Any] | None = None,
        is_error: bool = False,
    ) -> Iterator[str]:
        span_id = secrets.token_hex(8)
        span: dict[str, Any] = {"type": "span", "trace_id": self._trace_id, "span_id": span_id, "kind": kind}
        span |= {"name": name, "parent_id": parent_id, "started_at": self._now(), "data": data}
        self._exporter.emit(span if parent_id else {key: span[key] for key in span if key != "parent_id"})
        yield span_id
        ending: dict[str, Any] = {"status": "error" if is_error else "ok", "ended_at": self._now()}
        self._exporter.emit({**span, **ending, **({"payload": payload} if payload else {})})

    def _now(self) -> str:
        return self._clock.now().isoformat()


class ContextLengthExceeded(Exception):
    """A context overflow with the wording of a real provider."""

    def __init__(self, limit_tokens: int, requested_tokens: int) -> None:
        super().__init__(
            f"This model's maximum context length is {limit_tokens} tokens. However, your messages resulted in "
            f"{max(requested_tokens, limit_tokens + 1)} tokens. Please reduce the length of the messages."
        )


class ScriptedSummarizer:
    """The built-in summarizer, made to refuse or to omit a message as a real model might."""

    def __init__(self, *, omits: str = "") -> None:
        self.refusals = 0
        self._omits = omits
        self._inner = ExtractiveSummarizer()
        # Without an omission, a summary is that of the built-in summarizer, and a replay gives the same.
        self.name = "scripted" if omits else self._inner.name
        self.continues_summary = self._inner.continues_summary

    def summarize_span(self, messages: Any, **options: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise SummaryRefused("the model declined to summarize this conversation")
        if self._omits:
            messages = [message for message in messages if self._omits not in message.text]
        return self._inner.summarize_span(messages, **options)


def _schema(name: str) -> dict[str, Any]:
    properties = {"path": {"type": "string"}, "query": {"type": "string"}, "number": {"type": "string"}}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name.replace('_', ' ').capitalize()} and return what was found.",
            "parameters": {"type": "object", "properties": properties},
        },
    }
