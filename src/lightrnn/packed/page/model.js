// A LightRNN that answers what comes next: models/predictor.py in JavaScript, on typed arrays.
//
// Letters: V vocabulary, N words that stand alone, K components, n_s values of component s, D embedding, H hidden,
// L layers, G gates of the cell. Matrices are Float32Array, row by row; sums are made in double precision.
//
// A state is a Float32Array of S·L·H numbers: h of all layers, and of an LSTM c of all layers.

const sigmoid = x => 1 / (1 + Math.exp(-x));

// For each cell its gates G, the arrays S of its state, and one step: x = W·x + b and u = U·h + b (G·H each), the state
// before → `after`, both at the places h and c of one layer.
const CELLS = {
  "lstm": {
    gates: 4,
    states: 2,
    step(x, u, H, before, after, h, c) {
      for (let j = 0; j < H; j++) {
        const i = sigmoid(x[j] + u[j]), f = sigmoid(x[H + j] + u[H + j]);
        const g = Math.tanh(x[2 * H + j] + u[2 * H + j]), o = sigmoid(x[3 * H + j] + u[3 * H + j]);
        after[c + j] = f * before[c + j] + i * g;
        after[h + j] = o * Math.tanh(after[c + j]);
      }
    },
  },
  "gru": {
    gates: 3,
    states: 1,
    step(x, u, H, before, after, h) {
      for (let j = 0; j < H; j++) {
        const r = sigmoid(x[j] + u[j]), z = sigmoid(x[H + j] + u[H + j]);
        after[h + j] = (1 - z) * Math.tanh(x[2 * H + j] + r * u[2 * H + j]) + z * before[h + j];
      }
    },
  },
  "rnn-tanh": {
    gates: 1,
    states: 1,
    step(x, u, H, before, after, h) {
      for (let j = 0; j < H; j++) after[h + j] = Math.tanh(x[j] + u[j]);
    },
  },
  "rnn-sigmoid": {
    gates: 1,
    states: 1,
    step(x, u, H, before, after, h) {
      for (let j = 0; j < H; j++) after[h + j] = sigmoid(x[j] + u[j]);
    },
  },
};

// Rows first … first + count - 1 of a matrix times a vector, plus a bias if there is one, into `result` from `at` on.
function multiply(matrix, vector, bias, first, count, result, at = 0) {
  const width = vector.length, even = width - width % 4;
  for (let row = 0; row < count; row++) {
    const start = (first + row) * width;
    let a = bias ? bias[first + row] : 0, b = 0, c = 0, d = 0, j = 0;
    for (; j < even; j += 4) {
      a += matrix[start + j] * vector[j];
      b += matrix[start + j + 1] * vector[j + 1];
      c += matrix[start + j + 2] * vector[j + 2];
      d += matrix[start + j + 3] * vector[j + 3];
    }
    for (; j < width; j++) a += matrix[start + j] * vector[j];
    result[at + row] = a + b + (c + d);
  }
  return result;
}

// In place: scores → natural-log probabilities that share exp(`whole`).
function logSoftmax(scores, whole = 0) {
  let most = -Infinity, total = 0;
  for (let i = 0; i < scores.length; i++) most = Math.max(most, scores[i]);
  for (let i = 0; i < scores.length; i++) total += Math.exp(scores[i] - most);
  const shift = whole - most - Math.log(total);
  for (let i = 0; i < scores.length; i++) scores[i] += shift;
  return scores;
}

// Draws an index from log-probabilities; at temperature 0 the likeliest.
function drawFrom(logProbs, temperature, random) {
  const most = logProbs.reduce((best, value) => Math.max(best, value), -Infinity);
  if (temperature === 0) return logProbs.indexOf(most);
  const shares = Float64Array.from(logProbs, value => Math.exp((value - most) / temperature));
  let left = random() * shares.reduce((sum, share) => sum + share, 0);
  const found = shares.findIndex(share => (left -= share) < 0);
  return found < 0 ? shares.length - 1 : found;
}

