// @ts-check
import "../app.js";
