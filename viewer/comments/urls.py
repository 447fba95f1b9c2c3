"""Addresses of comments, mentions and bookmarks."""

from __future__ import annotations

from django.urls import path

from viewer.comments import api, pages

urlpatterns = [
    path("sessions/<path:name>/comments/", pages.comments, name="comments"),
    path("sessions/<path:name>/bookmark/", pages.bookmark, name="bookmark"),
    path("comments/<int:pk>/edit/", pages.comment_edit, name="comment-edit"),
    path("comments/<int:pk>/delete/", pages.comment_delete, name="comment-delete"),
    path("mentions/", pages.mention_list, name="mention-list"),
    path("mentions/read/", pages.mentions_read, name="mentions-read"),
    path("bookmarks/", pages.bookmark_list, name="bookmark-list"),
    path("api/sessions/<path:session>/comments/", api.CommentList.as_view(), name="api-comments"),
    path("api/sessions/<path:session>/people/", api.PeopleList.as_view(), name="api-people"),
    path("api/sessions/<path:session>/bookmark/", api.SessionBookmark.as_view(), name="api-bookmark"),
    path("api/comments/<int:comment>/", api.CommentDetail.as_view(), name="api-comment"),
    path("api/mentions/", api.MentionList.as_view(), name="api-mentions"),
    path("api/bookmarks/", api.BookmarkList.as_view(), name="api-bookmarks"),
]
