// The part of a page that modules read when they are loaded: the table of span kinds, which `test_javascript.py` passes on.
const elements = new Map([["span-kinds", { textContent: process.env.SPAN_KINDS }]]);
globalThis.document = Object.assign(new EventTarget(), { getElementById: (id) => elements.get(id) ?? null });
