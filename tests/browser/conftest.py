"""What a browser test waits for may take long on a machine that does other things too; a fault still fails."""

from __future__ import annotations

from playwright.sync_api import expect

expect.set_options(timeout=15_000)
