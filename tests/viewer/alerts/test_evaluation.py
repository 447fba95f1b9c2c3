"""Rules fire once, across processes, crashes and replays, and alerts reach a webhook and a mailbox."""

from __future__ import annotations

import email
import ipaddress
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from django.db import DatabaseError, connection
from django.utils import timezone
from people import create_project, create_session, create_user, data_bytes
from ports import reserve_port
from receiver import Answer, Receiver

from ingest.cells import cells_of
from ingest.models import IngestKey, Project, Session, Span
from viewer.alerts import delivery, encryption, evaluation
from viewer.alerts.messages import alert_title, email_text, webhook_body
from viewer.models import Alert, AlertDelivery, AlertRule, AuditEntry, Membership

Kind = AlertRule.Kind
SECRET = "the customer's account number"


class Mailbox:
    """A mail server's handler that keeps messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.messages.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 OK"


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    """A real SMTP server, which Django's mail settings point to."""
    box = Mailbox()
    with reserve_port() as port:
        controller = Controller(box, hostname="127.0.0.1", port=port)
        controller.start()
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        yield box
        controller.stop(no_assert=True)


@pytest.fixture
def webhook(settings: Any) -> Iterator[Receiver]:
    settings.ALERT_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    with Receiver() as receiver:
        yield receiver


def create_rule(project: Project, kind: str, threshold: int, **more: Any) -> AlertRule:
    url = more.pop("url", "")
    owner = more.pop("owner", None) or create_user("developer", project)
    rule = AlertRule.objects.create(
        project=project,
        name=f"watch {kind}",
        kind=kind,
        threshold=threshold,
        created_by=owner,
        webhook_url=encryption.encrypt(url),
        webhook_host="127.0.0.1" if url else "",
        webhook_secret=encryption.encrypt("s3cret"),
        **more,
    )
    evaluation.start_project(project.pk)
    return rule


def add_span(session: Session, kind: str, data: dict[str, Any], payload: Any = None, span_id: str = "") -> None:
    """Add a span as a commit would: with a new seq in the span and in its session."""
    session.refresh_from_db()
    session.last_seq += 1
    session.save(update_fields=["last_seq"])
    now = timezone.now()
    Span.objects.create(
        session_key=session.session_key,
        session_day=session.day,
        trace_id=f"t-{session.session_id}",
        span_id=span_id or f"s{session.last_seq}",
        cell=session.cell,
        seq=session.last_seq,
        kind=kind,
        data=data_bytes(data),
        payload=data_bytes(payload) if payload else None,
        started_at=now,
        ended_at=now,
    )


def lose_facts(session: Session, lost: int) -> None:
    data = {"step": 1, "retention_pct": 0.5, "by_kind": {"number": {"found": 100, "kept": 100 - lost, "lost": lost}}}
    add_span(session, "compact.retention", data, {"lost": [{"kind": "number", "text": SECRET}], "restored": []})


def fall_back(session: Session, span_id: str = "") -> None:
    add_span(session, "compact.error", {"error_type": "TimeoutError", "fallback": "extract"}, span_id=span_id)


def evaluate(project: Project, minutes: int = 0) -> int:
    return evaluation.evaluate_project(project.pk, now=timezone.now() + timedelta(minutes=minutes))


@pytest.fixture
def ours() -> Project:
    return create_project("ours")


@pytest.mark.parametrize(
    ("kind", "count", "worst", "title"),
    [
        (Kind.FACTS_LOST, 1, 1, "A compaction lost 1 fact"),
        (Kind.FACTS_LOST, 5, 97, "5 compactions lost facts, the worst of them 97"),
        (Kind.NEAR_LIMIT, 1, 96, "A session filled 96% of its context window"),
        (Kind.NEAR_LIMIT, 3, 96, "3 sessions are near the context limit, the fullest at 96%"),
    ],
)
def test_a_title_is_one_clause(kind: str, count: int, worst: int, title: str) -> None:
    """Home continues it with " in" and the name of the session."""
    assert alert_title(AlertRule(kind=kind), {"count": count, "worst": worst}, is_test=False) == title


