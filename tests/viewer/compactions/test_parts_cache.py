"""Parts of compaction pages are kept per project and right, in a bounded cache, and never outlive their spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from people import Event, add_events, client_for, create_project, create_session, create_user

from ingest.cells import cells_of
from ingest.models import Project, Session, Span
from ingest.storage.payloads import pack
from viewer.compactions import parts_cache
from viewer.compactions.page_parts import ContentParts, PublicParts
from viewer.compactions.parts_cache import Key, PartsCache

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/sessions/run/compactions/1/"


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    parts_cache.cache.clear()
    yield
    parts_cache.cache.clear()


def add_compaction(session: Session, secret: str, *, seq: int = 2) -> None:
    """Add a compaction whose summary and lost fact contain a secret."""
    entry = {"id": "m0", "hash": "a" * 64, "role": "user", "tokens": 7, "fate": "summarized", "rule": "old"}
    events: dict[str, Event] = {
        "compact.trigger_decision": ({"triggered": True, "t_est": 90, "max_tokens": 100}, {}),
        "compact.pruned_messages": ({"tokens_after": 40, "fates": {"summarized": 1}}, {"ledger": [entry]}),
        "compact.summary_created": ({"version": 1, "summary_tokens": 12}, {"summary": f"# State\n- {secret} [m0]"}),
        "compact.retention": (
            {"facts_total": 2, "facts_kept": 1},
            {"lost": [{"kind": "id", "text": f"lost {secret}", "source_ids": ["m0"]}]},
        ),
    }
    add_events(session, events, seq=seq)
    Session.objects.filter(pk=session.pk).update(last_seq=seq + len(events))


def create_compaction(project: Project, secret: str) -> Session:
    session = create_session(project, session_id="run")
    add_compaction(session, secret)
    return session


@pytest.fixture
def ours() -> Project:
    project = create_project("ours")
    create_compaction(project, "Nightingale")
    return project


@pytest.fixture
def theirs() -> Project:
    project = create_project("theirs")
    create_compaction(project, "Flamingo")
    return project


def page_of(role: str, project: Project, *, status: int = 200, query: str = "") -> str:
    response = client_for(create_user(role, project)).get(PAGE + query)
    assert response.status_code == status
    return str(response.content.decode())


def forbid_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        pytest.fail("the page computed its parts")

    monkeypatch.setattr(parts_cache, "build", fail)


def test_readers_of_one_project_share_what_was_computed(
    ours: Project, theirs: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects have a session of the same name. Each reader gets the parts of their own."""
    first = page_of("operator", ours)
    assert "Flamingo" in page_of("developer", theirs)
    forbid_computing(monkeypatch)
    page = page_of("developer", ours)
    assert "Nightingale" in page and "<mark>lost Nightingale</mark>" in page
    assert "Flamingo" not in page and "Nightingale" not in first


@pytest.mark.parametrize("is_kept", [True, False])
def test_readers_without_the_right_never_get_content(
    ours: Project, theirs: Project, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    """Not from the cache, whose content is not even read, and not if their own request computes it."""
    if is_kept:
        assert "Nightingale" in page_of("developer", ours) and "Flamingo" in page_of("developer", theirs)
    asked: list[type] = []
    get = PartsCache.get
    monkeypatch.setattr(PartsCache, "get", lambda self, key, parts: asked.append(parts) or get(self, key, parts))
    page = page_of("operator", ours)
    assert "Nightingale" not in page and "Flamingo" not in page
    assert "1 of 2 facts kept (50%)" in page and '<h2 id="flow-title">' in page
    assert asked == [PublicParts]


def test_the_cache_is_bounded_and_drops_what_was_not_used_for_longest() -> None:
    keys: list[Key] = [(1, UUID(int=1), number, (), (0, None), False) for number in range(3)]
    size = PartsCache(10_000)
    size.add(keys[0], ContentParts(lines="a"))
    cache = PartsCache(2 * size.total_bytes)
    cache.add(keys[0], ContentParts(lines="a"))
    cache.add(keys[1], ContentParts(lines="b"))
    cache.add(keys[1], ContentParts(lines="c"))
    assert cache.get(keys[0], ContentParts) == ContentParts(lines="a")
    cache.add(keys[2], ContentParts(lines="d"))
    assert cache.get(keys[1], ContentParts) is None
    assert cache.get(keys[0], ContentParts) and cache.get(keys[2], ContentParts)
    assert cache.total_bytes == 2 * size.total_bytes
    cache.add(keys[1], ContentParts(lost=[{"text": str(number)} for number in range(1_000)]))
    assert cache.total_bytes == 0, "what does not fit is not kept, and nothing beside it"


def test_parts_of_changed_spans_are_computed_again(ours: Project) -> None:
    assert "Nightingale" in page_of("developer", ours)
    changed = Span.objects.filter(cell__in=cells_of(ours.pk), kind="compact.summary_created")
    changed.update(payload=pack(b'{"summary": "# State\\n- Kingfisher"}'), seq=20)
    Session.objects.filter(cell__in=cells_of(ours.pk)).update(last_seq=20)
    page = page_of("auditor", ours)
    assert "Kingfisher" in page and "• Nightingale" not in page


@pytest.mark.parametrize("role", ["developer", "operator"])
@pytest.mark.parametrize(
    ("kind", "replaced"),
    [
        ("compact.pruned_messages", "The client didn't report one"),
        ("compact.summary_created", "First summary of this session"),
        ("compact.retention", "The client didn't list the lost facts"),
    ],
)
def test_a_damaged_payload_is_a_message_and_not_an_empty_part(
    ours: Project, theirs: Project, role: str, kind: str, replaced: str
) -> None:
    """It is not kept, so that the page is right again once the payload is."""
    damaged = Span.objects.filter(cell__in=cells_of(ours.pk), kind=kind)
    (intact,) = damaged.values_list("payload", flat=True)
    damaged.update(payload=b"\x07" + bytes(intact)[1:])
    page = page_of(role, ours)
    assert f"{len(intact)} bytes that cannot be read" in page and replaced not in page
    damaged.update(payload=intact)
    assert "cannot be read" not in page_of("auditor", ours)
    assert "cannot be read" not in page_of("developer", theirs)


def test_a_damaged_summary_is_not_compared_with_the_next_one(ours: Project, theirs: Project) -> None:
    session = Session.objects.get(cell__in=cells_of(ours.pk))
    add_compaction(session, "Kingfisher", seq=10)
    Span.objects.filter(cell__in=cells_of(ours.pk), kind="compact.summary_created", seq__lt=10).update(payload=b"\x07")
    page = client_for(create_user("developer", ours)).get("/sessions/run/compactions/2/").content.decode()
    assert "the previous summary can't be read" in page and "Kingfisher" in page
    assert "First summary" not in page and "Flamingo" not in page


def test_a_long_summary_is_shown_in_full_only_on_request(theirs: Project) -> None:
    """The page has the first 300 lines and says how many are missing. A person without the right sees none."""
    ours = create_project("ours")
    create_compaction(ours, "\n".join(f"- Valve V-{number} is closed." for number in range(1_000)))
    page = page_of("developer", ours)
    assert "Valve V-298 " in page and "Valve V-299 " not in page
    assert "701 of 1,001 lines are not shown" in page
    page = page_of("auditor", ours, query="?lines=all")
    assert "Valve V-999 " in page and "hidden-lines" not in page
    assert "Valve V-" not in page_of("operator", ours, query="?lines=all")
    assert "Valve V-" not in page_of("developer", theirs, query="?lines=all")
