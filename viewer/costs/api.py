"""Costs and prices over REST. Amounts are decimal strings in US dollars."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.models import Project
from viewer.accounts import access
from viewer.audit import payload_views
from viewer.compactions.cost import CompactionMoney
from viewer.costs import queries
from viewer.costs.amounts import Cost
from viewer.costs.prices import Rates
from viewer.costs.session_report import compaction_effects
from viewer.rest import ReadView, query_parameter

_MILLION = Decimal(1_000_000)


def _model_schema() -> Any:
    return inline_serializer(
        "ModelCost",
        {
            "model": serializers.CharField(),
            "provider": serializers.CharField(),
            "is_summary": serializers.BooleanField(help_text="True for calls of the summarizer."),
            "calls": serializers.IntegerField(),
            "input_tokens": serializers.IntegerField(help_text="Neither read from nor written to the prompt cache."),
            "cached_tokens": serializers.IntegerField(),
            "cache_write_tokens": serializers.IntegerField(),
            "output_tokens": serializers.IntegerField(),
            "reasoning_tokens": serializers.IntegerField(help_text="Part of the output."),
            "cost": serializers.CharField(allow_null=True, help_text="Null if the price of the model is unknown."),
            "price": serializers.CharField(help_text="The entry of the price table, or `override`."),
        },
        many=True,
    )


def _compaction_schema() -> Any:
    amounts = ("cache_lost", "summary", "saved_per_call", "saved", "net")
    return inline_serializer(
        "CompactionCost",
        {
            "n": serializers.IntegerField(),
            "model": serializers.CharField(allow_null=True),
            **{name: serializers.CharField(allow_null=True, help_text="US dollars.") for name in amounts},
            "break_even_calls": serializers.IntegerField(allow_null=True),
            "calls": serializers.IntegerField(help_text="Calls until the next compaction, or so far."),
        },
        many=True,
    )


class SessionCost(ReadView):
    """The cost of a session in US dollars, by model and by compaction."""

    @extend_schema(
        operation_id="session_cost",
        responses=inline_serializer(
            "SessionCost",
            {
                "currency": serializers.CharField(),
                "total": serializers.CharField(allow_null=True, help_text="The sum of the known costs."),
                "unknown_models": serializers.ListField(child=serializers.CharField()),
                "models": _model_schema(),
                "compactions": _compaction_schema(),
            },
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        cost = queries.session_cost(owner)
        visibility = payload_views.sight(request, owner).visibility
        compactions = [
            {"n": entry.number, **_money_json(entry.effect.money), "break_even_calls": entry.effect.break_even}
            | {"calls": entry.effect.calls}
            for entry in compaction_effects(owner, cost, visibility)
        ]
        return Response({"currency": "USD", **cost_json(cost), "compactions": compactions})


class PriceList(ReadView):
    """The current prices of the models that a project uses, in US dollars per million tokens."""

    @extend_schema(
        operation_id="prices",
        parameters=[query_parameter("project", "Slug of the project. The first one of the caller by default.")],
        responses=inline_serializer(
            "Prices",
            {
                "project": serializers.CharField(allow_null=True),
                "currency": serializers.CharField(),
                "results": inline_serializer(
                    "Price",
                    {
                        "model": serializers.CharField(),
                        "provider": serializers.CharField(),
                        "price": serializers.CharField(allow_null=True, help_text="Null if the model is unknown."),
                        **{
                            name: serializers.CharField(allow_null=True)
                            for name in ("input", "cached", "cache_write", "output", "reasoning")
                        },
                    },
                    many=True,
                ),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        projects = Project.objects.filter(pk__in=access.request_grant(request).projects(self.right)).order_by("name")
        slug = request.query_params.get("project", "")
        project = (projects.filter(slug=slug) if slug else projects).first()
        results = []
        if project is not None:
            find = queries.project_rates(project.pk)
            now = timezone.now().replace(minute=0, second=0, microsecond=0)
            results = [
                {"model": model, "provider": provider, **_rates_json(find(model, provider, now, 0))}
                for model, provider in queries.recent_models(project.pk)
            ]
        return Response({"project": project.slug if project else None, "currency": "USD", "results": results})


def cost_json(cost: Cost) -> dict[str, Any]:
    return {
        "total": _amount(cost.total),
        "unknown_models": cost.unknown_models,
        "models": [
            {
                "model": model.model,
                "provider": model.provider,
                "is_summary": model.is_summary,
                "calls": model.calls,
                "input_tokens": model.fresh,
                "cached_tokens": model.cached,
                "cache_write_tokens": model.cache_write,
                "output_tokens": model.output,
                "reasoning_tokens": model.reasoning,
                "cost": _amount(model.total),
                "price": model.source,
            }
            for model in cost.models
        ],
    }


def _money_json(money: CompactionMoney | None) -> dict[str, Any]:
    names = ("cache_lost", "summary", "saved_per_call", "saved", "net")
    if money is None:
        return {"model": None, **dict.fromkeys(names)}
    return {"model": money.model, **{name: _amount(getattr(money, name)) for name in names}}


def _rates_json(rates: Rates | None) -> dict[str, str | None]:
    names = ("input", "cached", "cache_write", "output", "reasoning")
    if rates is None:
        return {"price": None, **dict.fromkeys(names)}
    return {"price": rates.source, **{name: _amount(getattr(rates, name) * _MILLION) for name in names}}


def _amount(value: Decimal | None) -> str | None:
    """Format an amount without an exponent and without trailing zeros."""
    if value is None:
        return None
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