@pytest.mark.django_db
def test_lost_facts_reach_a_webhook_and_a_mailbox(ours: Project, webhook: Receiver, mailbox: Mailbox) -> None:
    """With figures and links. Content stays here, and so does the other project."""
    theirs = create_project("theirs")
    session = create_session(ours, session_id="agent <!channel>")
    other = create_session(theirs, session_id="their-session")
    create_rule(ours, Kind.FACTS_LOST, 10, url=webhook.url, emails=["a@example.com", "b@example.com"])
    lose_facts(session, 3)
    lose_facts(other, 90)
    assert evaluate(ours) == 0
    lose_facts(session, 42)
    assert evaluate(ours) == 1
    assert delivery.deliver_due(now=timezone.now() + timedelta(seconds=1)) == 3
    (request,) = webhook.requests
    body = json.loads(request.body)
    assert body["title"] == "A compaction lost 42 facts"
    assert (body["kind"], body["project"], body["figures"]["worst"]) == ("facts_lost", "ours", 42)
    assert body["sessions"][0]["url"].endswith(f"/sessions/{session.session_key}/")
    assert "agent &lt;!channel&gt;" in body["text"]
    assert "<!channel>" not in body["text"]
    assert [recipients for recipients, _ in mailbox.messages] == [["a@example.com"], ["b@example.com"]]
    message = mailbox.messages[0][1]
    assert message["Subject"] == "[Ariadne] Ours: A compaction lost 42 facts"
    text = message.get_payload(decode=True).decode()
    assert str(session.session_key) in text
    for sent in (request.body.decode(), text):
        assert SECRET not in sent
        assert "their-session" not in sent
    assert set(AlertDelivery.objects.values_list("state", flat=True)) == {"sent"}
    assert Alert.objects.filter(cell__in=cells_of(theirs.pk)).count() == 0


@pytest.mark.parametrize("markup", ["@all", "@channel", "[x](", "![i](", "https://", "www.evil"])
def test_names_have_no_markup_of_a_chat(markup: str) -> None:
    """Neither that of Slack nor the Markdown of Mattermost."""
    rule = AlertRule(name=f"rule {markup}", kind=Kind.FACTS_LOST, threshold=1)
    rule.project = Project(slug="p", name=f"project {markup}")
    alert = Alert(rule=rule, fired_at=timezone.now())
    alert.title, alert.figures = f"title {markup}", {"count": 1, "worst": 1}
    alert.sessions = [
        {"key": str(uuid.uuid4()), "id": f"session {markup}\nforged: line", "value": 1, "count": 1, "span": ""}
    ]
    body = webhook_body(alert)
    addresses = [body["sessions"][0]["url"], body["url"]]
    text = body["text"]
    for address in addresses:
        assert address in text
        text = text.replace(address, "")
    assert markup not in text and "session" in text
    assert "\nforged" not in email_text(alert)[1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "opted_in", "needs_reason", "is_included"),
    [
        ("developer", True, False, True),
        ("developer", False, False, False),
        ("operator", True, False, False),
        ("developer", True, True, False),
    ],
)
def test_content_is_sent_only_if_the_owner_chose_and_may(
    role: str, opted_in: bool, needs_reason: bool, is_included: bool, ours: Project, webhook: Receiver
) -> None:
    """Each time is in the audit log. A project that demands reasons sends none."""
    ours.requires_view_reason = needs_reason
    ours.save()
    session = create_session(ours)
    owner = create_user(role, ours)
    create_rule(ours, Kind.FACTS_LOST, 1, url=webhook.url, includes_content=opted_in, owner=owner)
    lose_facts(session, 5)
    evaluate(ours)
    delivery.deliver_due(now=timezone.now() + timedelta(seconds=1))
    (request,) = webhook.requests
    assert (SECRET in request.body.decode()) is is_included
    assert AuditEntry.objects.filter(action="alert.content").exists() is is_included


@pytest.mark.django_db
def test_events_are_counted_over_a_window_with_a_cool_down(ours: Project) -> None:
    """A span that arrives again, with a new seq, is one event."""
    session = create_session(ours)
    rule = create_rule(ours, Kind.FALLBACK, 3, window_minutes=10, cooldown_minutes=30)
    for number in range(2):
        fall_back(session, f"f{number}")
    assert evaluate(ours) == 0
    Span.objects.filter(span_id="f0").update(seq=1_000)
    Session.objects.update(last_seq=1_000)
    assert evaluate(ours) == 0
    fall_back(session)
    assert evaluate(ours) == 1
    assert Alert.objects.get().title == "3 summary fallbacks within 10 minutes"
    for _ in range(3):
        fall_back(session)
    assert evaluate(ours, 1) == 0
    rule.refresh_from_db()
    assert rule.suppressed_count == 3
    # The three are still counted when the cool-down has ended, if they are within the window.
    for _ in range(3):
        fall_back(session)
    assert evaluate(ours, 31) == 1
    assert Alert.objects.latest("id").figures["suppressed"] == 3


@pytest.mark.django_db
def test_a_rule_counts_the_overflows_that_the_figure_counts(ours: Project) -> None:
    """The check in which a prompt overflowed is not a second one."""
    session = create_session(ours)
    create_rule(ours, Kind.OVERFLOW, 2)
    add_span(session, "compact.check", {"trigger": "overflow"}, span_id="check")
    add_span(session, "compact.overflow_recovered", {"attempt": 1})
    Span.objects.filter(kind="compact.overflow_recovered").update(parent_id="check")
    assert evaluate(ours) == 0
    add_span(session, "compact.overflow_recovered", {"attempt": 1})
    assert evaluate(ours) == 1


