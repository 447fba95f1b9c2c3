"""Browser tests wait longer than Playwright's default, because the machine may be busy with other tests."""

from __future__ import annotations

from playwright.sync_api import expect

expect.set_options(timeout=30_000)
