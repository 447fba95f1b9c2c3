// @ts-check
// <token-timeline>: the chart of the session page. Draws the store and never fetches.
import { store } from "../store.js";
import { laneEvents } from "./events.js";
import { TimelineHeader } from "./header.js";
import { TokenChart } from "./token-chart.js";

class TokenTimeline extends HTMLElement {
  /** @type {(() => void)[]} */ #unsubscribe = [];
  /** @type {{ checks: unknown, bySpan: Map<string, number> } | null} */ #index = null;
  /** The zoom of the address when it was last read. @type {[number, number] | null} */ #restoredZoom = null;
  #chart = new TokenChart({
    onSelect: (span) => store.select(span),
    onSettle: (range) => {
      this.#updateHeader();
      store.setRange(range);
      store.setView({ zoom: this.#chart.zoom });
    },
  });
  #header = new TimelineHeader({
    onScale: (scale) => this.#setAxis(scale, this.#chart.shortenGaps),
    onShortenGaps: (isOn) => this.#setAxis(this.#chart.scale, isOn),
    onWholeWindow: (isOn) => store.setView({ wholeWindow: isOn }),
    onResetZoom: () => this.#chart.setZoom(null),
    onSave: (format) => this.#chart.save(format, `${this.dataset.session}-tokens`, `Tokens per prompt, ${this.dataset.title ?? ""}`),
  });

  connectedCallback() {
    this.replaceChildren(this.#header.element, this.#chart.stage);
    this.#restore();
    this.#chart.connect();
    this.#unsubscribe = [
      store.subscribe("checks", () => this.#show()),
      store.subscribe("spans", () => this.#show()),
      store.subscribe("selected", () => this.#chart.setSelected(this.#selectedIndex())),
      store.subscribe("view", () => this.#restore()),
    ];
    this.#show();
  }

  disconnectedCallback() {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#chart.disconnect();
  }

  #show() {
    this.#chart.show({ checks: store.checks, events: laneEvents(store) });
    this.#chart.setSelected(this.#selectedIndex());
  }

  /** Take axis and zoom from the address. The chart's own zoom gets there when it has settled, so another change of the
   * view in between must not undo it. */
  #restore() {
    const { axis, gaps, wholeWindow, zoom } = store.view;
    if (wholeWindow !== this.#chart.isWholeWindow) this.#chart.showWholeWindow(wholeWindow);
    if (axis !== this.#chart.scale || gaps !== this.#chart.shortenGaps) this.#chart.setAxis(axis, gaps);
    const isNew = zoom !== this.#restoredZoom;
    this.#restoredZoom = zoom;
    if (isNew && (zoom?.[0] !== this.#chart.zoom?.[0] || zoom?.[1] !== this.#chart.zoom?.[1])) this.#chart.setZoom(zoom);
    this.#header.setAxis(axis, gaps);
  }

  /** @param {import("./layout.js").Scale} scale @param {boolean} shortenGaps */
  #setAxis(scale, shortenGaps) {
    this.#chart.setAxis(scale, shortenGaps);
    store.setView({ axis: scale, gaps: shortenGaps, zoom: null });
  }

  #updateHeader() {
    this.#header.update({
      hasOnlyCalls: store.checks[0]?.is_call ?? false,
      isEmpty: store.checksSeq !== null && !store.checks.length,
      isZoomed: this.#chart.zoom !== null,
      canFit: this.#chart.canFit,
      isWholeWindow: this.#chart.isWholeWindow,
      skewed: this.#chart.skewed,
      events: new Set(this.#chart.events.map(({ kind }) => kind)),
    });
  }

  /** Index of the check that is selected or contains the selected span, or -1. */
  #selectedIndex() {
    if (!store.selected) return -1;
    const { checks } = store;
    if (this.#index?.checks !== checks) this.#index = { checks, bySpan: new Map(checks.map((check, i) => [check.span, i])) };
    const { bySpan } = this.#index;
    for (let at = store.spans.findKey(store.selected); at >= 0; at = store.tree.parent[at] ?? -1) {
      const index = bySpan.get(store.spans.key(at));
      if (index !== undefined) return index;
    }
    return -1;
  }
}
customElements.define("token-timeline", TokenTimeline);
