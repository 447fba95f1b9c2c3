"""Create the labels of sessions, and read those of stored traces."""

import uuid

from django.db import migrations, models, transaction

from ingest.decoding.labels import labels_of

BATCH = 1_000


def read_stored_labels(apps, schema_editor):
    """Read the metadata of traces in the order of their keys. A small transaction per batch leaves the writers room."""
    traces = apps.get_model("ingest", "Trace").objects.exclude(metadata={}).order_by("trace_key")
    labels = apps.get_model("ingest", "Label").objects
    last = uuid.UUID(int=0)
    while rows := list(
        traces.filter(trace_key__gt=last).values_list("trace_key", "project_id", "session_key", "metadata")[:BATCH]
    ):
        rows_to_add = {
            (project_id, session_key, key, value)
            for _, project_id, session_key, metadata in rows
            if isinstance(metadata, dict)
            for key, value in labels_of(metadata)
        }
        names = ("project_id", "session_key", "key", "value")
        with transaction.atomic(using=schema_editor.connection.alias):
            labels.bulk_create(
                [labels.model(**dict(zip(names, row, strict=True))) for row in sorted(rows_to_add, key=str)],
                ignore_conflicts=True,
            )
        last = rows[-1][0]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0016_session_orders")]
    operations = [
        migrations.CreateModel(
            name="Label",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key", "key", "value", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("key", models.TextField()),
                ("value", models.TextField()),
                ("project_id", models.IntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["project_id", "value", "key", "session_key"], name="label_value")],
            },
        ),
        migrations.RunPython(read_stored_labels, migrations.RunPython.noop),
    ]
