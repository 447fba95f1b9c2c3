// @ts-check
// <trend-charts>: tooltips, keyboard and local times for the charts that the server drew. Each bar is a link to the
// sessions behind it.
import { h } from "../dom.js";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

class TrendCharts extends HTMLElement {
  connectedCallback() {
    for (const chart of this.querySelectorAll("svg")) {
      // One stop of the Tab key for each chart. Arrow keys move inside of it.
      const bars = barsOf(chart);
      bars.at(-1)?.setAttribute("tabindex", "0");
    }
    this.addEventListener("pointerover", (event) => this.#show(event));
    this.addEventListener("focusin", (event) => this.#show(event));
    this.addEventListener("pointerleave", () => this.#hide());
    this.addEventListener("focusout", () => this.#hide());
    this.addEventListener("keydown", (event) => this.#move(event));
  }

  /** @param {Event} event */
  #show(event) {
    const bar = event.target instanceof Element ? event.target.closest("svg a") : null;
    this.#hide();
    const chart = bar?.closest("section");
    if (!(bar instanceof SVGElement) || !(chart instanceof HTMLElement)) return;
    const { at = "", until = "", value = "" } = bar.dataset;
    const text = `${chart.querySelector("h2")?.textContent}: ${value}`;
    const tip = h("div", { class: "trend-tip", role: "status" }, h("strong", {}, text), h("div", { class: "faint" }, period(at, until)));
    chart.append(tip);
    const area = chart.getBoundingClientRect();
    const place = bar.getBoundingClientRect();
    const left = place.left + place.width / 2 - area.left - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(8, Math.min(area.width - tip.offsetWidth - 8, left))}px`;
    tip.style.top = `${Math.max(4, place.top - area.top - tip.offsetHeight - 6)}px`;
  }

  #hide() {
    this.querySelector(".trend-tip")?.remove();
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const bar = event.target instanceof Element ? event.target.closest("svg a") : null;
    const chart = bar?.closest("svg");
    if (!bar || !chart) return;
    const bars = barsOf(chart);
    const position = bars.indexOf(bar);
    /** @type {Record<string, number>} */
    const targets = { ArrowLeft: position - 1, ArrowRight: position + 1, Home: 0, End: bars.length - 1 };
    const next = bars[targets[event.key] ?? -1];
    if (!(next instanceof SVGElement)) return;
    event.preventDefault();
    bar.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

/** @param {Element} chart @returns {Element[]} */
function barsOf(chart) {
  return [...chart.querySelectorAll("a")];
}

/** Format a local time as "16 Nov 21:00". @param {string} iso */
function moment(iso) {
  const date = new Date(iso);
  return `${day(date)} ${hour(date)}`;
}

/** Format a period as "16 Nov 21:00 – 22:00". @param {string} at @param {string} until */
function period(at, until) {
  const isSameDay = day(new Date(at)) === day(new Date(until));
  return `${moment(at)} – ${isSameDay ? hour(new Date(until)) : moment(until)}`;
}

/** @param {Date} date */
function day(date) {
  return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
}

/** @param {Date} date */
function hour(date) {
  return `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
}

for (const time of document.querySelectorAll("time[data-tick]")) {
  if (!(time instanceof HTMLTimeElement)) continue;
  const date = new Date(time.dateTime);
  const kind = time.dataset.tick;
  time.textContent = kind === "day" ? day(date) : kind === "hour" ? hour(date) : moment(time.dateTime);
}

customElements.define("trend-charts", TrendCharts);
