// The model's side of the page: a question comes as a message, its answer goes back with the same number.
//
// A text is lines of tokens with white space between them. A token is mostly one word; where the rules of the text make
// several words of it, it is all of them together. A line's end is a word too.

const MOST_WRITTEN = 60, DRAWS = 20;  // words of a sample; draws of a word that is not to be drawn
const LISTED = 60;  // words of a row or a column
const OPENED = 8;  // contexts of which what may follow is kept

class Reader {
  constructor(model) {
    this.model = model;
    this.network = new Network(model);
    this._begin = this.network.after(model.specials.bos);
    this._path = [];  // the words read last, each with its log-probability and what stands after it
    this._opened = new Map();
  }

  // What may follow a context; the contexts asked for last are remembered.
  open(after) {
    const found = this._opened.get(after) ?? this.network.open(after);
    this._opened.delete(after);
    this._opened.set(after, found);
    if (this._opened.size > OPENED) this._opened.delete(this._opened.keys().next().value);
    return found;
  }

  // One word further; a sentence that ends leads to the next one as the model's convention says.
  advance(after, word) {
    const { rules, specials } = this.model, found = this.network.read(this.open(after), word);
    const isFresh = word === specials.eos && rules.convention === "sentence";
    return { word, logProb: found.logProb, after: isFresh ? this._begin : found.after };
  }

  // Read words from the beginning; what they have in common with those read before costs nothing.
  follow(words) {
    let common = 0;
    while (common < words.length && this._path[common]?.word === words[common]) common++;
    this._path.length = common;
    for (const word of words.slice(common)) this._path.push(this.advance(this.at(this._path.length), word));
    return this._path;
  }

  // What stands after so many words of those read.
  at(count) {
    return count ? this._path[count - 1].after : this._begin;
  }

  // The numbers of words; unknown ones are `unk`.
  numbers(texts) {
    return texts.map(text => {
      const word = this.model.words.find(text);
      return word < 0 ? this.model.specials.unk : word;
    });
  }

  // The tokens of a text and the ends of its lines, in order: where they begin and end, and their words.
  tokens(text) {
    const found = [], { rules, specials } = this.model;
    for (const { 0: piece, index: begin } of text.matchAll(/\n|[^ \t\n\r\v\f]+/g)) {
      const isEnd = piece === "\n";
      const texts = isEnd ? [rules.eos] : rules.split(piece), words = isEnd ? [specials.eos] : this.numbers(texts);
      const isUnknown = words.some((word, i) => word === specials.unk && texts[i] !== rules.unk);
      found.push({ begin, end: begin + piece.length, isEnd, words, isUnknown });
    }
    return found;
  }

  // What the page shows of a text: how surprising its tokens are, what may come at the caret, and the word that is there. The last token is still being typed where the caret is at its end, unless it is `finished`.
  look({ text, caret, finished, count, unknown }) {
    const { rules, specials, words } = this.model, tokens = this.tokens(text);
    const last = tokens.at(-1);
    if (!finished && last && !last.isEnd && last.end === caret && caret === text.length) tokens.pop();
    const path = this.follow(tokens.flatMap(token => token.words));
    let first = 0, nats = 0, before = 0;
    for (const token of tokens) {
      const logProbs = path.slice(first, first += token.words.length).map(step => step.logProb);
      token.bits = -logProbs.reduce((sum, logProb) => sum + logProb, 0) / Math.LN2;
      nats += token.bits * Math.LN2;
      token.mended = token.isUnknown ? this._mended(text.slice(token.begin, token.end)) : "";
      if (token.end < caret || (token.end === caret && token.isEnd)) before = first;
    }
    const typed = text.slice(0, caret).match(/[^ \t\n\r\v\f]*$/)[0], rest = text.slice(caret).match(/^[^ \t\n\r\v\f]*/)[0];
    const pieces = rules.clean(typed).split(WHITE), prefix = pieces.pop();
    const context = this.numbers(pieces.filter(Boolean))
      .reduce((after, word) => this.advance(after, word).after, this.at(before));
    const range = words.beginningWith(prefix);
    const found = this.network.likeliest(this.open(context), count, range, unknown ? -1 : specials.unk);
    const shown = tokens.filter(token => !token.isEnd);
    return {
      tokens: shown.map(({ begin, end, words: numbers, bits, isUnknown, mended }) =>
        ({ begin, end, number: numbers.at(-1), bits, isUnknown, mended })),
      selected: shown.findLastIndex(token => token.begin <= caret),
      count: path.length,
      ends: tokens.filter(token => token.isEnd).length,
      unknown: tokens.filter(token => token.isUnknown).length,
      perplexity: path.length ? Math.exp(nats / path.length) : null,
      replaced: [caret - typed.length, caret + rest.length],
      suggestions: found.map(({ word, logProb }) =>
        ({ word: words.text(word), probability: Math.exp(logProb), isEnd: word === specials.eos })),
    };
  }

