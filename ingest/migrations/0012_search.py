"""Create the full-text search index, partitioned like the spans, and its progress."""

from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models

FORWARD = [
    """
CREATE TABLE ingest_search (
    session_key uuid NOT NULL,
    session_day date NOT NULL,
    item uuid NOT NULL,
    project_id integer NOT NULL,
    seq bigint NOT NULL,
    trace_id text,
    span_id text,
    message bytea,
    words tsvector NOT NULL,
    PRIMARY KEY (session_key, session_day, item)
) PARTITION BY RANGE (session_day)
""",
    """
-- A search reads the pending list from start to end, so it is kept short.
CREATE INDEX search_words ON ingest_search USING gin (words) WITH (gin_pending_list_limit = 512)
""",
]
BACKWARD = "DROP TABLE ingest_search"


class Migration(migrations.Migration):
    dependencies = [("ingest", "0011_usage")]
    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.CreateModel(
            name="SearchState",
            fields=[
                ("project_id", models.IntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key",
                        "session_day",
                        "item",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("session_day", models.DateField()),
                ("item", models.UUIDField()),
                ("project_id", models.IntegerField()),
                ("seq", models.BigIntegerField()),
                ("trace_id", models.TextField(null=True)),
                ("span_id", models.TextField(null=True)),
                ("message", models.BinaryField(max_length=32, null=True)),
                ("words", SearchVectorField()),
            ],
            options={"db_table": "ingest_search", "managed": False},
        ),
    ]
