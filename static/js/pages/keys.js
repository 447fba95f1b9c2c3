// @ts-check
import "../app.js";
import "../tab-set.js";
import "../accounts/first-event.js";
