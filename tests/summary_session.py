"""A conversation that is built call by call and summarized by the built-in summarizer."""

from __future__ import annotations

import json

from compact.messages import Message, ToolCall
from compact.summarizers import ExtractiveSummarizer
from compact.summary.structured_summary import StructuredSummary

STYLES = (
    "task_state",
    "brief",
    "extractive_brief",
    "decision_log",
    "code_delta",
    "step_ledger",
    "requirements_ledger",
)


class Session:
    """Builds a conversation call by call."""

    def __init__(self, *requests: str) -> None:
        self.messages = [Message("user", text, id=f"u{number}") for number, text in enumerate(requests)]

    def call(self, name: str, result: str, **arguments: object) -> Session:
        number = len(self.messages)
        call = ToolCall(f"c{number}", name, json.dumps(arguments))
        self.messages.append(Message("assistant", "", tool_calls=(call,), id=f"a{number}"))
        self.messages.append(Message("tool", result, tool_call_id=call.id, id=f"t{number}"))
        return self

    def user(self, text: str) -> Session:
        self.messages.append(Message("user", text, id=f"u{len(self.messages)}"))
        return self

    def summary(self, *, max_tokens: int = 800, style: str = "task_state") -> StructuredSummary:
        return ExtractiveSummarizer().summarize_span(self.messages, max_tokens=max_tokens, style=style)

    def text(self, **options: object) -> str:
        return self.summary(**options).render()


def edit(session: Session, path: str, old: str, new: str, result: str = "ok") -> Session:
    return session.call("Edit", result, file_path=path, old_string=old, new_string=new)
