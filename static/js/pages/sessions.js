// @ts-check
import "../app.js";
import "../sessions/session-list.js";
import "../sessions/search-box.js";
import "../tab-set.js";
import "../accounts/first-event.js";
