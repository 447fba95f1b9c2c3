"""A conversation about a refund, and a summarizer for it that asks a scripted endpoint."""

from __future__ import annotations

from client.chat_endpoint import ChatEndpoint
from compact.messages import Message
from compact.summarizers import ModelSummarizer

SPAN = [
    Message("user", "Refund order ORD-4711. Never refund more than $80.", id="m1"),
    Message("assistant", "I'll refund $75 because the item broke.", id="m2"),
    Message("tool", "refund rf_9001 created", tool_call_id="c1", id="m3"),
]
GOOD = {
    "current_task": "Refund order ORD-4711",
    "constraints": [{"text": "Never refund more than $80.", "sources": ["m1"]}],
    "decisions": [{"decision": "refund $75", "rationale": "the item broke", "sources": ["m2"]}],
    "entities": [{"name": "rf_9001", "role": "refund", "sources": ["m3", "made-up"]}],
}


def summarizer(endpoint: ChatEndpoint, **options: object) -> ModelSummarizer:
    return ModelSummarizer("small-model", base_url=endpoint.url, api_key="key-1", **{"timeout_s": 5.0, **options})