  // An unknown token that is known with its punctuation set apart, or in lower case, or both: how it should be written;
  // or nothing.
  _mended(token) {
    const { rules, words } = this.model;
    const [, before, middle, behind] = token.match(/^(\p{P}*)(.*?)(\p{P}*)$/su);
    const apart = [...before, middle, ...behind].filter(Boolean).join(" ");
    const isKnown = text => rules.split(text).every(word => words.find(word) >= 0);
    return [apart, token.toLowerCase(), apart.toLowerCase()].find(isKnown) ?? "";
  }

  // A word's place and those who share its row or its column, the frequent ones first.
  word({ number }) {
    const { words, counts } = this.model, { row, column, inRow, inColumn } = this.network.neighbours(number);
    const listed = members => ({
      count: members.length,
      words: members.sort((one, other) => counts[other] - counts[one] || one - other).slice(0, LISTED)
        .map(member => ({ number: member, word: words.text(member) })),
    });
    return {
      number,
      word: words.text(number),
      count: counts[number],
      row,
      column,
      inRow: listed(inRow),
      inColumn: listed(inColumn),
    };
  }

  // Words drawn after a text, to the end of a sentence at most.
  write({ text, temperature, unknown }) {
    const { specials, words } = this.model, written = [];
    this.follow(this.tokens(text).flatMap(token => token.words));
    let after = this.at(this._path.length);
    for (let word = -1; word !== specials.eos && written.length < MOST_WRITTEN;) {
      word = this._draw(this.open(after), temperature, unknown ? -1 : specials.unk);
      after = this.advance(after, word).after;
      written.push(word);
    }
    return { words: written.map(word => words.text(word)), ended: written.at(-1) === specials.eos };
  }

  // As inference/generate.py: what is not to be drawn is drawn again, and at last the likeliest other word is taken.
  _draw(opened, temperature, never) {
    for (let draw = 0; draw < (temperature ? DRAWS : 1); draw++) {
      const word = this.network.draw(opened, temperature);
      if (word !== never) return word;
    }
    return this.network.likeliest(opened, 1, undefined, never)[0].word;
  }

  facts() {
    const { about: { model }, words } = this.model;
    return {
      words: words.count,
      network: `${model.cell.toUpperCase()} of ${model.layers > 1 ? `${model.layers} × ` : ""}${model.hidden_size} units`,
    };
  }
}

let reader;

const ANSWERS = {
  async load({ payload }) {
    if (typeof DecompressionStream === "undefined") {
      throw new Refusal("This browser is too old to unpack the model in this page; use one from 2023 or later.");
    }
    const file = fromBase64(payload);
    reader = new Reader(await readModel(file));
    return { ...reader.facts(), bytes: file.length };
  },
  look: question => reader.look(question),
  word: question => reader.word(question),
  write: question => reader.write(question),
};

onmessage = async ({ data: { number, kind, question } }) => {
  try {
    postMessage({ number, answer: await ANSWERS[kind](question) });
  } catch (error) {
    const told = error instanceof Refusal ? error : damaged("what it holds does not go together");
    postMessage({ number, error: told.message });
  }
};
