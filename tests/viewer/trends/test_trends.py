"""Trends: figures by project and model, time ranges, and the sessions behind a point."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from people import client_for, create_project, create_session, create_user, data_bytes

from ingest.cells import cells_of
from ingest.models import Project, Session, Span
from ingest.storage.figures.trends import COUNTS
from viewer.trends import periods, queries
from viewer.trends.charts import charts

NOW = timezone.now()


def add_compaction(owner: Project, name: str, at: datetime, *, kept: int, model: str = "gpt-5") -> Session:
    """Add a session with one compaction, which kept some of ten facts."""
    session = create_session(owner, session_id=name)
    events: list[tuple[str, dict[str, Any]]] = [
        ("compact.trigger_decision", {"model": model, "triggered": True}),
        ("compact.pruned_messages", {"tokens_before": 900, "tokens_after": 300, "cache": {"invalidated_tokens": 50}}),
        ("compact.retention", {"facts_total": 10, "facts_kept": kept}),
    ]
    for number, (kind, data) in enumerate(events):
        Span.objects.create(
            session_key=session.session_key,
            session_day=session.day,
            trace_id="t",
            span_id=f"c{number}",
            cell=session.cell,
            seq=2 + number,
            kind=kind,
            started_at=at,
            ended_at=at,
            data=data_bytes(data),
        )
    return session


@pytest.fixture
def ours(db: None) -> Project:
    owner, other = create_project("ours"), create_project("theirs")
    hour_ago = NOW - timedelta(hours=1)
    for number, kept in enumerate((2, 8, 9, 10)):
        add_compaction(owner, f"ours-{number}", hour_ago, kept=kept, model="gpt-5" if number else "claude-x")
    add_compaction(owner, "ours-old", NOW - timedelta(days=5), kept=5)
    add_compaction(other, "theirs-0", hour_ago, kept=1, model="secret-model")
    call_command("recount", stdout=StringIO())
    return owner


def test_the_api_returns_figures_per_hour(ours: Project) -> None:
    """Counts, the median and the worst compaction of the last day, without those of other projects."""
    client = client_for(create_user("operator", ours))
    answer = client.get("/api/trends/").json()
    assert (len(answer["points"]), answer["bucket_hours"]) == (24, 1)
    total = answer["total"]
    assert (total["compactions"], total["tokens_freed"], total["cache_lost_tokens"]) == (4, 2400, 200)
    assert (total["facts_total"], total["facts_kept"]) == (40, 29)
    assert (total["facts_kept_p50"], total["facts_kept_worst"]) == (0.8, 0.2)
    assert answer["models"] == ["claude-x", "gpt-5"]
    (busy,) = [point for point in answer["points"] if point["compactions"]]
    assert busy["compactions"] == 4
    week = client.get("/api/trends/", {"range": "7d", "group": "model"}).json()
    assert week["total"]["compactions"] == 5
    assert {one["key"]: one["total"]["compactions"] for one in week["series"]} == {"gpt-5": 4, "claude-x": 1}
    by_model = client.get("/api/trends/", {"model": "claude-x"}).json()
    assert by_model["total"]["facts_kept_worst"] == 0.2


def test_the_api_returns_the_sessions_behind_a_point(ours: Project) -> None:
    """The session that lost most facts comes first."""
    client = client_for(create_user("operator", ours))
    answer = client.get("/api/trends/").json()
    (busy,) = [point for point in answer["points"] if point["compactions"]]
    until = datetime.fromisoformat(busy["at"]) + timedelta(hours=1)
    query = {"since": busy["at"], "until": until.isoformat(), "metric": "facts"}
    rows = client.get("/api/trends/sessions/", query).json()["results"]
    assert [row["id"] for row in rows] == ["ours-0", "ours-1", "ours-2"]
    assert rows[0]["facts_total"] - rows[0]["facts_kept"] == 8


@pytest.mark.parametrize(
    "query",
    [
        {"range": "1y"},
        {"since": "yesterday"},
        {"since": "2026-01-02T00:00Z", "until": "2026-01-01T00:00Z"},
        {"since": "2020-01-01T00:00Z"},
        {"until": "9999-12-31T23:59Z"},
        {"since": "0001-01-01T00:00+14:00"},
        {"bucket": "minute"},
        {"bucket": "0"},
        {"group": "user"},
        {"project": "theirs"},
        {"since": "2026-01-01T00:00Z", "until": "2026-12-31T00:00Z", "bucket": "1"},
    ],
)
def test_invalid_parameters_are_explained(ours: Project, query: dict[str, str]) -> None:
    """Also the name of a project that the reader has no access to."""
    response = client_for(create_user("operator", ours)).get("/api/trends/", query)
    assert response.status_code == 400
    assert len(response.json()) == 1


def test_two_projects_are_added_or_kept_apart(ours: Project) -> None:
    """A member of both sees all figures, by project if asked."""
    theirs = Project.objects.get(slug="theirs")
    client = client_for(create_user("operator", ours, theirs))
    answer = client.get("/api/trends/", {"group": "project"}).json()
    assert answer["total"]["compactions"] == 5
    assert {one["key"]: one["total"]["compactions"] for one in answer["series"]} == {"ours": 4, "theirs": 1}
    assert client.get("/api/trends/", {"project": "theirs"}).json()["total"]["compactions"] == 1


def test_the_page_draws_every_figure_and_its_sessions(ours: Project) -> None:
    """Each bar links to the sessions behind it. Other projects' models are not listed."""
    client = client_for(create_user("operator", ours))
    page = client.get("/trends/").content.decode()
    assert page.count('data-testid="trend-chart"') == 8
    assert "secret-model" not in page
    (bar, *_) = [part.split('"')[0] for part in page.split('<a href="?')[1:]]
    behind = client.get("/trends/?" + bar.split("#")[0].replace("&amp;", "&")).content.decode()
    assert behind.count('data-testid="trend-session"') == 4
    assert client.get("/trends/", {"range": "nonsense"}).status_code == 400
    for at in ("nonsense", "9999-12-31T23:00Z", "0001-01-01"):
        assert client.get("/trends/", {"at": at, "metric": "x"}).status_code == 200


