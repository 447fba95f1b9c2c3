"""Tables of the write path: projects, keys, sessions, traces, spans, messages and transcripts.

Each key of a growing table starts with its cell (`ingest.cells`), no foreign keys refer to or from them, and ids are
hashes or come from the client, so Citus can distribute them. Spans are partitioned by the day on which their session
was first seen. Only `ingest.storage` and `ingest.archive` write to these tables.
"""

from __future__ import annotations

import hashlib
import uuid
from functools import lru_cache

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from ingest.cells import project_of


def session_key(project_id: int, session_id: str) -> uuid.UUID:
    """Return the key of a session, which is unique across projects."""
    return _key("session", project_id, session_id)


def trace_key(project_id: int, trace_id: str) -> uuid.UUID:
    """Return the key of a trace, which is unique across projects."""
    return _key("trace", project_id, trace_id)


# A commit needs the key of a session for each of its traces.
@lru_cache(maxsize=4096)
def _key(kind: str, project_id: int, text: str) -> uuid.UUID:
    digest = hashlib.blake2b(f"{kind}:{project_id}:{text}".encode("utf-8", "surrogatepass"), digest_size=16)
    return uuid.UUID(bytes=digest.digest())


class InCell(models.Model):
    """A row of a growing table. See `ingest.cells`."""

    cell = models.BigIntegerField()

    class Meta:
        abstract = True

    @property
    def project_id(self) -> int:
        return project_of(self.cell)


class Project(models.Model):
    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Leave empty to keep data forever.",
    )
    legal_hold = models.BooleanField(default=False, help_text="Blocks all deletion in this project.")
    requires_view_reason = models.BooleanField(
        default=False,
        db_default=False,
        help_text="People enter a reason before they see payloads. It is recorded in the audit log.",
    )
    cell_count = models.PositiveSmallIntegerField(default=1, db_default=1, editable=False)  # see `ingest.cells`

    def __str__(self) -> str:
        return self.name


