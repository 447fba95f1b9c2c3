// @ts-check
// Where each span stands, by trace and id. A Map of a hundred thousand strings takes 0.2 s to fill; this a tenth of it.

/** Open addressing over typed arrays; nothing is ever taken out. */
export class IdIndex {
  /** @type {Map<string, number>} */ #traces = new Map();
  #table = new Int32Array(64).fill(-1);
  #hashes = new Int32Array(32);
  #count = 0;
  #ids;
  #owners;

  /** @param {string[]} ids @param {string[]} owners the trace of each; both may grow */
  constructor(ids, owners) {
    this.#ids = ids;
    this.#owners = owners;
    if (ids.length) this.#grow(ids.length);
    for (let at = 0; at < ids.length; at++) this.add(at);
  }

  get traces() {
    return this.#traces.keys();
  }

  get traceCount() {
    return this.#traces.size;
  }

  /** @param {string} trace @param {string} id @returns {number} -1 where there is none */
  find(trace, id) {
    const number = this.#traces.get(trace);
    if (number === undefined) return -1;
    const mask = this.#table.length - 1;
    for (let slot = hash(id, number) & mask; ; slot = (slot + 1) & mask) {
      const at = this.#table[slot] ?? -1;
      if (at < 0 || (this.#ids[at] === id && this.#owners[at] === trace)) return at;
    }
  }

  /** The span that was put at this place; of two with one name the later is found. @param {number} at */
  add(at) {
    if (this.#count * 2 >= this.#table.length) this.#grow(this.#count + 1);
    const trace = this.#owners[at] ?? "";
    const id = this.#ids[at] ?? "";
    let number = this.#traces.get(trace);
    if (number === undefined) this.#traces.set(trace, (number = this.#traces.size));
    const key = hash(id, number);
    const mask = this.#table.length - 1;
    let slot = key & mask;
    for (; (this.#table[slot] ?? -1) >= 0; slot = (slot + 1) & mask) {
      const other = this.#table[slot] ?? 0;
      if (this.#ids[other] === id && this.#owners[other] === trace) break;
    }
    if (at >= this.#hashes.length) this.#hashes = copied(this.#hashes, at * 2);
    this.#hashes[at] = key;
    if ((this.#table[slot] ?? -1) < 0) this.#count++;
    this.#table[slot] = at;
  }

  /** @param {number} count how many must fit */
  #grow(count) {
    let size = this.#table.length;
    while (size < count * 4) size *= 2;
    const old = this.#table;
    this.#table = new Int32Array(size).fill(-1);
    if (this.#hashes.length < count) this.#hashes = copied(this.#hashes, count * 2);
    for (const at of old) {
      if (at < 0) continue;
      let slot = (this.#hashes[at] ?? 0) & (size - 1);
      while ((this.#table[slot] ?? -1) >= 0) slot = (slot + 1) & (size - 1);
      this.#table[slot] = at;
    }
  }
}

/** FNV-1a. @param {string} text @param {number} seed */
function hash(text, seed) {
  let value = (0x811c9dc5 ^ Math.imul(seed, 0x9e3779b1)) | 0;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value ^ (value >>> 15);
}

/** @param {Int32Array} from @param {number} length */
function copied(from, length) {
  const made = new Int32Array(length);
  made.set(from);
  return made;
}
