"""Create the table of custom redaction rules."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0014_trends"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="RedactionRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(choices=[("pattern", "Pattern"), ("allow", "Allow")], max_length=10)),
                ("name", models.CharField(blank=True, default="", max_length=60)),
                ("value", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="redaction_rules", to="ingest.project"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "kind", "value"), name="redaction_rule_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "pattern")), fields=("project", "name"), name="redaction_rule_name"
                    ),
                ],
            },
        ),
    ]
