// @ts-check
// DOM helpers. Imports nothing. Never assigns innerHTML: text from agents stays text.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element. Functions under "on…" names become event listeners. null and false are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/**
 * Create an SVG element.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...Node} children
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Create an icon from the page's sprite (templates/frame/_icons.html). @param {string} name */
export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/**
 * Parse HTML that our server rendered and escaped.
 * @param {string} html
 */
export function parse(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  return [...page.body.childNodes].map((node) => document.adoptNode(node));
}

/** Return true if the server redirected the request to the sign-in page. @param {Response} response */
export function isSignedOut(response) {
  return response.redirected && new URL(response.url).pathname.startsWith("/login/");
}

/**
 * Fetch a page fragment. On failure, show a toast and return null. If the signal aborts the request, return null.
 * @param {string} url
 * @param {AbortSignal} [signal]
 */
export async function fetchFragment(url, signal) {
  try {
    const response = await fetch(url, { signal });
    if (response.ok && !isSignedOut(response)) return parse(await response.text());
    problem(failureText(response));
  } catch {
    if (!signal?.aborted) problem("Can't reach the server. Try again in a moment.");
  }
  return null;
}

/** @param {Response} response */
function failureText(response) {
  if (response.ok) return "You've been signed out. Reload the page to sign in again.";
  if (response.status === 403) return "You don't have permission to view this.";
  return "Something went wrong. Try again.";
}

/** Set the text of an element if it changed, to avoid needless layout. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return true if a key press belongs to a form field. Page shortcuts ignore it. @param {Event} event */
export function isTyping(event) {
  const target = event.target;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName))
  );
}

/** Wait until the page has been painted once, so that work which can wait does not delay it. */
export function afterPaint() {
  return new Promise((resolve) => {
    new PerformanceObserver(resolve).observe({ type: "paint", buffered: true });
    // Not every browser reports the paint.
    requestAnimationFrame(() => setTimeout(resolve, 200));
  });
}

/** Save a file through the browser. @param {string} name @param {Blob} blob */
export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Copy text to the clipboard. @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else {
    // Browsers only provide navigator.clipboard over HTTPS and on localhost.
    const field = h("textarea", { class: "visually-hidden" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast("Copied");
}

/** Confirm an action for 2.5 seconds. @param {string} text */
export function toast(text) {
  showToast(h("div", { class: "toast", role: "status" }, text), 2500);
}

/** Show an error for 8 seconds, long enough to be read by someone who looks elsewhere. @param {string} text */
export function problem(text) {
  showToast(h("div", { class: "toast", role: "alert", "data-tone": "bad" }, text), 8000);
}

/** Show a message in place of the one before. @param {HTMLElement} element @param {number} ms */
function showToast(element, ms) {
  document.querySelector(".toast")?.remove();
  document.body.append(element);
  setTimeout(() => element.remove(), ms);
}
