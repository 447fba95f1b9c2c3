"""Key comments, mentions and bookmarks by cell. The foreign keys go, because the tables are on other nodes of a cluster.

Ids of comments stay, and come from a sequence.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# The names of foreign keys, and of the indexes of their columns, differ between databases.
DROP_FOREIGN_KEYS = """
DO $$ DECLARE found record; BEGIN
  FOR found IN SELECT conname AS name FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'f' LOOP
    EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', found.name);
  END LOOP;
END $$
"""
DROP_PROJECT_INDEX = """
DO $$ DECLARE found record; BEGIN
  FOR found IN SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid = '{table}'::regclass
    AND indkey::text = (SELECT attnum::text FROM pg_attribute WHERE attrelid = indrelid AND attname = 'project_id') LOOP
    EXECUTE format('DROP INDEX %s', found.name);
  END LOOP;
END $$
"""
# Each project has one cell.
TO_CELL = """
ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, ALTER COLUMN project_id TYPE bigint USING project_id * 1024
"""
CELL_OF_MENTION = """
UPDATE viewer_mention m SET cell = c.project_id * 1024 FROM viewer_comment c WHERE c.id = m.comment_id
"""
COPY_SEQUENCE = """
SELECT setval('{table}_ids', (SELECT last_value FROM {table}_id_seq), (SELECT is_called FROM {table}_id_seq))
"""


def to_cell(table):
    return [
        DROP_FOREIGN_KEYS.format(table=table),
        DROP_PROJECT_INDEX.format(table=table),
        TO_CELL.format(table=table),
        f"ALTER TABLE {table} RENAME COLUMN project_id TO cell",
    ]


def to_sequence(table):
    """Replace the identity of the id, which Citus cannot distribute, by a sequence. Ids of deleted rows stay used."""
    return [
        f"CREATE SEQUENCE {table}_ids",
        COPY_SEQUENCE.format(table=table),
        f"ALTER TABLE {table} ALTER COLUMN id DROP IDENTITY",
        f"ALTER SEQUENCE {table}_ids RENAME TO {table}_id_seq",
        f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id",
        f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT nextval('{table}_id_seq')",
    ]


FORWARD = [
    DROP_FOREIGN_KEYS.format(table="viewer_mention"),
    "ALTER TABLE viewer_mention ADD COLUMN cell bigint",
    CELL_OF_MENTION,
    "ALTER TABLE viewer_mention DROP CONSTRAINT viewer_mention_pkey, DROP CONSTRAINT one_mention, DROP COLUMN id",
    "ALTER TABLE viewer_mention ALTER COLUMN cell SET NOT NULL, ADD PRIMARY KEY (cell, comment_id, user_id)",
    "DROP INDEX mention_newest",
    "CREATE INDEX mention_newest ON viewer_mention (cell, user_id, created_at DESC)",
    *to_cell("viewer_comment"),
    *to_sequence("viewer_comment"),
    "ALTER TABLE viewer_comment ADD PRIMARY KEY (cell, id)",
    "DROP INDEX comment_session",
    "CREATE INDEX comment_session ON viewer_comment (cell, session_key, created_at)",
    *to_cell("viewer_bookmark"),
    "ALTER TABLE viewer_bookmark DROP CONSTRAINT one_bookmark, DROP COLUMN id",
    "ALTER TABLE viewer_bookmark ADD PRIMARY KEY (cell, user_id, session_key, compaction)",
    "DROP INDEX bookmark_session",
    "CREATE INDEX bookmark_session ON viewer_bookmark (cell, session_key)",
]


def composite(*names):
    return models.CompositePrimaryKey(*names, blank=True, editable=False, primary_key=True, serialize=False)


def own_user(related_name, **options):
    return models.ForeignKey(db_constraint=False, related_name=related_name, to=settings.AUTH_USER_MODEL, **options)


CASCADE, SET_NULL = django.db.models.deletion.CASCADE, django.db.models.deletion.SET_NULL
STATE = [
    migrations.RemoveConstraint("mention", "one_mention"),
    migrations.RemoveIndex("mention", "mention_newest"),
    migrations.RemoveField("mention", "comment"),
    migrations.RemoveField("mention", "id"),
    migrations.RemoveIndex("comment", "comment_session"),
    migrations.RemoveField("comment", "project"),
    migrations.RemoveConstraint("bookmark", "one_bookmark"),
    migrations.RemoveIndex("bookmark", "bookmark_session"),
    migrations.RemoveField("bookmark", "project"),
    migrations.RemoveField("bookmark", "id"),
    *(
        migrations.AddField(name, "cell", models.BigIntegerField(default=0), preserve_default=False)
        for name in ("comment", "mention", "bookmark")
    ),
    migrations.AlterField(
        "comment",
        "id",
        models.BigIntegerField(
            db_default=models.Func(
                models.Value("viewer_comment_id_seq"), function="nextval", output_field=models.BigIntegerField()
            ),
            editable=False,
        ),
    ),
    migrations.AddField("comment", "pk", composite("cell", "id")),
    migrations.AlterField("comment", "author", own_user("+", null=True, on_delete=SET_NULL)),
    migrations.AddIndex("comment", models.Index(fields=["cell", "session_key", "created_at"], name="comment_session")),
    migrations.AddField("mention", "comment_id", models.BigIntegerField(default=0), preserve_default=False),
    migrations.AddField(
        "mention",
        "comment",
        models.ForeignObject(
            from_fields=("cell", "comment_id"),
            on_delete=CASCADE,
            related_name="mentions",
            to="viewer.comment",
            to_fields=("cell", "id"),
        ),
    ),
    migrations.AlterField("mention", "user", own_user("mentions", on_delete=CASCADE)),
    migrations.AddField("mention", "pk", composite("cell", "comment_id", "user_id")),
    migrations.AddIndex("mention", models.Index(fields=["cell", "user", "-created_at"], name="mention_newest")),
    migrations.AlterField("bookmark", "user", own_user("bookmarks", on_delete=CASCADE)),
    migrations.AddField("bookmark", "pk", composite("cell", "user_id", "session_key", "compaction")),
    migrations.AddIndex("bookmark", models.Index(fields=["cell", "session_key"], name="bookmark_session")),
]


class Migration(migrations.Migration):
    dependencies = [("viewer", "0007_drop_compaction_parts")]
    operations = [migrations.RunSQL(FORWARD, state_operations=STATE)]
