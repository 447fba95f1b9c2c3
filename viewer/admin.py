"""The admin site: users, groups, projects and memberships. Keys and tokens can be viewed and revoked.

Every change is recorded in the audit log. Secrets are never shown. Projects cannot be deleted here, because their
archive is subject to retention and legal hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axes.models import AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from ingest.http import keys
from ingest.models import IngestKey, Project
from viewer.accounts import api_tokens
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import ApiToken, Membership

admin.site.site_header = admin.site.site_title = "Ariadne"
admin.site.index_title = "Administration"
# Replaced by the audit log and by the classes below.
admin.site.unregister([User, Group, AccessLog, AccessFailureLog])

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    BaseUserAdmin = UserAdmin[User]
    MembershipTable = admin.TabularInline[Membership, Any]
else:
    ModelAdmin, BaseUserAdmin, MembershipTable = admin.ModelAdmin, UserAdmin, admin.TabularInline


class AuditedAdmin(ModelAdmin):
    """Records each change in the audit log, in addition to Django's own history."""

    action = Action.PROJECT_CHANGE

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, obj, "added", message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, obj, "changed", message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset:
            self._record(request, obj, "deleted", [])
        return super().log_deletions(request, queryset)

    def _record(self, request: HttpRequest, obj: Model, verb: str, message: Any) -> None:
        project_id = obj.pk if isinstance(obj, Project) else getattr(obj, "project_id", None)
        # Only the names of fields are recorded. The values may include a password.
        changes = message if isinstance(message, list) else []
        target = f"{obj._meta.verbose_name} {obj}"
        log.record(request, self.action, project_id=project_id, target=target, verb=verb, changes=changes)


class ReadOnlyAdmin(AuditedAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class MembershipInline(MembershipTable):
    model = Membership
    extra = 0
    autocomplete_fields = ("user", "project")


@admin.register(User)
class AuditedUserAdmin(AuditedAdmin, BaseUserAdmin):
    action = Action.USER_CHANGE
    inlines = (MembershipInline,)
    list_display = ("username", "first_name", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("groups", "is_active", "is_superuser")


@admin.register(Group)
class AuditedGroupAdmin(AuditedAdmin, GroupAdmin):
    action = Action.USER_CHANGE


@admin.register(Project)
class ProjectAdmin(AuditedAdmin):
    list_display = ("name", "slug", "retention_days", "legal_hold", "created_at")
    search_fields = ("name", "slug")
    readonly_fields = ("created_at",)
    inlines = (MembershipInline,)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(IngestKey)
class IngestKeyAdmin(ReadOnlyAdmin):
    action = Action.KEY_REVOKE
    list_display = ("label", "hint", "project", "created_by", "created_at", "last_used_at", "revoked_at")
    list_filter = ("project",)
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke selected keys", permissions=["view"])
    def revoke(self, request: HttpRequest, selected: QuerySet[IngestKey]) -> None:
        for key in selected:
            keys.revoke(key)
            self._record(request, key, "revoked", [])


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    action = Action.TOKEN_REVOKE
    list_display = ("label", "hint", "user", "project", "created_at", "expires_at", "last_used_at", "revoked_at")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, selected: QuerySet[ApiToken]) -> None:
        for token in selected:
            api_tokens.revoke(token)
            self._record(request, token, "revoked", [])
