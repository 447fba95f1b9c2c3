"""`manage.py pack_payloads`: convert payloads and data that earlier versions stored as jsonb."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from ingest.storage.payload_conversion import convert


class Command(BaseCommand):
    help = "Convert what earlier versions stored as jsonb. Agents can send at the same time. Can be repeated."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"{sum(convert()):,} spans converted")
