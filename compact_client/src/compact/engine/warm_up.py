"""Load everything that the first compaction needs, before it is needed.

The first compaction of a process imports modules, compiles patterns and fills caches. A warm-up compacts a small
made-up conversation instead, with nothing of the caller's but the model and the policy's style.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from compact import events
from compact.config import CompactConfig
from compact.engine.call import Call
from compact.engine.effects import run
from compact.engine.engine import Engine
from compact.engine.preflight import preflight
from compact.engine.session import Branches
from compact.policy import CompactPolicy

_TURNS = 24
_WINDOW_TOKENS = 8_000


class WarmUp:
    """A warm-up that runs in the background. `await` it, or call `wait` in sync code."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._future: Future[None] = Future()
        threading.Thread(target=self._run, args=(work,), name="compact-warm-up", daemon=True).start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised by `wait` and `await`
            self._future.set_exception(error)
        else:
            self._future.set_result(None)

    def wait(self, timeout_s: float | None = None) -> None:
        """Block until the warm-up is complete. Raise `TimeoutError` if it takes longer."""
        self._future.result(timeout_s)

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()


def rehearse(cfg: CompactConfig) -> None:
    """Compact a made-up conversation with the built-in parts."""
    policy = CompactPolicy(strategy=cfg.policy.strategy, renderer=cfg.policy.renderer)
    engine = Engine(CompactConfig(cfg.model, _WINDOW_TOKENS, policy, redaction=cfg.redaction), events.utc_now)
    call = Call(_conversation(), note="warm-up")
    branches = Branches("warm-up", events.new_trace_id(), redactor=engine.redactor, max_branches=1, max_requests=1)
    run(preflight(engine, branches.select(call.items), call))


def _conversation() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful engineer."}]
    for number in range(_TURNS):
        function = {"name": "read_file", "arguments": f'{{"path": "src/module_{number}.py"}}'}
        call_id = f"call-{number}"
        messages += [
            {"role": "user", "content": f"Fix test_{number} in src/module_{number}.py. Never change the public API."},
            {
                "role": "assistant",
                "content": f"I will read src/module_{number}.py, because test_{number} fails there.",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": f"def f_{number}(x):\n    return x + {number}\n" * 8},
            {"role": "assistant", "content": f"Decision: return x - {number}, since the caller adds it again."},
        ]
    return messages