def test_an_empty_period_says_so(db: None) -> None:
    """A project without figures has no charts."""
    page = client_for(create_user("operator", create_project("quiet"))).get("/trends/").content.decode()
    assert "No events in this time range" in page


@pytest.mark.parametrize("name", list(periods.RANGES))
def test_named_ranges_end_with_the_current_bucket(name: str) -> None:
    """All bars have the same length, and now is in the last one."""
    now = datetime(2026, 11, 17, 3, 20, tzinfo=UTC)
    period = periods.last(name, now)
    assert period.index(now) == len(period.starts) - 1
    assert period.starts[-1] + period.bucket == period.until
    series = queries.whole([], period)
    assert not any(chart.bars for chart in charts(series, period, {}))


def test_the_middle_of_an_axis_has_a_label_only_if_it_is_exact() -> None:
    """Half of five errors would be rounded to two."""
    period = periods.last("24h", datetime(2026, 11, 17, 3, 20, tzinfo=UTC))
    for most, label in ((1, ""), (5, ""), (2, "1"), (7, "5"), (4_100, "2,500")):
        points = [
            queries.Figures([most * (name == "errors") for name in COUNTS]),
            *[queries.Figures()] * (len(period.starts) - 1),
        ]
        drawn = charts(queries.Series("", points, queries.Figures.add_up(points)), period, {})
        assert {chart.name: chart.middle_label for chart in drawn}["errors"] == label


def test_only_figures_above_zero_have_a_warning_color() -> None:
    period = periods.last("24h", datetime(2026, 11, 17, 3, 20, tzinfo=UTC))
    points = [
        queries.Figures([int(name == "errors") for name in COUNTS]),
        *[queries.Figures()] * (len(period.starts) - 1),
    ]
    drawn = charts(queries.Series("", points, queries.Figures.add_up(points)), period, {})
    assert {chart.name: chart.tone for chart in drawn if chart.tone} == {"errors": "bad"}


def test_attention_of_a_month_equals_the_sums_of_its_hours(ours: Project) -> None:
    """The sessions that a long range chooses from an index are those with most facts lost."""
    since = NOW - timedelta(days=30)
    by_hours = queries.sessions_behind([ours.pk], since, NOW + timedelta(hours=1), metric="facts")
    Session.objects.filter(cell__in=cells_of(ours.pk)).update(last_at=NOW)
    from_index = queries.worst_sessions_by_index([ours.pk], since, limit=50)["facts"]
    assert [(row.session.session_id, row.figures.facts_lost) for row in from_index] == [
        (row.session.session_id, row.figures.facts_lost) for row in by_hours
    ]
    assert [row.session.session_id for row in from_index][:2] == ["ours-0", "ours-old"]
    assert queries.worst_sessions_by_index([ours.pk], NOW + timedelta(hours=1), limit=50)["facts"] == []


def test_the_worst_sessions_of_a_day_equal_those_behind_each_metric(ours: Project) -> None:
    """One query finds the same sessions, in the same order, as a query for each metric."""
    since, until = NOW - timedelta(days=1), NOW + timedelta(hours=1)
    worst = queries.worst_sessions([ours.pk], since, until, limit=2)
    assert worst == {
        metric: queries.sessions_behind([ours.pk], since, until, metric=metric, limit=2) for metric in worst
    }
    assert worst["facts"]


@pytest.mark.parametrize(
    ("path", "target"), [("/trends/", "/trends/"), ("/alerts/", "/alerts/"), ("/compare/", "/"), ("/tokens/", "/")]
)
def test_the_project_menu_stays_on_pages_of_one_project(path: str, target: str, ours: Project) -> None:
    page = client_for(create_user("operator", ours, create_project("another"))).get(path).content.decode()
    form = page.split('class="project-form"')[1].split(">")[0]
    assert f'action="{target}"' in form
