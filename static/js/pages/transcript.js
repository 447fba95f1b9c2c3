// @ts-check
import "../app.js";
import "../audit/found-text.js";
