"""Key comments, mentions and bookmarks by cell. The foreign keys go, because the tables are on other nodes of a cluster.

Ids of comments stay, and come from a sequence.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from viewer.migrations._to_cell import composite, drop_foreign_keys, drop_index, next_id, to_cell, to_sequence

CELL_OF_MENTION = """
UPDATE viewer_mention m SET cell = c.project_id * 1024 FROM viewer_comment c WHERE c.id = m.comment_id
"""
FORWARD = [
    drop_foreign_keys("viewer_mention"),
    drop_index("viewer_mention", "comment_id"),
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
        models.BigIntegerField(db_default=next_id("viewer_comment_id_seq"), editable=False),
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
