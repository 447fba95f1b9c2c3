"""One hook for any loop: `before_model_call(ctx)`, and its counterpart after the call.

`ctx` is anything with `session_id` and `messages`; `tools`, `system` and `developer` are counted when it has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from compact.manager import CompactManager


def before_model_call(manager: CompactManager) -> Callable[[Any], None]:
    """A hook that compacts `ctx.messages` in place of what they were."""

    def hook(ctx: Any) -> None:
        ctx.messages = manager.preflight(
            ctx.session_id, ctx.messages, tools=getattr(ctx, "tools", None), instructions=_instructions(ctx)
        )

    return hook


def abefore_model_call(manager: CompactManager) -> Callable[[Any], Awaitable[None]]:
    """The same hook for an async loop."""

    async def hook(ctx: Any) -> None:
        ctx.messages = await manager.apreflight(
            ctx.session_id, ctx.messages, tools=getattr(ctx, "tools", None), instructions=_instructions(ctx)
        )

    return hook


def after_model_call(manager: CompactManager) -> Callable[[Any], None]:
    """A hook that hands the provider's own count back, if `ctx.usage` or `ctx.response.usage` has one."""

    def hook(ctx: Any) -> None:
        usage = getattr(ctx, "usage", None) or getattr(getattr(ctx, "response", None), "usage", None)
        if usage is not None:
            manager.report_usage(ctx.session_id, usage)

    return hook


def _instructions(ctx: Any) -> str | None:
    parts = [part for name in ("system", "developer") if isinstance(part := getattr(ctx, name, None), str) and part]
    return "\n\n".join(parts) or None
