// @ts-check
// <token-chart src="/api/sessions/…/tokens/" data-group="…" data-compaction="3">: the chart of one session, for pages that
// compare several. Charts of one group share both axes, the axis mode and the highlighted check. A selected compaction opens
// its page below data-url.
import { h, isSignedOut } from "../../dom.js";
import { legend } from "./header.js";
import { TokenChart } from "./token-chart.js";

/** @type {Map<string, Set<SharedChart>>} */
const groups = new Map();

class SharedChart extends HTMLElement {
  #chart = new TokenChart({ onSelect: (span) => this.#open(span), onHover: (index) => this.#share((chart) => chart.hover(index)) });
  /** @type {import("../store.js").Check[]} */ #checks = [];
  #isSharing = false;

  async connectedCallback() {
    const group = this.#group;
    group.add(this);
    this.#chart.connect();
    if (await this.#load()) {
      this.replaceChildren(legend(), this.#chart.stage);
      for (const other of group) other.#show();
    }
    this.removeAttribute("aria-busy");
  }

  disconnectedCallback() {
    this.#group.delete(this);
    this.#chart.disconnect();
  }

  get #group() {
    const name = this.dataset.group ?? "";
    const group = groups.get(name) ?? new Set();
    groups.set(name, group);
    return group;
  }

  async #load() {
    this.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(this.getAttribute("src") ?? "");
      if (!response.ok || isSignedOut(response)) throw new Error(String(response.status));
      const tokens = await response.json();
      this.#checks = tokens.results;
      if (!this.#checks.length) this.replaceChildren(h("p", { class: "empty" }, "No checks or model calls yet."));
      return this.#checks.length > 0;
    } catch {
      this.replaceChildren(h("p", { class: "problem", role: "alert" }, "Couldn't load the chart. Reload the page to try again."));
      return false;
    }
  }

  /** Draw with the axes that the charts of the group share. */
  #show() {
    if (!this.#checks.length) return;
    this.#chart.show({ checks: this.#checks });
    const needs = [...this.#group].filter((other) => other.#checks.length).map((other) => other.#needs());
    const limits = { top: Math.max(...needs.map(({ top }) => top)), length: Math.max(...needs.map(({ length }) => length)) };
    this.#chart.show({ checks: this.#checks, limits });
    const compaction = this.#checks.filter((check) => check.is_compaction)[Number(this.dataset.compaction) - 1];
    this.#chart.setSelected(compaction ? this.#checks.indexOf(compaction) : -1);
  }

  #needs() {
    this.#chart.show({ checks: this.#checks });
    return this.#chart.limits;
  }

  /** @param {(chart: TokenChart) => void} change */
  #share(change) {
    if (this.#isSharing) return;
    for (const other of this.#group) {
      if (other === this) continue;
      other.#isSharing = true;
      change(other.#chart);
      other.#isSharing = false;
    }
  }

  /** @param {string} span */
  #open(span) {
    const compactions = this.#checks.filter((check) => check.is_compaction);
    const number = compactions.findIndex((check) => check.span === span) + 1;
    const url = this.dataset.url ?? "";
    if (url) location.assign(number ? `${url}compactions/${number}/` : `${url}#span=${encodeURIComponent(span)}`);
  }
}
customElements.define("token-chart", SharedChart);
