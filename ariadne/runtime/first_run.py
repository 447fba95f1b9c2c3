"""Create what a new installation needs: a project, an ingest key, and a login per role.

Safe to run at every start: existing rows are kept. The credentials are written to `credentials.json`, which only its
owner can read.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.db import transaction

from ingest.http import keys
from ingest.models import Project
from viewer.models import Membership

# Login name to group. The admin is also a Django superuser.
PEOPLE = {"operator": "operators", "developer": "developers", "auditor": "auditors", "admin": "admins"}
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of `credentials.json`. A password is None if it was changed outside of `make up`."""

    url: str
    ingest_key: str
    logins: dict[str, dict[str, str | None]]

    def as_dict(self) -> dict[str, Any]:
        return {"url": self.url, "ingest_key": self.ingest_key, "logins": self.logins}


def prepare(data_dir: Path, url: str, *, people: Collection[str] = PEOPLE.keys()) -> Credentials:
    """Create missing rows, among them the logins of `people`, and write the credentials file."""
    file = data_dir / "credentials.json"
    saved = _read(file)
    with transaction.atomic():
        project, _ = Project.objects.get_or_create(slug="default", defaults={"name": "Default"})
        ingest_key = saved.get("ingest_key") or ""
        if not keys.is_valid(ingest_key, project):
            ingest_key = keys.create(project, label="make up")
        passwords = _logins(project, saved, people)
        logins = {name: {"username": name, "password": password} for name, password in passwords.items()}
    credentials = Credentials(url, ingest_key, logins)
    _write(file, credentials.as_dict())
    return credentials


def _logins(project: Project, saved: dict[str, Any], people: Collection[str]) -> dict[str, str | None]:
    """Create missing users of `people`, and return the password of each login that exists."""
    users = get_user_model().objects
    existing = set(users.filter(username__in=PEOPLE).values_list("username", flat=True))
    new = {name: secrets.token_urlsafe(9) for name in set(people) - existing}
    # A hash takes a third of a second, during which the interpreter lock is released.
    with ThreadPoolExecutor() as pool:
        hashes = dict(zip(new, pool.map(make_password, new.values()), strict=True))
    passwords: dict[str, str | None] = {}
    for name, group in PEOPLE.items():
        if name not in existing | new.keys():
            continue
        is_admin = name == ADMIN
        defaults = {"password": hashes.get(name, ""), "is_staff": is_admin, "is_superuser": is_admin}
        user, is_new = users.get_or_create(username=name, defaults=defaults)
        user.groups.add(Group.objects.get_or_create(name=group)[0])
        Membership.objects.get_or_create(user=user, project=project)
        passwords[name] = new.get(name) if is_new else saved.get("logins", {}).get(name, {}).get("password")
    return passwords


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