class IngestKey(models.Model):
    """A credential that can write into one project and cannot read."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="ingest_keys")
    label = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=16)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.label} ({self.hint}…)"


class RedactionRule(models.Model):
    """A custom redaction rule of a project, or an exception to the rules.

    A pattern is a regular expression in the syntax of RE2. An exception is the name of a rule that is turned off, or a
    text that stays visible, where `*` matches anything. `ingest.decoding.door.project_rules` applies and
    validates them.
    """

    class Kind(models.TextChoices):
        PATTERN = "pattern"
        ALLOW = "allow"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="redaction_rules")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=60, blank=True, default="")  # of a pattern, in the counts of redactions
    value = models.CharField(max_length=500)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "kind", "value"], name="redaction_rule_once"),
            models.UniqueConstraint(
                fields=["project", "name"], condition=models.Q(kind="pattern"), name="redaction_rule_name"
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.value


class Cell(models.Model):
    """The last sequence number of a cell. See `ingest.storage.sequence`."""

    cell = models.BigIntegerField(primary_key=True)
    seq = models.BigIntegerField()
    cell_count = models.PositiveSmallIntegerField(default=1, db_default=1)  # of its project

    def __str__(self) -> str:
        return f"cell {self.cell} up to {self.seq}"


# Sessions within a tenth of the trigger will compact within a turn or two.
IS_NEAR_LIMIT = Q(trigger_tokens__gt=0, last_tokens__gte=F("trigger_tokens") * 0.9)
IS_LOSSY = Q(worst_retention__lt=0.9)  # `ingest.decoding.facts.LOSSY_SHARE`, which the index has as a constant


class Session(InCell):
    """An agent session with its aggregates, which stay correct after replays."""

    pk = models.CompositePrimaryKey("cell", "session_key")
    session_key = models.UUIDField()
    session_id = models.TextField()
    day = models.DateField()  # the partition of its spans
    created_at = models.DateTimeField()
    first_at = models.DateTimeField(null=True)  # times of events are by the agent's clock
    last_at = models.DateTimeField(null=True)
    last_seq = models.BigIntegerField()
    span_count = models.IntegerField(default=0)
    running_count = models.IntegerField(default=0)
    error_count = models.IntegerField(default=0)
    turn_count = models.IntegerField(default=0)  # the highest turn number, or the number of turn spans if greater
    turn_span_count = models.IntegerField(default=0)
    check_count = models.IntegerField(default=0)
    compaction_count = models.IntegerField(default=0)
    fallback_count = models.IntegerField(default=0)
    model = models.TextField(default="")
    model_at = models.DateTimeField(null=True)
    peak_tokens = models.IntegerField(default=0)
    window_tokens = models.IntegerField(default=0)
    window_at = models.DateTimeField(null=True)
    trigger_tokens = models.IntegerField(default=0)
    trigger_at = models.DateTimeField(null=True)
    last_tokens = models.IntegerField(default=0)  # latest estimate
    last_tokens_at = models.DateTimeField(null=True)
    facts_total = models.IntegerField(default=0, db_default=0)  # found by all compactions
    facts_kept = models.IntegerField(default=0, db_default=0)
    worst_retention = models.FloatField(null=True)  # lowest share of facts that a compaction kept, from 0 to 1
    # Of the compaction that lost most facts. `worst_check` is the name of its check, `trace_id:span_id`.
    worst_lost = models.IntegerField(null=True)
    worst_total = models.IntegerField(null=True)
    worst_check = models.TextField(null=True)  # noqa: DJ001
    overflow_count = models.IntegerField(default=0, db_default=0)
    trend_model = models.TextField(null=True)  # noqa: DJ001 - NULL until trends count the session

    class Meta:
        indexes = [
            models.Index(fields=["cell", "-last_seq"], name="session_newest"),
            models.Index(fields=["cell", "day"], name="session_day"),  # retention
            # Orders of the session list.
            models.Index(F("cell"), Coalesce("last_at", "created_at"), F("session_key"), name="session_active"),
            models.Index(fields=["cell", "turn_count", "session_key"], name="session_turns"),
            models.Index(fields=["cell", "compaction_count", "session_key"], name="session_compactions"),
            models.Index(fields=["cell", "peak_tokens", "session_key"], name="session_peak"),
            models.Index(F("cell"), Coalesce("worst_lost", -1), F("session_key"), name="session_facts"),
            models.Index(fields=["cell", "error_count", "session_key"], name="session_errors"),
            models.Index(fields=["cell", "span_count", "session_key"], name="session_spans"),
            # States that few sessions have.
            models.Index(
                fields=["cell", "fallback_count"], name="session_fallbacks", condition=Q(fallback_count__gt=0)
            ),
            models.Index(
                fields=["cell", "overflow_count"], name="session_overflows", condition=Q(overflow_count__gt=0)
            ),
            models.Index(fields=["cell", "last_seq"], name="session_running", condition=Q(running_count__gt=0)),
            models.Index(fields=["cell", "last_seq"], name="session_lossy", condition=IS_LOSSY),
            models.Index(fields=["cell", "last_seq"], name="session_near", condition=IS_NEAR_LIMIT),
        ]

    def __str__(self) -> str:
        return self.session_id


class HourlyFigures(InCell):
    """Columns of the hourly figures. See `ingest.storage.figures.trends`."""

    hour = models.DateTimeField()
    model = models.TextField()
    compactions = models.BigIntegerField(default=0)
    tokens_freed = models.BigIntegerField(default=0)
    cache_lost_tokens = models.BigIntegerField(default=0)
    facts_total = models.BigIntegerField(default=0)
    facts_kept = models.BigIntegerField(default=0)
    fallbacks = models.BigIntegerField(default=0)
    overflows = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    # Compactions that kept 0, 1, …, 100 % of their facts.
    kept_counts = ArrayField(models.IntegerField(), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.hour} {self.model}"


class Activity(HourlyFigures):
    """The figures of one session in one hour."""

    pk = models.CompositePrimaryKey("cell", "session_key", "hour")
    session_key = models.UUIDField()

    class Meta:
        indexes = [models.Index(fields=["cell", "hour"], name="activity_hour")]


class Trend(HourlyFigures):
    """The figures of one cell and model in one hour: the sum of its sessions' activity."""

    pk = models.CompositePrimaryKey("cell", "hour", "model")


class Trace(InCell):
    """A trace and the session it belongs to.

    `source` is the origin of the session. A trace's group takes precedence over a session that one of its spans names,
    which takes precedence over the trace's own id. When a better source arrives, the trace's spans move.
    """

    class Source(models.IntegerChoices):
        TRACE_ID = 0
        SPAN = 1
        GROUP = 2

    pk = models.CompositePrimaryKey("cell", "trace_key")
    trace_key = models.UUIDField()
    trace_id = models.TextField()
    session_key = models.UUIDField()
    source = models.SmallIntegerField(choices=Source.choices)
    is_mixed = models.BooleanField(default=False)  # its spans name different sessions
    seq = models.BigIntegerField()
    name = models.TextField(default="")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    metadata = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["cell", "session_key"], name="trace_session")]

    def __str__(self) -> str:
        return self.trace_id


