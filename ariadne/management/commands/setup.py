"""`manage.py setup`: migrate, distribute new tables on a cluster, create missing logins. Safe to run at every start."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader

from ariadne.runtime.first_run import ADMIN, PEOPLE, prepare
from ingest.storage.database import distribution


class Command(BaseCommand):
    help = "Migrate, and create the first project, ingest key and logins if they are missing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="http://127.0.0.1:8000", help="the address to write into credentials.json")
        parser.add_argument(
            "--admin-only",
            action="store_true",
            default=settings.PRODUCTION,
            help="create the login of the admin, and none for the demo. The default in production",
        )

    def handle(self, *_args: Any, url: str, verbosity: int, admin_only: bool, **_options: Any) -> None:
        try:
            refuse_unknown_migrations()
            call_command("migrate", verbosity=0, interactive=False)
        except OperationalError as error:
            first_line = str(error).splitlines()[0]
            raise CommandError(f"cannot connect to the database: {first_line}. Check DATABASE_URL.") from None
        if distribution.is_distributed():
            # Migrations run on the cluster. The tables they create are on the coordinator until here.
            distribution.distribute()
        prepare(settings.DATA_DIR, url, people=[ADMIN] if admin_only else PEOPLE)
        if verbosity:
            self.stdout.write(f"Ready. The logins and the ingest key are in {settings.DATA_DIR / 'credentials.json'}")


def refuse_unknown_migrations() -> None:
    """Raise an error if another version migrated this database. Its tables may have a form that this one can't read."""
    loader = MigrationLoader(connection)
    names = set(loader.applied_migrations or ()) - set(loader.disk_migrations or ())
    unknown = sorted(f"{app}.{name}" for app, name in names if app in {"ingest", "viewer"})
    if unknown:
        raise CommandError(
            f"another version of Ariadne has migrated this database ({', '.join(unknown)}). Start that version or a"
            " later one, or restore a backup from before its upgrade into an empty database."
        )
