"""Costs of sessions and compactions, overrides of a project, and their pages and API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from people import client_for, create_project, create_session, create_user

from ingest.models import Project, Session
from ingest.models import Usage as StoredUsage
from ingest.storage.figures.recount import sum_hours
from viewer.compactions.cost import CompactionRates, cache_effect
from viewer.costs.prices import Rates
from viewer.costs.queries import costs_over_time, session_cost
from viewer.models import AuditEntry, PriceOverride
from viewer.sessions.checks import Check
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow

pytestmark = pytest.mark.django_db
HOUR = datetime(2026, 11, 16, 4, tzinfo=UTC)


def add_usage(session: Session, model: str, **more: Any) -> None:
    row = {"hour": HOUR, "provider": "", "is_summary": False, "prompt_size": 0, "call_count": 1, "reasoning_tokens": 0}
    row |= {"input_tokens": 1_000_000, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 0}
    StoredUsage.objects.create(cell=session.cell, session_key=session.session_key, model=model, **(row | more))
    sum_hours(session.cell)


@pytest.fixture
def ours() -> Project:
    return create_project("ours")


@pytest.fixture
def theirs() -> Project:
    return create_project("theirs")


def override(project: Project, model: str, amount: int) -> None:
    PriceOverride.objects.create(project=project, model=model, input_price=amount, output_price=amount)


def test_an_override_applies_to_stored_sessions_of_its_project_only(ours: Project, theirs: Project) -> None:
    mine, other = create_session(ours), create_session(theirs)
    for session in (mine, other):
        add_usage(session, "House-Model")
        add_usage(session, "gpt-5", cached_tokens=1_000_000)
    assert session_cost(mine).total == Decimal("0.125")
    override(ours, "house-model", 7)
    override(ours, "gpt-5", 100)
    assert session_cost(mine).total == Decimal(107)
    assert session_cost(other).total == Decimal("0.125")
    assert session_cost(other).unknown_models == ["House-Model"]


def test_hours_sum_to_the_sessions(ours: Project, theirs: Project) -> None:
    """For trends. Other projects do not count."""
    for number in range(3):
        add_usage(create_session(ours, session_id=f"s{number}"), "gpt-5", hour=HOUR + timedelta(hours=number % 2))
    add_usage(create_session(theirs), "gpt-5")
    costs = costs_over_time(ours.pk, HOUR, HOUR + timedelta(hours=2), lambda hour: (hour - HOUR) // timedelta(hours=1))
    assert {bucket: cost.total for bucket, cost in costs.items()} == {0: Decimal("2.5"), 1: Decimal("1.25")}


def test_only_an_admin_changes_prices_and_it_is_audited(ours: Project) -> None:
    admin, developer = client_for(create_user("admin", ours)), client_for(create_user("developer", ours))
    prices = {"model": "House-Model", "input_price": "$2", "cached_price": "0.5", "output_price": "8"}
    assert developer.post("/projects/ours/prices/save/", prices).status_code == 403
    for bad in ({"input_price": "x"}, {"input_price": "-1"}, {"input_price": "NaN"}, {"output_price": ""}):
        admin.post("/projects/ours/prices/save/", prices | bad)
    assert not PriceOverride.objects.exists()
    admin.post("/projects/ours/prices/save/", prices)
    row = PriceOverride.objects.get()
    assert (row.model, row.input_price, row.cached_price, row.cache_write_price) == (
        "house-model",
        Decimal(2),
        Decimal("0.5"),
        None,
    )
    entry = AuditEntry.objects.latest("position")
    assert (entry.action, entry.target) == ("project.change", "price of house-model in ours")
    assert entry.detail["after"]["input_price"] == "2.000000"
    assert "house-model" in developer.get("/projects/ours/prices/").content.decode()
    admin.post("/projects/ours/prices/delete/", {"model": "house-model"})
    assert not PriceOverride.objects.exists()


def test_page_and_api_show_the_cost_without_content(ours: Project, theirs: Project) -> None:
    session = create_session(ours, session_id="costly", text="SECRET of the user")
    add_usage(session, "gpt-5", output_tokens=1_000_000, reasoning_tokens=400_000)
    add_usage(session, "house-model", is_summary=True)
    client = client_for(create_user("operator", ours))
    page = client.get("/sessions/costly/cost/").content.decode()
    assert "$11.25" in page
    assert "Unknown model" in page
    assert "SECRET" not in page
    assert "$11.25" in client.get("/sessions/costly/").content.decode()
    body = client.get("/api/sessions/costly/cost/").json()
    assert (body["currency"], body["total"], body["unknown_models"]) == ("USD", "11.25", ["house-model"])
    assert [(m["model"], m["cost"], m["price"]) for m in body["models"]] == [
        ("gpt-5", "11.25", "openai/gpt-5"),
        ("house-model", None, ""),
    ]
    prices = client.get("/api/prices/?project=ours").json()["results"]
    assert {row["model"]: row["input"] for row in prices} == {"gpt-5": "1.25", "house-model": None}
    stranger = client_for(create_user("admin", theirs))
    assert stranger.get("/api/sessions/costly/cost/").status_code == 404
    assert stranger.get("/api/prices/?project=ours").json()["results"] == []


def test_amounts_of_a_page_add_up(ours: Project) -> None:
    """Each part is rounded down. The exact total of 0.000304 would be shown as $0.0003."""
    session = create_session(ours, session_id="odd")
    add_usage(session, "gpt-5", input_tokens=526, cached_tokens=350, output_tokens=4)
    (model,) = session_cost(session).round().models
    parts = [model.fresh_cost, model.cached_cost, model.cache_write_cost, model.output_cost]
    assert parts == [Decimal("0.0002"), 0, 0, 0]
    assert model.total == session_cost(session).round().total == sum(parts)
    page = client_for(create_user("operator", ours)).get("/sessions/odd/cost/").content.decode()
    assert page.count("$0.0002") == 3
    assert "$0.0003" not in page


def test_amounts_of_a_compaction_add_up() -> None:
    agent = rates("3", "0.3", "3.75", "15")
    check = compaction(10_333, 3_111, 9_000, None)
    money = cache_effect(check, 5, CompactionRates("m", agent, agent, "", None, True)).money
    assert money is not None
    shown = money.round()
    assert (shown.saved, shown.cache_lost, shown.net) == (Decimal("0.0108"), Decimal("0.0061"), Decimal("0.0047"))


def test_a_session_without_usage_has_no_cost(ours: Project) -> None:
    create_session(ours, session_id="quiet")
    client = client_for(create_user("operator", ours))
    assert "No model call of this session reports" in client.get("/sessions/quiet/cost/").content.decode()
    assert client.get("/api/sessions/quiet/cost/").json()["total"] is None


def rates(amount: str, cached: str, write: str, output: str) -> Rates:
    million = Decimal(1_000_000)
    values = [Decimal(value) / million for value in (amount, cached, write, output, output)]
    return Rates(*values, source="x/m")


def compaction(before: int, after: int, invalidated: int, summary_model: str | None) -> Check:
    kinds: dict[str, dict[str, Any]] = {
        "compact.token_estimate": {"t_est": before, "max_tokens": 200_000},
        "compact.trigger_decision": {"triggered": True},
        "compact.pruned_messages": {
            "tokens_after": after,
            "cache": {"invalidated_tokens": invalidated, "break_even_calls": 99},
        },
        "compact.summary_created": {"model": summary_model, "input_tokens": 60_000, "summary_tokens": 2_000},
    }
    (check,) = SessionChecks(
        SpanRow("t", f"s{seq}", None, kind, kind, "ok", HOUR, HOUR, None, seq, properties)
        for seq, (kind, properties) in enumerate(kinds.items())
    ).compactions()
    return check


def test_a_compaction_breaks_even() -> None:
    """100,000 tokens become 30,000, of which 10,000 stay cached. Anthropic's prices, and a cheap summarizer."""
    agent, summarizer = rates("3", "0.3", "3.75", "15"), rates("1", "0.1", "1.25", "5")
    check = compaction(100_000, 30_000, 90_000, "small")
    effect = cache_effect(check, 6, CompactionRates("m", agent, agent, "small", summarizer, True))
    money = effect.money
    assert money is not None
    assert money.cache_lost == Decimal("0.069")  # 20,000 written at 3.75 instead of read at 0.30
    assert money.summary == Decimal("0.07")
    assert money.saved_per_call == Decimal("0.021")
    assert money.break_even == effect.break_even == 7
    assert money.net == Decimal("-0.013")
    assert effect.sentence == (
        "Each later prompt is 70,000 tokens smaller and saves $0.021. It invalidated 90,000 tokens in the provider's "
        "prompt cache. 20,000 tokens were sent again uncached. It breaks even after 7 calls. So far, 6 "
        "calls followed."
    )
    assert cache_effect(check, 7, CompactionRates("m", agent, agent, "small", summarizer, True)).money.net > 0  # type: ignore[union-attr, operator]


def test_without_a_cache_a_compaction_pays_at_once() -> None:
    agent = rates("3", "0.3", "3.75", "15")
    effect = cache_effect(
        compaction(100_000, 30_000, 90_000, None), 1, CompactionRates("m", agent, agent, "", None, False)
    )
    money = effect.money
    assert money is not None
    assert (
        effect.sentence
        == "Each later prompt is 70,000 tokens smaller and saves $0.21. It saves from the first call on."
    )
    assert (money.cache_lost, money.summary, money.break_even) == (0, 0, 0)
    assert money.saved_per_call == Decimal("0.21")


def test_an_unknown_summarizer_makes_the_result_unknown() -> None:
    """The client's estimate of the calls remains."""
    agent = rates("3", "0.3", "3.75", "15")
    effect = cache_effect(
        compaction(100_000, 30_000, 90_000, "house"), 1, CompactionRates("m", agent, agent, "house", None, True)
    )
    assert effect.money is not None
    assert (effect.money.summary, effect.money.net, effect.break_even) == (None, None, 99)
    assert cache_effect(compaction(100_000, 30_000, 90_000, None), 1).money is None