class Label(InCell):
    """An environment, a user, a tag or a service of a session, from the metadata of its traces.

    `key` is the key of the metadata. It decides who sees the value. See `ingest.decoding.labels`.
    """

    pk = models.CompositePrimaryKey("cell", "session_key", "key", "value")
    session_key = models.UUIDField()
    key = models.TextField()
    value = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["cell", "value", "key", "session_key"], name="label_value")]

    def __str__(self) -> str:
        return f"{self.key} {self.value}"


class SpanSession(InCell):
    """The session of a span that is not in the session of its trace. Traces with a group have no such spans."""

    pk = models.CompositePrimaryKey("cell", "trace_key", "span_id")
    trace_key = models.UUIDField()
    span_id = models.TextField()
    session_key = models.UUIDField()

    class Meta:
        indexes = [models.Index(fields=["cell", "session_key"], name="spansession_session")]

    def __str__(self) -> str:
        return self.span_id


class Span(InCell):
    """A span. The table is partitioned by `session_day` and created by SQL in the first migration."""

    class Status(models.TextChoices):
        UNSET = ""
        OK = "ok"
        ERROR = "error"

    pk = models.CompositePrimaryKey("cell", "session_key", "session_day", "trace_id", "span_id")
    session_key = models.UUIDField()
    session_day = models.DateField()
    trace_id = models.TextField()
    span_id = models.TextField()
    seq = models.BigIntegerField()  # increases with each change, in commit order within a cell
    parent_id = models.TextField(null=True)  # noqa: DJ001 - NULL means no parent
    kind = models.TextField(default="")
    name = models.TextField(default="")
    status = models.TextField(choices=Status.choices, default=Status.UNSET)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    tokens = models.IntegerField(null=True)  # shown in the row's token bar
    # Both as `ingest.storage.payloads` writes them. The payload is conversation text, only visible with view_payload.
    data = models.BinaryField(null=True)
    payload = models.BinaryField(null=True)
    arguments_hash = models.BigIntegerField(null=True)  # of a tool call

    class Meta:
        managed = False
        db_table = "ingest_span"

    def __str__(self) -> str:
        return f"{self.kind} {self.span_id}"


class BilledTokens(InCell):
    """Billed tokens by hour, model and provider, changed in the same transaction as the spans.

    Prices are applied when they are read, so that new prices and overrides also apply to stored sessions. `prompt_size`
    is one of `PROMPT_SIZES`: providers charge more for long prompts. Calls without a time have the hour 2000-01-01.
    """

    hour = models.DateTimeField()  # by the agent's clock
    model = models.TextField()
    provider = models.TextField()
    is_summary = models.BooleanField()  # a call of the summarizer
    prompt_size = models.IntegerField()
    call_count = models.IntegerField()
    input_tokens = models.BigIntegerField()  # includes cached and cache write tokens
    cached_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()  # includes reasoning tokens
    reasoning_tokens = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.model} at {self.hour}"


class Usage(BilledTokens):
    """The billed tokens of one session."""

    pk = models.CompositePrimaryKey("cell", "session_key", "hour", "model", "provider", "is_summary", "prompt_size")
    session_key = models.UUIDField()

    class Meta:
        indexes = [models.Index(fields=["cell", "hour"], name="usage_hour")]


class HourlyUsage(BilledTokens):
    """The billed tokens of one cell: the sum of its sessions' usage."""

    pk = models.CompositePrimaryKey("cell", "hour", "model", "provider", "is_summary", "prompt_size")


class Content(InCell):
    """A message of archived transcripts, stored once per cell. `hash` is the SHA-256 of its canonical JSON."""

    pk = models.CompositePrimaryKey("cell", "hash")
    hash = models.BinaryField(max_length=32)
    body = models.BinaryField()  # zstd of the canonical JSON, redacted
    size = models.IntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return bytes(self.hash).hex()


class Message(InCell):
    """A message of spans, stored once per cell. `day` is the last day on which a span contained it."""

    pk = models.CompositePrimaryKey("cell", "hash")
    hash = models.BinaryField(max_length=32)
    day = models.DateField()
    size = models.IntegerField()
    body = models.BinaryField()  # zstd of the canonical JSON, redacted

    class Meta:
        indexes = [models.Index(fields=["cell", "day"], name="message_day")]

    def __str__(self) -> str:
        return bytes(self.hash).hex()