// The first s components of a place were read: what the state then says of component s. Prefixes of more components are
// opened from here, each once, however often they are asked for.
class Prefix {
  constructor(network, s, number, state, logProb) {
    this.network = network;
    this.s = s;
    this.number = number;  // in lexicographic order among those of s components, on the table that is shared
    this.state = state;
    this.logProbs = network.logProbs(s, number, state, logProb);  // of each value, natural, with all before it
    this._children = new Map();
  }

  // U·h, which serves every code that is fed after this state.
  get products() {
    return this._products ??= this.network.products(this.state);
  }

  // With one component more.
  child(value) {
    if (!this._children.has(value)) {
      const { network, s } = this, code = network.offsets[s] + value;
      const number = s ? this.number * network.shape[s] + value : value - network.alone;
      const state = network.feed(code, this.state, this.products);
      this._children.set(value, new Prefix(network, s + 1, number, state, this.logProbs[value]));
    }
    return this._children.get(value);
  }

  // Values that lead on to more components, likeliest first.
  get order() {
    if (!this._order) {
      const first = this.s ? 0 : this.network.alone;
      this._order = Int32Array.from({ length: this.logProbs.length - first }, (_, i) => first + i);
      this._order.sort((one, other) => this.logProbs[other] - this.logProbs[one]);
    }
    return this._order;
  }
}

// The likeliest words found so far, best first.
class Best {
  constructor(count) {
    this.count = count;
    this.places = [];
    this.logProbs = [];
  }

  // What a word must be above to get in.
  get least() {
    return this.places.length < this.count ? -Infinity : this.logProbs.at(-1);
  }

  offer(place, logProb) {
    if (logProb <= this.least) return;
    let at = this.places.length;
    while (at > 0 && this.logProbs[at - 1] < logProb) at--;
    this.places.splice(at, 0, place);
    this.logProbs.splice(at, 0, logProb);
    if (this.places.length > this.count) {
      this.places.pop();
      this.logProbs.pop();
    }
  }
}

class Network {
  constructor({ about, weights, places, wordAt }) {
    const { cell, layers, hidden_size: H, tied } = about.model, shape = about.table_shape;
    Object.assign(this, { shape, places, wordAt, alone: about.alone, head: about.head, layers, H });
    this._cell = CELLS[cell];
    need(this._cell, `its cell “${cell}” is not known`);
    this.offsets = shape.map((_, s) => shape.slice(0, s).reduce((sum, n) => sum + n, 0));
    // How many places begin with one and the same prefix of s components, those that do not exist counted too.
    this._below = shape.map((_, s) => shape.slice(s).reduce((product, n) => product * n, 1));
    this._below.push(1);
    this._checkTable();
    for (const [name, length] of this._expected(about)) {
      need(weights.get(name)?.length === length, `its array “${name}” has not the shape that it should have`);
    }
    const D = about.input_size, vectors = weights.get("input_vectors.weight");
    this._inputs = vectors;
    this._W = Array.from({ length: layers }, (_, l) => weights.get(`recurrence.weight_ih_l${l}`));
    this._U = Array.from({ length: layers }, (_, l) => weights.get(`recurrence.weight_hh_l${l}`));
    this._bW = Array.from({ length: layers }, (_, l) => weights.get(`recurrence.bias_ih_l${l}`));
    this._bU = Array.from({ length: layers }, (_, l) => weights.get(`recurrence.bias_hh_l${l}`));
    this._outputs = shape.map((n, s) => tied ?
      vectors.subarray(this.offsets[s] * D, (this.offsets[s] + n) * D) : weights.get(`output_vectors.${s}`));
    this._biases = shape.map((_, s) => weights.get(`output_bias.${s}`));
    this._wordBias = about.model.word_bias && places.length > about.alone;
    this._projection = weights.get("projection.weight");
    this._rest = [weights.get("rest_vector"), weights.get("rest_bias")];
    this._D = D;
    this._products = new Array(vectors.length / D);  // W·x + b of the first layer, made when a code is first fed
    this.start = new Float32Array(this._cell.states * layers * H);
  }

  _checkTable() {
    const sharing = this.places.length - this.alone, rows = this.shape[0] - this.alone, below = this._below[1];
    need(this.shape.length >= 2 && this.alone >= 0 && sharing >= 0, "its table has no shape");
    need(sharing ? below * (rows - 1) < sharing && sharing <= below * rows : rows === 0, "its table has not room");
    need(this.head >= 0 && this.head <= this.alone && this.head < this.shape[0], "its head is too large");
  }

