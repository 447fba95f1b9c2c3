"""Key the positions of alert rules by cell, without a foreign key."""

from django.db import migrations, models

from viewer.migrations._to_cell import drop_foreign_keys

FORWARD = [
    drop_foreign_keys("viewer_alertcursor"),
    "ALTER TABLE viewer_alertcursor ALTER COLUMN project_id TYPE bigint USING project_id * 1024",
    "ALTER TABLE viewer_alertcursor RENAME COLUMN project_id TO cell",
]


class Migration(migrations.Migration):
    dependencies = [("viewer", "0010_cell_of_the_audit_log")]
    operations = [
        migrations.RunSQL(
            FORWARD,
            state_operations=[
                migrations.RemoveField("alertcursor", "project"),
                migrations.AddField(
                    "alertcursor",
                    "cell",
                    models.BigIntegerField(default=0, primary_key=True, serialize=False),
                    preserve_default=False,
                ),
            ],
        )
    ]
