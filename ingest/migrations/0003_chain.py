"""Create the append-only hash chain of the archive, and add retention and legal hold to projects."""

from django.db import migrations, models

FORWARD = [
    """
CREATE FUNCTION ariadne_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$
""",
    """
CREATE TABLE ingest_chainlink (
    session_key uuid NOT NULL,
    position integer NOT NULL CHECK (position >= 0),
    project_id integer NOT NULL,
    session_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('stored', 'deleted')),
    step integer NOT NULL,
    time timestamptz NOT NULL,
    sha256 text NOT NULL,
    manifest jsonb NOT NULL,
    previous text NOT NULL,
    chain text NOT NULL,
    PRIMARY KEY (session_key, position)
)
""",
    "CREATE INDEX chainlink_project ON ingest_chainlink (project_id, session_key)",
    """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ingest_chainlink
    FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()
""",
    """
CREATE TRIGGER no_update BEFORE UPDATE ON ingest_transcript
    FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()
""",
    """
CREATE TRIGGER no_update BEFORE UPDATE ON ingest_content
    FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()
""",
]

BACKWARD = [
    "DROP TRIGGER no_update ON ingest_content",
    "DROP TRIGGER no_update ON ingest_transcript",
    "DROP TABLE ingest_chainlink",
    "DROP FUNCTION ariadne_append_only()",
]


class Migration(migrations.Migration):
    dependencies = [("ingest", "0002_spans")]
    operations = [
        migrations.AddField(
            "project",
            "retention_days",
            models.PositiveIntegerField(blank=True, help_text="Leave empty to keep data forever.", null=True),
        ),
        migrations.AddField(
            "project",
            "legal_hold",
            models.BooleanField(default=False, help_text="Blocks all deletion in this project."),
        ),
        migrations.RemoveField("transcript", "previous"),
        migrations.AddField("transcript", "ids", models.JSONField(null=True)),
        migrations.AddField(
            "transcript", "sent_sha256", models.CharField(default="", max_length=64), preserve_default=False
        ),
        migrations.CreateModel(
            name="ChainLink",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("position", models.IntegerField()),
                ("project_id", models.IntegerField()),
                ("session_id", models.TextField()),
                ("kind", models.TextField(choices=[("stored", "Stored"), ("deleted", "Deleted")])),
                ("step", models.IntegerField()),
                ("time", models.DateTimeField()),
                ("sha256", models.TextField()),
                ("manifest", models.JSONField()),
                ("previous", models.TextField()),
                ("chain", models.TextField()),
            ],
            options={"db_table": "ingest_chainlink", "managed": False},
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
