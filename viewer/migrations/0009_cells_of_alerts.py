"""Key alerts and their deliveries by cell, without foreign keys. Their ids stay, and come from sequences."""

from django.db import migrations, models
from django.db.models.deletion import CASCADE, DO_NOTHING

from viewer.migrations._to_cell import composite, drop_foreign_keys, drop_index, next_id, to_cell, to_sequence

CELL_OF_DELIVERY = """
UPDATE viewer_alertdelivery d SET cell = a.project_id * 1024 FROM viewer_alert a WHERE a.id = d.alert_id
"""
FORWARD = [
    drop_foreign_keys("viewer_alertdelivery"),
    drop_index("viewer_alertdelivery", "alert_id"),
    "ALTER TABLE viewer_alertdelivery DROP CONSTRAINT viewer_alertdelivery_pkey, ADD COLUMN cell bigint",
    CELL_OF_DELIVERY,
    *to_sequence("viewer_alertdelivery"),
    "ALTER TABLE viewer_alertdelivery ALTER COLUMN cell SET NOT NULL, ADD PRIMARY KEY (cell, id)",
    "CREATE INDEX delivery_alert ON viewer_alertdelivery (cell, alert_id)",
    *to_cell("viewer_alert"),
    *to_sequence("viewer_alert"),
    "ALTER TABLE viewer_alert ADD PRIMARY KEY (cell, id)",
]


def own_id(name):
    id_field = models.BigIntegerField(db_default=next_id(f"viewer_{name}_id_seq"), editable=False)
    return [
        migrations.AddField(name, "cell", models.BigIntegerField(default=0), preserve_default=False),
        migrations.AlterField(name, "id", id_field),
        migrations.AddField(name, "pk", composite("cell", "id")),
    ]


STATE = [
    migrations.RemoveIndex("alert", "alert_newest"),
    migrations.RemoveField("alert", "project"),
    migrations.RemoveField("alertdelivery", "alert"),
    *own_id("alert"),
    *own_id("alertdelivery"),
    migrations.AlterField(
        "alert",
        "rule",
        models.ForeignKey(db_constraint=False, on_delete=DO_NOTHING, related_name="+", to="viewer.alertrule"),
    ),
    migrations.AddIndex("alert", models.Index(fields=["cell", "-fired_at"], name="alert_newest")),
    migrations.AddField("alertdelivery", "alert_id", models.BigIntegerField(default=0), preserve_default=False),
    migrations.AddField(
        "alertdelivery",
        "alert",
        models.ForeignObject(
            from_fields=("cell", "alert_id"),
            on_delete=CASCADE,
            related_name="deliveries",
            to="viewer.alert",
            to_fields=("cell", "id"),
        ),
    ),
    migrations.AddIndex("alertdelivery", models.Index(fields=["cell", "alert_id"], name="delivery_alert")),
]


class Migration(migrations.Migration):
    dependencies = [("viewer", "0008_cells_of_comments")]
    operations = [migrations.RunSQL(FORWARD, state_operations=STATE)]
