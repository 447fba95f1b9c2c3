"""Add the number of cells of a project, which is 1 at first."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0028_drop_jsonb_of_spans")]
    operations = [
        migrations.AddField(
            "project", "cell_count", models.PositiveSmallIntegerField(db_default=1, default=1, editable=False)
        ),
        migrations.AddField("cell", "cell_count", models.PositiveSmallIntegerField(db_default=1, default=1)),
    ]
