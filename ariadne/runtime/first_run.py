"""Create what a new installation needs: a project, an ingest key, and a login per role.

Safe to run at every start: existing rows are kept. The credentials are written to `credentials.json`, which only its
owner can read.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from ingest.http import keys
from ingest.models import Project
from viewer.models import Membership

# Login name to group. The admin is also a Django superuser.
PEOPLE = {"operator": "operators", "developer": "developers", "auditor": "auditors", "admin": "admins"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of `credentials.json`. A password is None if it was changed outside of `make up`."""

    url: str
    ingest_key: str
    logins: dict[str, dict[str, str | None]]

    def as_dict(self) -> dict[str, Any]:
        return {"url": self.url, "ingest_key": self.ingest_key, "logins": self.logins}


def prepare(data_dir: Path, url: str) -> Credentials:
    """Create missing rows and write the credentials file."""
    file = data_dir / "credentials.json"
    saved = _read(file)
    with transaction.atomic():
        project, _ = Project.objects.get_or_create(slug="default", defaults={"name": "Default"})
        ingest_key = saved.get("ingest_key") or ""
        if not keys.is_valid(ingest_key, project):
            ingest_key = keys.create(project, label="make up")
        logins = {name: _login(name, project, saved) for name in PEOPLE}
    credentials = Credentials(url, ingest_key, logins)
    _write(file, credentials.as_dict())
    return credentials


def _login(name: str, project: Project, saved: dict[str, Any]) -> dict[str, str | None]:
    password: str | None = saved.get("logins", {}).get(name, {}).get("password")
    user, is_new = get_user_model().objects.get_or_create(
        username=name, defaults={"is_staff": name == "admin", "is_superuser": name == "admin"}
    )
    if is_new:
        password = secrets.token_urlsafe(9)
        user.set_password(password)
        user.save()
    user.groups.add(Group.objects.get_or_create(name=PEOPLE[name])[0])
    Membership.objects.get_or_create(user=user, project=project)
    return {"username": name, "password": password}


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(content, out, indent=2)
    new.replace(file)
