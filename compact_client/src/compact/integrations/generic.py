"""Hooks for a hand-written agent loop: one before each model call and one after it.

`ctx` is any object with `session_id` and `messages`. Its `tools`, `system` and `developer` are counted if present.
`ctx.protected` may list the indexes of messages that must stay, and `ctx.format` may name the format of the messages:
`chat`, `responses`, `anthropic` or `gemini`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from compact.exceptions import CompactError
from compact.integrations.model_call import CallOptions, ModelCall, report_usage, usage_of
from compact.integrations.recall_call import DESCRIPTION, TOOL_NAME, RecallCall
from compact.manager import CompactManager


def before_model_call(manager: CompactManager) -> Callable[[Any], None]:
    """Return a hook that replaces `ctx.messages` with the messages to send."""

    def hook(ctx: Any) -> None:
        ctx.messages = _model_call(manager, ctx).preflight()

    return hook


def abefore_model_call(manager: CompactManager) -> Callable[[Any], Awaitable[None]]:
    """Return the same hook for an async loop."""

    async def hook(ctx: Any) -> None:
        ctx.messages = await _model_call(manager, ctx).apreflight()

    return hook


def after_model_call(manager: CompactManager) -> Callable[[Any], None]:
    """Return a hook that reports the token counts in `ctx.usage` or `ctx.response.usage`, if there are any."""

    def hook(ctx: Any) -> None:
        usage = usage_of(ctx) or usage_of(getattr(ctx, "response", None))
        if usage is not None:
            report_usage(manager, _session_id(ctx), usage)

    return hook


def recall_tool(
    manager: CompactManager,
    session_id: str | Callable[[], str],
    *,
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> Callable[[str], str]:
    """Return a function that searches the session and returns text, to offer to the model as a tool.

    `session_id` is a string, or a function that returns the id of the current conversation.
    """
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)

    def recall(query: str) -> str:
        return call.run(session_id() if callable(session_id) else session_id, query)

    recall.__name__ = recall.__qualname__ = name
    recall.__doc__ = DESCRIPTION
    return recall


def _model_call(manager: CompactManager, ctx: Any) -> ModelCall:
    def options() -> CallOptions:
        return {
            "tools": getattr(ctx, "tools", None),
            "instructions": _instructions(ctx),
            "protected": getattr(ctx, "protected", None) or (),
            "format": getattr(ctx, "format", None),
        }

    return ModelCall(manager, _session_id(ctx), ctx.messages, options=options)


def _session_id(ctx: Any) -> str:
    session_id = getattr(ctx, "session_id", None)
    if not session_id:
        raise CompactError(
            "ctx.session_id is missing. A loop has no id of its own, so set one per conversation, such as the key of "
            "the chat in your database."
        )
    return str(session_id)


def _instructions(ctx: Any) -> str | None:
    parts = (getattr(ctx, name, None) for name in ("system", "developer"))
    return "\n\n".join(part for part in parts if isinstance(part, str) and part) or None
