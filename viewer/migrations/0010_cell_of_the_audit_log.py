"""Key the audit log by cell. It is one chain over all projects, so all entries are in one cell, and no hash changes.

The column has a constant default, so no entry is written again.
"""

from django.db import migrations, models

from viewer.migrations._to_cell import composite

FORWARD = [
    "ALTER TABLE viewer_auditentry ADD COLUMN cell bigint NOT NULL DEFAULT 0 CHECK (cell = 0)",
    "ALTER TABLE viewer_auditentry DROP CONSTRAINT viewer_auditentry_pkey, ADD PRIMARY KEY (cell, position)",
]
BACKWARD = [
    "ALTER TABLE viewer_auditentry DROP CONSTRAINT viewer_auditentry_pkey, ADD PRIMARY KEY (position)",
    "ALTER TABLE viewer_auditentry DROP COLUMN cell",
]


class Migration(migrations.Migration):
    dependencies = [("viewer", "0009_cells_of_alerts")]
    operations = [
        migrations.RunSQL(
            FORWARD,
            BACKWARD,
            state_operations=[
                migrations.AddField("auditentry", "cell", models.BigIntegerField(default=0, editable=False)),
                migrations.AlterField("auditentry", "position", models.BigIntegerField()),
                migrations.AddField("auditentry", "pk", composite("cell", "position")),
            ],
        )
    ]
