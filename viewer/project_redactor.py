"""The redactor of a project: the built-in rules, with the project's own patterns and exceptions as they are now."""

from __future__ import annotations

from compact.redaction import Redactor
from django.conf import settings

from ingest.decoding.door.project_rules import ProjectRules, redactor_for
from ingest.decoding.door.pseudonyms import project_key
from ingest.models import RedactionRule


def project_redactor(project_id: int) -> Redactor:
    """Return the redactor that applies to a project's texts when they are shown or exported."""
    return redactor_for(read_rules(project_id))


def read_rules(project_id: int) -> ProjectRules:
    rows = RedactionRule.objects.filter(project_id=project_id).order_by("pk")
    return ProjectRules.from_rows(
        rows.values_list("kind", "name", "value"), project_key(settings.SECRET_KEY, project_id)
    )
