// Reads a packed model: docs/packed-format.md in JavaScript, on typed arrays.
//
// Letters: V vocabulary, K components, n_s values of component s. Words are numbered in the order of their UTF-8 bytes,
// so that those with a common beginning are neighbours; nothing here needs their ids. All numbers are little-endian, as
// is every machine with a browser.

"use strict";

const MAGIC = [0x89, 0x4c, 0x52, 0x4e, 0x4e, 0x0d, 0x0a, 0x1a];
const VERSION = 1, HEAD = 16, ENTRY = 29, MOST_PARTS = 64;
const WHITE = /[ \t\n\r\v\f]+/;  // what separates words

// What is said to a person, in one sentence.
class Refusal extends Error {}

const damaged = reason => new Refusal(`The model in this page is damaged: ${reason}; get the page again or pack it again.`);

function need(condition, reason) {
  if (!condition) throw damaged(reason);
}

// ---- the file and its parts

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});

function crc32(bytes) {
  let crc = -1;
  for (let i = 0; i < bytes.length; i++) crc = CRC_TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

function fromBase64(text) {
  let binary;
  try {
    binary = atob(text);
  } catch {
    throw damaged("it is not base64");
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// The parts of a file by name, each checked before it is inflated.
async function readParts(file) {
  need(MAGIC.every((byte, i) => file[i] === byte), "it does not begin like one");
  need(file.length >= HEAD, "it ends within its header");
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const version = view.getUint32(8, true), count = view.getUint32(12, true);
  if (version > VERSION) {
    throw new Refusal(`The model in this page has format ${version}, and the page reads up to ${VERSION}; pack it again.`);
  }
  const head = HEAD + ENTRY * count;
  need(version >= 1 && count >= 1 && count <= MOST_PARTS && file.length >= head + 4, "its header is not whole");
  need(view.getUint32(head, true) === crc32(file.subarray(0, head)), "the checksum of its header is wrong");
  const parts = new Map();
  let begin = head + 4;
  for (let entry = HEAD; entry < head; entry += ENTRY) {
    const name = String.fromCharCode(...file.subarray(entry, entry + 8)).replace(/\0+$/, "");
    const encoding = file[entry + 8], checksum = view.getUint32(entry + 25, true);
    const [stored, raw] = [entry + 9, entry + 17].map(place => Number(view.getBigUint64(place, true)));
    const body = file.subarray(begin, begin + stored);
    begin += stored;
    need(body.length === stored, `it ends within its part “${name}”`);
    need(crc32(body) === checksum, `the checksum of its part “${name}” is wrong`);
    need(encoding <= 1 && !parts.has(name), `its part “${name}” is not described as it should be`);
    const found = encoding ? await inflated(body, raw, name) : body;
    need(found.length === raw, `its part “${name}” has not the length that it should have`);
    parts.set(name, found);
  }
  need(begin === file.length, "something follows its last part");
  return parts;
}

// No more than `raw` bytes, whatever the part would come to.
async function inflated(body, raw, name) {
  const reader = new Blob([body]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const pieces = [];
  let length = 0;
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      length += value.length;
      if (length > raw) break;
      pieces.push(value);
    }
  } catch {
    throw damaged(`its part “${name}” cannot be inflated`);
  }
  need(length === raw, `its part “${name}” has not the length that it should have`);
  const found = new Uint8Array(raw);
  let begin = 0;
  for (const piece of pieces) {
    found.set(piece, begin);
    begin += piece.length;
  }
  return found;
}

// ---- numbers

// LEB128: the first `count` numbers, and how many bytes they took.
function varints(bytes, count) {
  const values = new Float64Array(count);
  let used = 0;
  for (let i = 0; i < count; i++) {
    let factor = 1, byte;
    do {
      need(used < bytes.length && factor < 2 ** 63, "a list of numbers in it is too short");
      byte = bytes[used++];
      values[i] += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
  }
  return { values, used };
}

const bitsFor = size => Math.max(32 - Math.clz32(size - 1), 1);

// Whole numbers of `width` bits each, least significant bit first.
function unpackBits(bytes, count, width) {
  need(bytes.length === Math.ceil(count * width / 8), "its places have not the length that they should have");
  const values = new Int32Array(count);
  let byte = 0, held = 0, bits = 0;  // `held` has at most width + 7 bits: exact in a double
  for (let i = 0; i < count; i++) {
    for (; bits < width; bits += 8) held += bytes[byte++] * 2 ** bits;
    values[i] = held % 2 ** width;
    held = Math.floor(held / 2 ** width);
    bits -= width;
  }
  return values;
}

function fromHalf(half) {
  const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

// Arrays one behind the other, each as Float32Array: `listed` says name, shape, type and, of int8, the group that has
// one scale.
function readWeights(part, listed) {
  const weights = new Map();
  let begin = 0;
  const take = (Type, count) => {
    const end = begin + count * Type.BYTES_PER_ELEMENT;
    need(end <= part.length, "it has fewer weights than it says");
    const found = new Type(part.slice(begin, end).buffer);  // a copy, since views must be aligned
    begin = end;
    return found;
  };
  for (const { name, shape, type, group } of listed) {
    const length = shape.reduce((product, side) => product * side, 1);
    let values;
    if (type === "float32") {
      values = take(Float32Array, length);
    } else if (type === "float16") {
      values = Float32Array.from(take(Uint16Array, length), fromHalf);
    } else {
      need(type === "int8" && group >= 1, `its array “${name}” is of no known type`);
      const row = shape.at(-1), groups = Math.ceil(row / group);
      const scales = take(Float32Array, length / row * groups || 0), stored = take(Int8Array, length);
      values = new Float32Array(length);
      for (let i = 0; i < length; i++) {
        values[i] = scales[Math.floor(i / row) * groups + Math.floor(i % row / group)] * stored[i];
      }
    }
    need(values.every(Number.isFinite), `its array “${name}” has a weight that is no number`);
    weights.set(name, values);
  }
  need(begin === part.length, "something follows its weights");
  return weights;
}

// ---- words

// V words in the order of their bytes, all in one array; text is made of them where it is asked for.
class Words {
  constructor(part, count) {
    need(part.length >= count, "it has fewer words than it says");
    const { values: lengths, used } = varints(part.subarray(count), count);
    let from = count + used, total = 0;
    for (let i = 0; i < count; i++) total += part[i] + lengths[i];
    need(lengths.reduce((sum, length) => sum + length, 0) === part.length - from, "its words have not their length");
    this.count = count;
    this._bytes = new Uint8Array(total);
    this._starts = new Uint32Array(count + 1);
    for (let i = 0; i < count; i++) {
      const start = this._starts[i], shared = part[i], before = i ? this._starts[i - 1] : 0;
      need(shared <= start - before, "its words are not in order");
      this._bytes.copyWithin(start, before, before + shared);
      this._bytes.set(part.subarray(from, from + lengths[i]), start + shared);
      from += lengths[i];
      this._starts[i + 1] = start + shared + lengths[i];
      need(this._compare(this._of(i), i - 1) > 0, "its words are not in order");
    }
    this._decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  _of(number) {
    return this._bytes.subarray(this._starts[number], this._starts[number + 1]);
  }

  // Below, at or above 0 as some bytes come before, are, or come after a word; or, of a prefix, the word's beginning.
  _compare(bytes, number, isPrefix = false) {
    if (number < 0) return bytes.length;
    const start = this._starts[number], length = this._starts[number + 1] - start;
    const common = Math.min(bytes.length, length);
    for (let i = 0; i < common; i++) {
      if (bytes[i] !== this._bytes[start + i]) return bytes[i] - this._bytes[start + i];
    }
    return isPrefix && bytes.length <= length ? 0 : bytes.length - length;
  }

  // The first number for which some bytes do not come after the word; or, with `above`, come before it.
  _search(bytes, isPrefix, above) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1, order = this._compare(bytes, middle, isPrefix);
      if (order > 0 || (above && order === 0)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  text(number) {
    return this._decoder.decode(this._of(number));
  }

  // The number of a word; -1: it is none.
  find(text) {
    const bytes = new TextEncoder().encode(text), number = this._search(bytes, false, false);
    return number < this.count && this._compare(bytes, number) === 0 ? number : -1;
  }

  // [begin, end): the words that begin so.
  beginningWith(prefix) {
    const bytes = new TextEncoder().encode(prefix);
    return [this._search(bytes, true, false), this._search(bytes, true, true)];
  }
}

// How text becomes words: text/rules.py.
class Rules {
  constructor({ normalize, lowercase, eos, unk, bos, convention }) {
    Object.assign(this, { normalize, lowercase, eos, unk, bos: bos ?? eos, convention });
  }

  clean(text) {
    if (this.normalize !== "none") text = text.normalize(this.normalize.toUpperCase());
    return this.lowercase ? text.toLowerCase() : text;
  }

  split(text) {
    return this.clean(text).split(WHITE).filter(Boolean);
  }
}

// ---- a packed LightRNN

async function readModel(file) {
  const parts = await readParts(file);
  for (const name of ["about", "words", "counts", "places", "weights"]) need(parts.has(name), `it has no part “${name}”`);
  let about;
  try {
    about = JSON.parse(new TextDecoder().decode(parts.get("about")));
  } catch {
    throw damaged("what it says about itself is not JSON");
  }
  if (about.kind !== "lightrnn") {
    throw new Refusal(`This page runs a LightRNN, and the model in it is of the kind “${about.kind}”; pack a LightRNN.`);
  }
  const size = about.vocabulary_size;
  need(Number.isInteger(size) && size >= 2 && size <= parts.get("words").length, "it does not say how many words it has");
  const words = new Words(parts.get("words"), size), rules = new Rules(about.rules);
  const counts = varints(parts.get("counts"), size);
  need(counts.used === parts.get("counts").length, "something follows its counts");
  const places = unpackBits(parts.get("places"), size, bitsFor(size)), wordAt = new Int32Array(size).fill(-1);
  for (let word = 0; word < size; word++) {
    need(wordAt[places[word]] === -1, "two words have one place");
    wordAt[places[word]] = word;
  }
  const specials = Object.fromEntries(["eos", "unk", "bos"].map(name => [name, words.find(rules[name])]));
  need(Object.values(specials).every(word => word >= 0), "it lacks a word that its rules speak of");
  const weights = readWeights(parts.get("weights"), about.arrays);
  return { about, words, rules, specials, counts: counts.values, places, wordAt, weights };
}
