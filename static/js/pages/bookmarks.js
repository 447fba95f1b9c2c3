// @ts-check
import "../app.js";
import "../comments/bookmark-star.js";