  // Names and lengths of all arrays: models/predictor.py, _expected.
  *_expected({ model, input_size: D }) {
    const { H, shape } = this, G = this._cell.gates, { tied, output_bias: biased } = model;
    yield ["input_vectors.weight", (this.offsets.at(-1) + shape.at(-1)) * D];
    for (let l = 0; l < this.layers; l++) {
      yield [`recurrence.weight_ih_l${l}`, G * H * (l ? H : D)];
      yield [`recurrence.weight_hh_l${l}`, G * H * H];
      yield [`recurrence.bias_ih_l${l}`, G * H];
      yield [`recurrence.bias_hh_l${l}`, G * H];
    }
    if (tied && D !== H) yield ["projection.weight", D * H];
    for (let s = 0; s < shape.length; s++) {
      if (!tied) yield [`output_vectors.${s}`, shape[s] * H];
      const prefixes = model.word_bias && s === shape.length - 1 ? Math.ceil((this.places.length - this.alone) / shape[s]) : 1;
      if (biased) yield [`output_bias.${s}`, shape[s] * (prefixes || 1)];
    }
    if (this.head) yield ["rest_vector", tied ? D : H];
    if (this.head && biased) yield ["rest_bias", 1];
  }

  // ---- equation (1)

  // U·h + b of each layer.
  products(state) {
    const { H } = this, size = this._cell.gates * H;
    return this._U.map((U, l) =>
      multiply(U, state.subarray(l * H, (l + 1) * H), this._bU[l], 0, size, new Float32Array(size)));
  }

  // The state after a code, with the products of the state before it.
  feed(code, state, products) {
    const { H, layers } = this, size = this._cell.gates * H, after = new Float32Array(state.length);
    let x = this._products[code] ??= multiply(
      this._W[0], this._inputs.subarray(code * this._D, (code + 1) * this._D), this._bW[0], 0, size, new Float32Array(size));
    for (let l = 0; l < layers; l++) {
      if (l) x = multiply(this._W[l], after.subarray((l - 1) * H, l * H), this._bW[l], 0, size, new Float32Array(size));
      this._cell.step(x, products[l], H, state, after, l * H, (layers + l) * H);
    }
    return after;
  }

  // ---- equation (2)

  // log P of each value of component s that exists after a prefix, plus the prefix's own.
  logProbs(s, number, state, logProb) {
    const { H, layers, head } = this, h = state.subarray((layers - 1) * H, layers * H);
    const features = this._projection ?
      multiply(this._projection, h, null, 0, this._D, new Float32Array(this._D)) : h;
    const vectors = this._outputs[s], bias = this._biasOf(s, number);
    if (s === 0 && head) {
      const [vector, restBias] = this._rest, found = new Float32Array(this.shape[0]);
      const first = multiply(vectors, features, bias, 0, head, new Float32Array(head + 1));
      logSoftmax(multiply(vector, features, restBias, 0, 1, first, head), logProb);
      found.set(first.subarray(0, head));
      multiply(vectors, features, bias, head, found.length - head, found, head);
      logSoftmax(found.subarray(head), first[head]);
      return found;
    }
    const count = this._values(s, number);
    return logSoftmax(multiply(vectors, features, bias, 0, count, new Float32Array(count)), logProb);
  }

  // Those of component s; of the last one, where words have biases, those after a prefix.
  _biasOf(s, number) {
    const n = this.shape[s], biases = this._biases[s];
    return biases && this._wordBias && s === this.shape.length - 1 ? biases.subarray(number * n, (number + 1) * n) : biases;
  }

  // How many values component s has after a prefix: all, but for the one that leads to the last place.
  _values(s, number) {
    const last = this.places.length - this.alone - 1;
    if (s === 0 || number < Math.floor(last / this._below[s])) return this.shape[s];
    return Math.floor(last % this._below[s] / this._below[s + 1]) + 1;
  }

  // ---- words

