// @ts-check
import "../app.js";
import "../live/event-tail.js";
