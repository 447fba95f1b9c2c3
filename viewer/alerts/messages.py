"""Texts of alerts. They contain figures, names and links. Content is added only if the rule's owner chose and may."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.urls import reverse

from ingest.cells import cells_of
from ingest.models import Project, Session
from viewer.accounts.access import Right, user_grant
from viewer.audit import log
from viewer.audit.log import Action, Origin
from viewer.kinds import RETENTION
from viewer.models import Alert, AlertRule
from viewer.numbers import format_count
from viewer.sessions import queries
from viewer.templatetags.ariadne import session_url

Kind = AlertRule.Kind
_MAX_FACTS = 10
_MAX_FACT_CHARS = 200
# Mattermost reads Markdown, mentions and bare addresses beside Slack's markup. What escapes them in one chat is shown
# by the other, so an invisible space separates what it looks for: `@all`, `[text](url)`, `https://` and `www.`.
_MARKUP = re.compile(r"@|\](?=\()|:(?=//)|\bwww(?=\.)")


def alert_title(rule: AlertRule, figures: dict[str, int], *, is_test: bool) -> str:
    """Return the figures of an alert in words."""
    if is_test:
        return f"Test of the alert rule “{rule.name}”"
    count, worst = figures["count"], figures["worst"]
    return {
        Kind.FACTS_LOST: (
            f"{count:,} compactions lost facts, the worst of them {worst:,}"
            if count > 1
            else f"A compaction lost {format_count(worst, 'fact')}"
        ),
        Kind.FALLBACK: f"{format_count(count, 'summary fallback')} within {format_minutes(rule.window_minutes)}",
        Kind.OVERFLOW: f"{format_count(count, 'context overflow')} within {format_minutes(rule.window_minutes)}",
        Kind.NEAR_LIMIT: (
            f"{count:,} sessions are near the context limit, the fullest at {worst}%"
            if count > 1
            else f"A session filled {worst}% of its context window"
        ),
        Kind.SILENCE: f"No data received for {format_minutes(worst)}",
    }[Kind(rule.kind)]


def format_minutes(minutes: int) -> str:
    if minutes % 60 or not minutes:
        return format_count(minutes, "minute")
    return format_count(minutes // 60, "hour")


def describe_condition(rule: AlertRule) -> str:
    """Describe when a rule fires."""
    amount = rule.threshold
    return {
        Kind.FACTS_LOST: f"A compaction loses at least {format_count(amount, 'fact')}",
        Kind.FALLBACK: f"At least {format_count(amount, 'fallback')} within {format_minutes(rule.window_minutes)}",
        Kind.OVERFLOW: f"At least {format_count(amount, 'overflow')} within {format_minutes(rule.window_minutes)}",
        Kind.NEAR_LIMIT: f"A prompt fills at least {amount}% of the context window",
        Kind.SILENCE: f"No data for {format_minutes(amount)}",
    }[Kind(rule.kind)]


def webhook_body(alert: Alert) -> dict[str, Any]:
    """Return the JSON of a webhook: `text` for Slack and compatible chats, and the same as fields."""
    rule, project = alert.rule, alert.rule.project
    sessions = [
        {"id": entry["id"], "url": _session_address(entry), "value": entry["value"], "count": entry["count"]}
        for entry in alert.sessions
    ]
    body: dict[str, Any] = {
        "text": _slack_text(alert, project, sessions),
        "id": alert.id,
        "kind": rule.kind,
        "rule": rule.name,
        "project": project.slug,
        "title": alert.title,
        "is_test": alert.is_test,
        "fired_at": alert.fired_at.isoformat().replace("+00:00", "Z"),
        "figures": alert.figures,
        "sessions": sessions,
        "url": _alerts_address(project),
    }
    facts = lost_facts(alert)
    return body | {"facts": facts} if facts else body


def email_text(alert: Alert) -> tuple[str, str]:
    """Return the subject and the plain text of an e-mail."""
    rule, project = alert.rule, alert.rule.project
    lines = [alert.title, "", f"Project: {project.name}", f"Rule: {rule.name} ({describe_condition(rule)})"]
    if alert.figures.get("suppressed"):
        lines.append(f"{format_count(alert.figures['suppressed'], 'match')} during the cool-down before.")
    lines += ["", *(f"{log.clean(entry['id'][:200])}: {_session_address(entry)}" for entry in alert.sessions)]
    if facts := lost_facts(alert):
        lines += ["", "Lost facts:", *(f"- {fact}" for fact in facts)]
    lines += ["", f"All alerts: {_alerts_address(project)}"]
    subject = log.clean(f"[Ariadne] {project.name}: {alert.title}")[:200]
    return subject, "\n".join(lines)


def lost_facts(alert: Alert) -> list[str]:
    """Return the texts of lost facts if the owner of the rule chose to include content and may see it.

    Sending them is recorded in the audit log.
    """
    owner = alert.rule.created_by
    if owner is None or not alert.sessions or not _may_include_content(alert):
        return []
    entry = alert.sessions[0]
    session = Session.objects.filter(cell__in=cells_of(alert.project_id), session_key=entry["key"]).first()
    lost = _lost_of_span(session, entry["span"]) if session and entry["span"] else []
    texts = [log.clean(str(fact.get("text", "")))[:_MAX_FACT_CHARS] for fact in lost if isinstance(fact, dict)]
    if session is None or not texts:
        return []
    log.record(
        Origin(owner.pk, f"{owner.get_username()} (alert rule {alert.rule_id})"),
        Action.ALERT_CONTENT,
        project_id=alert.project_id,
        target=session.session_id,
        session=session.session_id,
        alert=alert.id,
    )
    return texts[:_MAX_FACTS]


def _may_include_content(alert: Alert) -> bool:
    """Return True if the owner chose to include content and may see it now, in a project that demands no reason."""
    rule, owner = alert.rule, alert.rule.created_by
    if not rule.includes_content or rule.kind != Kind.FACTS_LOST or rule.project.requires_view_reason:
        return False
    return owner is not None and user_grant(owner).may(Right.PAYLOAD, alert.project_id)


def _lost_of_span(session: Session, name: str) -> list[Any]:
    span = queries.span(session, name, with_payload=True)
    if span is None or span.row.kind != RETENTION or not isinstance(span.payload, dict):
        return []
    lost = span.payload.get("lost")
    return lost if isinstance(lost, list) else []


def _slack_text(alert: Alert, project: Project, sessions: list[dict[str, Any]]) -> str:
    lines = [f"*{_escape(project.name)}*: {_escape(alert.title)} (rule “{_escape(alert.rule.name)}”)"]
    lines += [f"• <{entry['url']}|{_escape(entry['id'][:80])}>" for entry in sessions]
    lines.append(f"<{_alerts_address(project)}|All alerts>")
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Escape markup, so that names from agents cannot mention people, or forge links and images."""
    escaped = log.clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "¦")
    return _MARKUP.sub("\\g<0>\u200b", escaped)


def _session_address(entry: dict[str, Any]) -> str:
    return settings.PUBLIC_URL + session_url(Session(session_key=entry["key"], session_id=entry["key"]))


def _alerts_address(project: Project) -> str:
    return f"{settings.PUBLIC_URL}{reverse('alert-list')}?project={project.slug}"
