// @ts-check
import "../app.js";
import "../sessions/session-view.js";
import "../comments/comment-thread.js";
import "../comments/bookmark-star.js";
