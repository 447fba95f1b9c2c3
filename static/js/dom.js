// @ts-check
// Small ways to build and change the document. Imports nothing. Text is always text: there is no innerHTML here.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties, attributes (those with a dash, `role`, `class`) and children.
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

/** A symbol of the sprite in the page. @param {string} name */
export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/**
 * HTML that our own server has rendered and escaped, as nodes.
 * @param {string} html
 */
export function parse(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  return [...parsed.body.childNodes].map((node) => document.adoptNode(node));
}

/** Whether a piece of a page was answered with the page to sign in. @param {Response} answer */
export function isSignedOut(answer) {
  return answer.redirected && new URL(answer.url).pathname.startsWith("/login/");
}

/** A piece of a page from our own server; null, and a word to the reader, when there is none to be had. @param {string} url */
export async function fetchPiece(url) {
  try {
    const answer = await fetch(url);
    if (answer.ok && !isSignedOut(answer)) return parse(await answer.text());
    toast(answer.ok ? "You are signed out: load the page again" : answer.status === 403 ? "This needs a right that you do not have" : "The server could not answer this");
  } catch {
    toast("The server is away: try again in a moment");
  }
  return null;
}

/** Sets text only when it differs, so that nothing is laid out twice. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new (...args: any[]) => T} type
 * @returns {T}
 */
export function find(root, selector, type) {
  const found = root.querySelector(selector);
  if (!(found instanceof type)) throw new Error(`no ${selector} here`);
  return found;
}

/** Whether a key press is meant for a field and not for the page. @param {Event} event */
export function isTyping(event) {
  const target = event.target;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName))
  );
}

/** Hand the reader a file. @param {string} name @param {Blob} blob */
export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Pages without TLS have no clipboard of their own; the old way still works there. @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else {
    const field = h("textarea", { class: "visually-hidden" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast("Copied");
}

/** Say something briefly. @param {string} text */
export function toast(text) {
  const element = h("div", { class: "toast", role: "status" }, text);
  document.body.append(element);
  setTimeout(() => element.remove(), 2500);
}
