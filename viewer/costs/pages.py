"""The cost of a session, and the prices of a project with their overrides."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from ingest.models import Project, Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.forms import current_user
from viewer.audit import log, payload_views
from viewer.audit.log import Action
from viewer.costs import queries
from viewer.costs.prices import Rates
from viewer.costs.session_report import compaction_effects
from viewer.models import PriceOverride
from viewer.page_response import send_page

_MAX_PRICE = Decimal(1_000_000)
_MAX_OVERRIDES = 500
_FIELDS = {
    "input_price": "input price",
    "cached_price": "cached input price",
    "cache_write_price": "cache write price",
    "output_price": "output price",
}


@access.requires(Right.SESSIONS)
def session_cost(request: HttpRequest, name: str) -> HttpResponseBase:
    """The cost of a session by model and by compaction."""
    session = access.get_session(access.request_grant(request), name)
    return send_page(request, "costs/session_cost.html", {"session": session}, lambda: _cost_context(request, session))


def _cost_context(request: HttpRequest, session: Session) -> dict[str, Any]:
    cost = queries.session_cost(session)
    visibility = payload_views.sight(request, session).visibility
    effects = compaction_effects(session, cost, visibility)
    # The sum of the amounts as the rows show them.
    nets = [entry.effect.money.round().net if entry.effect.money else None for entry in effects]
    return {
        "project": Project.objects.filter(pk=session.project_id).first(),
        "cost": cost.round(),
        "effects": effects,
        "net_total": None if None in nets else sum(net for net in nets if net is not None),
        "left_out": effects[0].number - 1 if effects else 0,
    }


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The price of a model that a project uses."""

    model: str
    provider: str
    rates: Rates | None


@access.requires(Right.SESSIONS)
def project_prices(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The prices of the models that a project uses, and its overrides."""
    project = _get_project(request, slug, Right.SESSIONS)
    known = {
        "project": project,
        "may_edit": access.request_grant(request).may(Right.MANAGE, project.pk),
        "model": request.GET.get("model", "")[:200],
    }
    return send_page(request, "costs/project_prices.html", known, lambda: _price_context(project))


def _price_context(project: Project) -> dict[str, Any]:
    find = queries.project_rates(project.pk)
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    return {
        "overrides": project.price_overrides.select_related("updated_by").order_by("model"),
        "rows": [
            PriceRow(model, provider, find(model, provider, now, 0))
            for model, provider in queries.recent_models(project.pk)
        ],
    }


@access.requires(Right.MANAGE, "POST")
def price_save(request: HttpRequest, slug: str) -> HttpResponse:
    """Add or change the price of a model."""
    project = _get_project(request, slug, Right.MANAGE)
    model = log.clean(request.POST.get("model", "").strip()).lower()[:200]
    try:
        prices = _posted_prices(request)
    except ValueError as error:
        messages.error(request, str(error))
        return redirect("project-prices", slug)
    if not model:
        messages.error(request, "Enter the name of the model as agents report it.")
        return redirect("project-prices", slug)
    existing = PriceOverride.objects.filter(project=project, model=model).first()
    if existing is None and project.price_overrides.count() >= _MAX_OVERRIDES:
        messages.error(request, f"A project can have at most {_MAX_OVERRIDES} prices.")
        return redirect("project-prices", slug)
    before = _as_json(existing)
    override, _ = PriceOverride.objects.update_or_create(
        project=project,
        model=model,
        defaults={**prices, "updated_at": timezone.now(), "updated_by": current_user(request)},
    )
    log.record(
        request,
        Action.PROJECT_CHANGE,
        project_id=project.pk,
        target=f"price of {model} in {project.slug}",
        before=before,
        after=_as_json(override),
    )
    messages.success(request, f"Saved the price of {model}. Stored sessions are shown with the new price.")
    return redirect("project-prices", slug)


@access.requires(Right.MANAGE, "POST")
def price_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete an override, so that the published price applies again."""
    project = _get_project(request, slug, Right.MANAGE)
    override = PriceOverride.objects.filter(project=project, model=request.POST.get("model", "")).first()
    if override is None:
        messages.error(request, "This project has no price for this model.")
        return redirect("project-prices", slug)
    log.record(
        request,
        Action.PROJECT_CHANGE,
        project_id=project.pk,
        target=f"price of {override.model} in {project.slug}",
        before=_as_json(override),
        after=None,
    )
    override.delete()
    messages.success(request, f"Deleted the price of {override.model}.")
    return redirect("project-prices", slug)


def _get_project(request: HttpRequest, slug: str, right: Right) -> Project:
    grant = access.request_grant(request)
    project = Project.objects.filter(slug=slug, pk__in=list(grant.rights)).first()
    if project is None:
        raise Http404
    grant.require(right, project.pk)
    return project


def _posted_prices(request: HttpRequest) -> dict[str, Decimal | None]:
    prices: dict[str, Decimal | None] = {}
    for name, label in _FIELDS.items():
        text = request.POST.get(name, "").strip().removeprefix("$")
        if not text and name in {"cached_price", "cache_write_price"}:
            prices[name] = None
            continue
        prices[name] = _parse_price(text, label)
    return prices


def _parse_price(text: str, label: str) -> Decimal:
    problem = f"Enter the {label} in US dollars per million tokens, for example 1.25."
    if len(text) > 20 or not text.isascii():
        raise ValueError(problem)
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(problem) from None
    if not amount.is_finite() or not 0 <= amount < _MAX_PRICE:
        raise ValueError(problem)
    return amount.quantize(Decimal("0.000001"))


def _as_json(override: PriceOverride | None) -> dict[str, str | None] | None:
    if override is None:
        return None
    values = {name: getattr(override, name) for name in _FIELDS}
    return {name: None if value is None else str(value) for name, value in values.items()}
