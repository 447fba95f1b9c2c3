"""Run a gateway with the settings in its environment: `python -m compact.gateway`. `compactctl gateway` does this."""

from __future__ import annotations

import asyncio
import sys

from compact.gateway.relay.process import Relay, listen
from compact.gateway.settings import read_settings


def main() -> int:
    """Run until a signal and return the exit code."""
    settings = read_settings()
    try:
        listener = listen(settings)
    except OSError as error:
        sys.stderr.write(f"compactctl: Cannot listen on {settings.host}:{settings.port}: {error.strerror}\n")
        return 1

    async def run() -> int:
        return await Relay(settings, listener).run()

    try:
        import uvloop
    except ImportError:
        return asyncio.run(run())
    return uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