class SearchDocument(InCell):
    """Words of a session, a span or a message for full-text search. `viewer.search` fills it.

    The table is partitioned by `session_day` like the spans and created by SQL in a migration. It contains no texts.
    """

    pk = models.CompositePrimaryKey("cell", "session_key", "session_day", "item")
    session_key = models.UUIDField()
    session_day = models.DateField()
    item = models.UUIDField()  # hash of what it describes, zero for the session itself
    seq = models.BigIntegerField()  # of its span. For the session itself: everything up to here is in the index
    trace_id = models.TextField(null=True)  # noqa: DJ001 - NULL for the session itself
    span_id = models.TextField(null=True)  # noqa: DJ001
    message = models.BinaryField(null=True, max_length=32)  # hash of a message
    words = SearchVectorField()

    class Meta:
        managed = False
        db_table = "ingest_search"

    def __str__(self) -> str:
        return f"{self.session_key} {self.item}"


class SearchState(models.Model):
    """Progress of the search index in a cell: sessions up to this number are complete."""

    cell = models.BigIntegerField(primary_key=True)
    seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"cell {self.cell} up to {self.seq}"


class RetentionClock(models.Model):
    """The time by which retention deletes, of which there is one row. See `ingest.storage.retention_clock`."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    checked_at = models.DateTimeField()  # the last plausible time
    waited_s = models.BigIntegerField(default=0)  # seconds that have certainly passed in all runs
    problem = models.TextField(default="")  # why nothing is deleted, or empty

    def __str__(self) -> str:
        return self.problem or f"checked at {self.checked_at}"


class RetentionMark(models.Model):
    """Data of a project that retention will delete: everything from before `cutoff`, after a day of grace."""

    project = models.OneToOneField(Project, primary_key=True, on_delete=models.CASCADE, related_name="retention_mark")
    cutoff = models.DateField()
    marked_at = models.DateTimeField()
    waited_s = models.BigIntegerField()  # of the clock at that time

    def __str__(self) -> str:
        return f"project {self.project_id} before {self.cutoff}"


class Transcript(InCell):
    """A redacted pre-compact transcript: an ordered list of message hashes, linked to the previous step."""

    pk = models.CompositePrimaryKey("cell", "session_key", "step")
    session_key = models.UUIDField()
    step = models.IntegerField()
    session_id = models.TextField()
    created_at = models.DateTimeField()
    received_at = models.DateTimeField(default=timezone.now)
    message_count = models.IntegerField()
    size = models.BigIntegerField()  # bytes of the JSONL as downloaded
    sha256 = models.CharField(max_length=64)
    sent_sha256 = models.CharField(max_length=64)  # of the bytes as sent, before redaction by the server
    hashes = models.BinaryField()  # 32 bytes for each message, in order
    ids = models.JSONField(null=True)  # ids of the messages in the agent's log, in order, if sent
    redactions = models.JSONField(default=dict)  # count by rule
    chain = models.CharField(max_length=64)  # hash of its link

    class Meta:
        indexes = [models.Index(fields=["cell", "-received_at"], name="transcript_newest")]

    def __str__(self) -> str:
        return f"{self.session_id} step {self.step}"


class ChainLink(InCell):
    """A link in the hash chain of a session's archive.

    A trigger makes the table append-only. The links of deleted transcripts stay.
    """

    class Kind(models.TextChoices):
        STORED = "stored"
        DELETED = "deleted"

    pk = models.CompositePrimaryKey("cell", "session_key", "position")
    session_key = models.UUIDField()
    position = models.IntegerField()
    session_id = models.TextField()
    kind = models.TextField(choices=Kind.choices)
    step = models.IntegerField()
    time = models.DateTimeField()
    sha256 = models.TextField()
    manifest = models.JSONField()
    previous = models.TextField()
    chain = models.TextField()

    class Meta:
        managed = False  # otherwise `flush` would try to empty it
        db_table = "ingest_chainlink"

    def __str__(self) -> str:
        return f"{self.kind} {self.session_id} step {self.step}"


class AnchorMark(models.Model):
    """The newest anchor, of which there is one row. A shorter anchor file than this says was cut or replaced."""

    number = models.BigIntegerField(primary_key=True)
    until = models.DateTimeField()
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"anchor {self.number}"
