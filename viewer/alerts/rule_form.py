"""The form of an alert rule: validation and saving."""

from __future__ import annotations

import secrets
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from ingest.models import Project
from viewer.alerts import encryption, webhooks
from viewer.audit import log
from viewer.models import AlertRule

Kind = AlertRule.Kind
MAX_RULES = 50
_MAX_EMAILS = 5
_WEEK_MINUTES = 7 * 24 * 60
# Largest threshold of each kind, and the text of its unit.
LIMITS = {
    Kind.FACTS_LOST: (100_000, "facts in one compaction"),
    Kind.FALLBACK: (1_000, "fallbacks within the window"),
    Kind.OVERFLOW: (1_000, "overflows within the window"),
    Kind.NEAR_LIMIT: (100, "% of the context window"),
    Kind.SILENCE: (_WEEK_MINUTES, "minutes without data"),
}


class RuleForm(forms.Form):
    """Fields of a rule. An empty webhook address keeps the stored one, which is never shown."""

    name = forms.CharField(max_length=100)
    kind = forms.ChoiceField(label="Alert on", choices=Kind.choices)
    threshold = forms.IntegerField(min_value=1)
    window_minutes = forms.IntegerField(
        label="Window", min_value=1, max_value=24 * 60, initial=60, help_text="Counts what happened in this time."
    )
    cooldown_minutes = forms.IntegerField(
        label="Cool-down",
        min_value=1,
        max_value=_WEEK_MINUTES,
        initial=60,
        help_text="The rule sends no second alert in this time.",
    )
    session_filter = forms.CharField(
        label="Only sessions with", max_length=200, required=False, help_text="Part of the session ID. Optional."
    )
    model_filter = forms.CharField(
        label="Only models with", max_length=200, required=False, help_text="Part of the model name. Optional."
    )
    webhook_url = forms.CharField(
        label="Webhook address",
        max_length=2_000,
        required=False,
        help_text="Optional. Slack, Mattermost or your own receiver. Private addresses are refused.",
    )
    removes_webhook = forms.BooleanField(required=False)
    emails = forms.CharField(
        label="E-mail to",
        max_length=2_000,
        required=False,
        help_text=f"Up to {_MAX_EMAILS} addresses, separated by commas.",
    )
    includes_content = forms.BooleanField(required=False)

    def __init__(self, *args: Any, has_webhook: bool = False, may_payload: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if has_webhook:
            help_text = "Leave empty to keep the current address. A new address gets a new signing secret."
            self.fields["webhook_url"].label, self.fields["webhook_url"].help_text = "New webhook address", help_text
        self.may_payload = may_payload

    def clean_name(self) -> str:
        return log.clean_input(self.cleaned_data["name"])[:100]

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"].strip()
        if not url:
            return ""
        try:
            webhooks.resolve(url)
        except webhooks.Refused as error:
            raise ValidationError(str(error)) from None
        except webhooks.Failed:
            # The name server may be unavailable now. The address is checked again before each request.
            pass
        return url

    def clean_emails(self) -> list[str]:
        addresses = self.cleaned_data["emails"].replace(";", ",").replace("\n", ",").split(",")
        emails = list(dict.fromkeys(address.strip() for address in addresses if address.strip()))
        if len(emails) > _MAX_EMAILS:
            raise ValidationError(f"Enter at most {_MAX_EMAILS} e-mail addresses.")
        for email in emails:
            validate_email(email)
        if emails and not settings.EMAIL_HOST:
            raise ValidationError("E-mail isn't configured on this server.")
        return emails

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        most, unit = LIMITS.get(Kind(values["kind"]), (0, "")) if "kind" in values else (0, "")
        if most and values.get("threshold", 0) > most:
            self.add_error("threshold", f"Enter a number from 1 to {most:,} ({unit}).")
        if values.get("includes_content") and not self.may_payload:
            self.add_error("includes_content", "You don't have permission to view payloads.")
        return values

    def save(self, rule: AlertRule, project: Project, owner: User) -> str:
        """Save the rule. Return the signing secret of a new webhook, which is shown once."""
        values = self.cleaned_data
        for name in ("name", "kind", "threshold", "window_minutes", "cooldown_minutes", "session_filter"):
            setattr(rule, name, values[name])
        rule.model_filter, rule.emails = values["model_filter"], values["emails"]
        rule.includes_content = values["includes_content"]
        rule.project, rule.created_by, rule.problem, rule.matches = project, owner, "", []
        secret = ""
        if values["webhook_url"]:
            secret = new_secret(rule)
            rule.webhook_url = encryption.encrypt(values["webhook_url"])
            rule.webhook_host = webhooks.parse(values["webhook_url"]).hostname or ""
        elif values["removes_webhook"]:
            rule.webhook_url = rule.webhook_host = rule.webhook_secret = ""
        rule.save()
        return secret


def new_secret(rule: AlertRule) -> str:
    """Set a new signing secret on the rule and return it. The caller saves the rule."""
    secret = f"aris_{secrets.token_urlsafe(32)}"
    rule.webhook_secret = encryption.encrypt(secret)
    return secret


def initial_values(rule: AlertRule) -> dict[str, Any]:
    """Return the values of the form for a stored rule, without its webhook address."""
    names = ("name", "kind", "threshold", "window_minutes", "cooldown_minutes", "session_filter", "model_filter")
    values = {name: getattr(rule, name) for name in names}
    return values | {"emails": ", ".join(rule.emails), "includes_content": rule.includes_content}