@pytest.mark.django_db
def test_a_full_prompt_alerts_once_until_the_next_compaction(ours: Project) -> None:
    session = create_session(ours)
    create_rule(ours, Kind.NEAR_LIMIT, 80, cooldown_minutes=1)

    def fill(tokens: int, compactions: int) -> None:
        Session.objects.filter(pk=session.pk).update(
            last_tokens=tokens,
            window_tokens=100_000,
            compaction_count=compactions,
            last_seq=Session.objects.get(pk=session.pk).last_seq + 1,
        )

    outcomes = []
    for minutes, (tokens, compactions) in enumerate([(20_000, 0), (85_000, 0), (90_000, 0), (30_000, 1), (82_000, 1)]):
        fill(tokens, compactions)
        outcomes.append(evaluate(ours, minutes * 5))
    assert outcomes == [0, 1, 0, 0, 1]


@pytest.mark.django_db
def test_silence_alerts_once(ours: Project) -> None:
    """A project that never sent anything is not silent."""
    create_rule(ours, Kind.SILENCE, 30, cooldown_minutes=1)
    key = IngestKey.objects.create(project=ours, label="k", digest="d", hint="h")
    assert evaluate(ours) == 0
    key.last_used_at = timezone.now() - timedelta(minutes=31)
    key.save()
    assert [evaluate(ours, minutes) for minutes in (0, 5, 60)] == [1, 0, 0]
    key.last_used_at = timezone.now() + timedelta(minutes=70)
    key.save()
    assert [evaluate(ours, minutes) for minutes in (80, 101)] == [0, 1]
    assert Alert.objects.latest("id").title == "No data received for 31 minutes"


@pytest.mark.django_db
def test_filters_and_the_past_do_not_count(ours: Project) -> None:
    """Also if a rule is the first of its project."""
    session = create_session(ours, session_id="Nightly-7")
    fall_back(session)
    create_rule(ours, Kind.FALLBACK, 1, session_filter="nightly", model_filter="gpt")
    assert evaluate(ours) == 0
    fall_back(session)
    assert evaluate(ours) == 0
    Session.objects.update(model="gpt-5")
    fall_back(session)
    assert evaluate(ours) == 1


@pytest.mark.django_db
def test_a_rule_whose_owner_left_is_stopped(ours: Project) -> None:
    rule = create_rule(ours, Kind.FALLBACK, 1)
    session = create_session(ours)
    Membership.objects.all().delete()
    fall_back(session)
    assert evaluate(ours) == 0
    rule.refresh_from_db()
    assert "no longer has access" in rule.problem


@pytest.mark.django_db
def test_a_failed_delivery_is_retried_and_gives_up(ours: Project, webhook: Receiver) -> None:
    webhook.answers = [Answer(500)]
    session = create_session(ours)
    create_rule(ours, Kind.FALLBACK, 1, url=webhook.url)
    fall_back(session)
    evaluate(ours)
    now = timezone.now() + timedelta(seconds=1)
    for _ in range(5):
        assert delivery.deliver_due(now=now) == 1
        assert delivery.deliver_due(now=now) == 0
        now += timedelta(hours=2)
    row = AlertDelivery.objects.get()
    assert (row.state, row.attempts, row.result) == ("failed", 5, "HTTP 500.")
    assert len(webhook.requests) == 5
    assert delivery.deliver_due(now=now) == 0


@pytest.mark.django_db
def test_a_private_webhook_is_refused_at_delivery_too(ours: Project) -> None:
    """Without the setting, whatever the form accepted."""
    with Receiver() as receiver:
        session = create_session(ours)
        create_rule(ours, Kind.FALLBACK, 1, url=receiver.url)
        fall_back(session)
        evaluate(ours)
        delivery.deliver_due(now=timezone.now() + timedelta(seconds=1))
        assert receiver.requests == []
    row = AlertDelivery.objects.get()
    assert row.state == "failed"
    assert "private address" in row.result


@pytest.mark.django_db
def test_a_crash_during_an_evaluation_loses_nothing(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts and the position are one transaction."""
    session = create_session(ours)
    create_rule(ours, Kind.FALLBACK, 1)
    fall_back(session)

    def crash(*_: Any, **__: Any) -> None:
        raise DatabaseError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(AlertDelivery.objects, "bulk_create", crash)
        assert evaluation.evaluate_all() == 0
    assert not Alert.objects.exists()
    assert AlertRule.objects.get().problem != ""
    assert evaluation.evaluate_all() == 1
    assert AlertRule.objects.get().problem == ""
    assert Alert.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_many_processes_fire_and_send_once(ours: Project, webhook: Receiver) -> None:
    session = create_session(ours)
    create_rule(ours, Kind.FALLBACK, 1, url=webhook.url)
    fall_back(session)
    barrier = threading.Barrier(6)
    now = timezone.now()

    def work() -> None:
        barrier.wait()
        try:
            evaluation.evaluate_project(ours.pk, now=now)
            delivery.deliver_due(now=now + timedelta(seconds=1))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    delivery.deliver_due(now=now + timedelta(seconds=1))
    assert Alert.objects.count() == 1
    assert len(webhook.requests) == 1
