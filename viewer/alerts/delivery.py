"""Deliver pending alerts, with retries.

A delivery is claimed for a while before it is sent, and the claim is committed first. Other processes skip it. If this
process dies in between, the delivery is tried again after the claim ends. A receiver can therefore get an alert twice,
and recognizes it by its id.
"""

from __future__ import annotations

import logging
import smtplib
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from ingest.cells import cells_of, learn
from ingest.clock_tolerance import MAX_SKEW
from viewer.alerts import encryption, messages, webhooks
from viewer.models import AlertDelivery, AlertRule

State = AlertDelivery.State
_CLAIM = timedelta(minutes=2)
# The slowest receivers take eleven seconds each, so that all are tried before the claim ends.
_MAX_CLAIMED = 10
# Delays after the first, second, third and fourth attempt. The fifth is the last.
RETRY_DELAYS = tuple(timedelta(seconds=seconds) for seconds in (30, 120, 600, 3_600))
_log = logging.getLogger("ariadne.alerts")


class EmailNotConfigured(Exception):
    """The server has no mail server."""


def deliver_due(*, now: datetime | None = None) -> int:
    """Send deliveries that are due. Return how many were tried."""
    now = now or timezone.now()
    claimed = [delivery for cell, ids in _find_due(now).items() for delivery in _claim(cell, ids, now)]
    for delivery in claimed:
        _try(delivery, now)
    return len(claimed)


def deliver_now(deliveries: list[AlertDelivery]) -> None:
    """Send the deliveries of a test at once, without retries. The caller has claimed them."""
    for delivery in deliveries:
        _try(delivery, timezone.now(), is_last=True)


def _find_due(now: datetime) -> dict[int, list[int]]:
    """Return the ids of the deliveries that have waited longest, by cell. Each project with a rule may have some."""
    counts = dict(AlertRule.objects.values_list("project_id", "project__cell_count").distinct())
    learn(counts.items())
    cells = cells_of(*counts)
    due = AlertDelivery.objects.filter(cell__in=cells, state=State.PENDING).filter(_is_due(now))
    ids: dict[int, list[int]] = {}
    for cell, pk in due.order_by("next_attempt_at").values_list("cell", "id")[:_MAX_CLAIMED]:
        ids.setdefault(cell, []).append(pk)
    return ids


def _is_due(now: datetime) -> Q:
    """Return the condition of deliveries whose time has come, or is further away than any delay: a clock was ahead."""
    return Q(next_attempt_at__lte=now) | Q(next_attempt_at__gt=now + max(RETRY_DELAYS) + MAX_SKEW)


def _claim(cell: int, ids: list[int], now: datetime) -> list[AlertDelivery]:
    """Claim deliveries of one cell, without those that another process has claimed."""
    with transaction.atomic():
        due = AlertDelivery.objects.filter(cell=cell, id__in=ids, state=State.PENDING).filter(_is_due(now))
        claimed = list(
            with_alerts(due, cell).select_for_update(skip_locked=True, of=("self",)).order_by("next_attempt_at")
        )
        for delivery in claimed:
            delivery.attempts += 1
            delivery.next_attempt_at = now + _CLAIM
            delivery.save(update_fields=["attempts", "next_attempt_at"])
    return claimed


def with_alerts(deliveries: QuerySet[AlertDelivery], cell: int) -> QuerySet[AlertDelivery]:
    """Read the alerts of deliveries of a cell, with all that their texts need."""
    return deliveries.filter(alert__cell=cell).select_related("alert__rule__created_by", "alert__rule__project")


def _try(delivery: AlertDelivery, now: datetime, *, is_last: bool = False) -> None:
    is_final = False
    try:
        result = _send(delivery)
    except (webhooks.Refused, encryption.CannotDecrypt, EmailNotConfigured) as error:
        result, is_final = str(error), True
    except webhooks.Failed as error:
        result, is_final = str(error), error.is_final
    except (OSError, smtplib.SMTPException) as error:
        result = f"The mail server failed: {type(error).__name__}."
    else:
        _finish(delivery, State.SENT, result)
        return
    if is_final or is_last or delivery.attempts > len(RETRY_DELAYS):
        _finish(delivery, State.FAILED, result)
        _log.warning("alert_delivery_failed alert=%d channel=%s %s", delivery.alert_id, delivery.channel, result)
        return
    delivery.next_attempt_at = now + RETRY_DELAYS[max(0, delivery.attempts - 1)]
    delivery.result = result[:500]
    delivery.save(update_fields=["next_attempt_at", "result"])


def _send(delivery: AlertDelivery) -> str:
    alert = delivery.alert
    if delivery.channel == AlertDelivery.Channel.WEBHOOK:
        url, secret = encryption.decrypt(alert.rule.webhook_url), encryption.decrypt(alert.rule.webhook_secret)
        if not url:
            raise webhooks.Refused("The rule no longer has a webhook.")
        return webhooks.post(url, secret, messages.webhook_body(alert))
    if not settings.EMAIL_HOST:
        raise EmailNotConfigured("E-mail isn't configured on this server. Set ARIADNE_EMAIL_HOST.")
    subject, text = messages.email_text(alert)
    headers = {"X-Ariadne-Alert": str(alert.id), "Auto-Submitted": "auto-generated"}
    EmailMessage(subject, text, to=[delivery.recipient], headers=headers).send()
    return "Accepted by the mail server"


def _finish(delivery: AlertDelivery, state: AlertDelivery.State, result: str) -> None:
    delivery.state, delivery.result, delivery.finished_at = state, result[:500], timezone.now()
    delivery.save(update_fields=["state", "result", "finished_at"])
