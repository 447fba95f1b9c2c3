"""Addresses of login, keys, tokens and projects."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import views as auth
from django.urls import URLPattern, URLResolver, include, path

from viewer.accounts import key_pages, project_pages, redaction_pages, token_pages

urlpatterns: list[URLPattern | URLResolver] = [
    path("keys/", key_pages.key_list, name="key-list"),
    path("keys/<int:pk>/rotate/", key_pages.key_rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke/", key_pages.key_revoke, name="key-revoke"),
    path("tokens/", token_pages.token_list, name="token-list"),
    path("tokens/<int:pk>/revoke/", token_pages.token_revoke, name="token-revoke"),
    path("projects/", project_pages.project_list, name="project-list"),
    path("projects/<slug:slug>/", project_pages.project_detail, name="project-detail"),
    path("projects/<slug:slug>/keep/", project_pages.project_keep, name="project-keep"),
    path("projects/<slug:slug>/members/", project_pages.member_add, name="member-add"),
    path("projects/<slug:slug>/members/<int:pk>/remove/", project_pages.member_remove, name="member-remove"),
    path("projects/<slug:slug>/redaction/", redaction_pages.rule_list, name="redaction-rules"),
    path("projects/<slug:slug>/redaction/add/", redaction_pages.rule_add, name="redaction-add"),
    path("projects/<slug:slug>/redaction/try/", redaction_pages.rule_try, name="redaction-try"),
    path("projects/<slug:slug>/redaction/<int:pk>/remove/", redaction_pages.rule_remove, name="redaction-remove"),
    path(
        "login/",
        auth.LoginView.as_view(redirect_authenticated_user=True, extra_context={"sso": settings.SSO}),
        name="login",
    ),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
]

if settings.SSO:
    urlpatterns.append(path("oidc/", include("mozilla_django_oidc.urls")))