  // The codes of a word.
  codes(word) {
    const place = this.places[word], shared = place - this.alone;
    if (shared < 0) return [place];
    return this.shape.map((n, s) =>
      s ? this.offsets[s] + Math.floor(shared / this._below[s + 1]) % n : this.alone + Math.floor(shared / this._below[1]));
  }

  // One word read, and nothing before it: all of its codes but the last, which is fed by `open`.
  after(word) {
    const codes = this.codes(word), last = codes.pop();
    return { state: codes.reduce((state, code) => this.feed(code, state, this.products(state)), this.start), last };
  }

  // What may follow.
  open({ state, last }) {
    return new Prefix(this, 0, 0, this.feed(last, state, this.products(state)), 0);
  }

  // The natural-log probability of a word, and what to `open` after it.
  read(opened, word) {
    const codes = this.codes(word), last = codes.pop();
    codes.forEach((code, s) => { opened = opened.child(code - this.offsets[s]); });
    return { logProb: opened.logProbs[last - this.offsets[codes.length]], after: { state: opened.state, last } };
  }

  // The most probable words, exactly, of those numbered begin … end - 1 without `never`. A word is never likelier than
  // its row, so rows are opened in falling order of theirs until none is above the least of the best words found; the
  // same for K > 2, one component after the other.
  likeliest(opened, count, [begin, end] = [0, this.places.length], never = -1) {
    const best = new Best(count), masks = this._masks(begin, end);
    const offer = (place, logProb) => {
      if (logProb <= best.least) return;
      const word = this.wordAt[place];
      if (word >= begin && word < end && word !== never) best.offer(place, logProb);
    };
    const search = prefix => {
      for (const value of prefix.order) {
        if (prefix.logProbs[value] <= best.least) return;
        const number = prefix.s ? prefix.number * this.shape[prefix.s] + value : value - this.alone;
        if (masks && !masks[prefix.s][number]) continue;
        const child = prefix.child(value);
        if (child.s < this.shape.length - 1) {
          search(child);
        } else {
          const first = this.alone + child.number * this.shape.at(-1);
          for (let i = 0; i < child.logProbs.length; i++) offer(first + i, child.logProbs[i]);
        }
      }
    };
    for (let row = 0; row < this.alone; row++) offer(row, opened.logProbs[row]);
    search(opened);
    return best.places.map((place, i) => ({ word: this.wordAt[place], logProb: best.logProbs[i] }));
  }

  // For every component but the last, whether a prefix that ends in it leads to one of some words; null: all do.
  _masks(begin, end) {
    const size = this.places.length;
    if (end - begin === size) return null;
    const masks = this.shape.slice(1).map((_, s) => new Uint8Array(Math.ceil((size - this.alone) / this._below[s + 1]) || 0));
    for (let word = begin; word < end; word++) {
      const shared = this.places[word] - this.alone;
      if (shared >= 0) masks.forEach((mask, s) => { mask[Math.floor(shared / this._below[s + 1])] = 1; });
    }
    return masks;
  }

  // A random word, one draw a component; at temperature 0 the likeliest row, then the likeliest column.
  draw(opened, temperature, random = Math.random) {
    for (;;) {
      const value = drawFrom(opened.logProbs, temperature, random);
      if (!opened.s && value < this.alone) return this.wordAt[value];
      if (opened.s === this.shape.length - 1) return this.wordAt[this.alone + opened.number * this.shape.at(-1) + value];
      opened = opened.child(value);
    }
  }

  // ---- the table

  // Those who share a row or a column, the word itself among them; none where it stands alone. Component 1 is the row, the
  // others together are the column.
  neighbours(word) {
    const shared = this.places[word] - this.alone, columns = this._below[1];
    if (shared < 0) return { row: this.places[word], inRow: [], inColumn: [] };
    const row = Math.floor(shared / columns), column = shared % columns;
    const inColumn = [];
    for (let place = this.alone + column; place < this.wordAt.length; place += columns) inColumn.push(this.wordAt[place]);
    const inRow = this.wordAt.slice(this.alone + row * columns, this.alone + (row + 1) * columns);
    return { row: this.alone + row, column, inRow: Array.from(inRow), inColumn };
  }
}
