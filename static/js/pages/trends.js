// @ts-check
import "../app.js";
import "../trends/trend-charts.js";
