"""Addresses of alerts."""

from __future__ import annotations

from django.urls import path

from viewer.alerts import api, pages

urlpatterns = [
    path("alerts/", pages.alert_list, name="alert-list"),
    path("alerts/new/", pages.rule_new, name="alert-new"),
    path("alerts/<int:pk>/", pages.rule_edit, name="alert-rule"),
    path("alerts/<int:pk>/toggle/", pages.rule_toggle, name="alert-toggle"),
    path("alerts/<int:pk>/test/", pages.rule_test, name="alert-test"),
    path("alerts/<int:pk>/secret/", pages.rule_secret, name="alert-secret"),
    path("alerts/<int:pk>/delete/", pages.rule_delete, name="alert-delete"),
    path("api/alerts/", api.AlertList.as_view(), name="api-alerts"),
    path("api/alerts/rules/", api.AlertRuleList.as_view(), name="api-alert-rules"),
    path("api/alerts/rules/<int:pk>/", api.AlertRuleDetail.as_view(), name="api-alert-rule"),
]
