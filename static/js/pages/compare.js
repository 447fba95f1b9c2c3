// @ts-check
import "../app.js";
import "../sessions/timeline/shared-chart.js";
