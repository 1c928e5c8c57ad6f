// What a person sees: the text with its surprise, words to take, a word's place. The model is asked in a worker.

"use strict";
{{common}}

const SUGGESTIONS = 8, MOST_BITS = 16;  // words to take; the surprise that has the full colour
const text = $("text"), shades = $("shades"), suggestions = $("suggestions"), tip = $("tip");

const percent = share => share < 0.00005 ? "<0.01%" :
  `${(100 * share).toFixed(share >= 0.0995 ? 0 : share >= 0.00995 ? 1 : 2)}%`;

// ---- asking the model

const source = URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" }));
const worker = new Worker(source), waiting = new Map();
let asked = 0;

function ask(kind, question = {}) {
  return new Promise((resolve, reject) => {
    waiting.set(++asked, { resolve, reject });
    worker.postMessage({ number: asked, kind, question });
  });
}

worker.onmessage = ({ data }) => {
  const { resolve, reject } = waiting.get(data.number);
  waiting.delete(data.number);
  if (data.error) reject(new Error(data.error));
  else resolve(data.answer);
};

function refuse(sentence) {
  document.querySelector("main").hidden = true;
  $("facts").className = "refusal";
  $("facts").textContent = sentence;
}

// ---- the text

let view = null;  // the last answer
let active = 0, isMarked = false, leaves = false;  // the suggestion that Tab takes; was it chosen; does Tab leave
let running = null, isStale = false;
let answered = "";  // the question of which the answer is shown

// Ask again and show the answer; while one question is on its way others wait, and only the last of them is asked.
function refresh() {
  isStale = true;
  return running ??= catchUp().catch(error => refuse(error.message)).finally(() => { running = null; });
}

async function catchUp() {
  while (isStale) {
    isStale = false;
    const finished = document.activeElement !== text, unknown = $("unknown").checked;
    const question = { text: text.value, caret: text.selectionStart, finished, unknown, count: SUGGESTIONS };
    const wanted = JSON.stringify(question);
    if (wanted === answered) continue;
    const answer = await ask("look", question);
    if (isStale) continue;
    answered = wanted;
    show(question.text, answer);
  }
}

function show(written, answer) {
  view = answer;
  shade(written);
  suggest();
  measure();
  advise();
  located = locate(answer.tokens[answer.selected]);
}

// Behind the text lies the same text, unseen, with a ground under each word: its colour is the word's surprise.
function shade(written) {
  const pieces = [];
  let end = 0;
  view.tokens.forEach((token, place) => {
    const ground = element("span", {}, written.slice(token.begin, token.end));
    ground.classList.toggle("unknown", token.isUnknown);
    ground.classList.toggle("selected", place === view.selected);
    ground.style.setProperty("--surprise", Math.min(token.bits / MOST_BITS, 1).toFixed(3));
    pieces.push(written.slice(end, token.begin), ground);
    end = token.end;
  });
  shades.replaceChildren(...pieces, written.slice(end) + "\n");
}

function suggest() {
  suggestions.replaceChildren(...view.suggestions.map(({ word, probability, isEnd }, place) => {
    const name = isEnd ? element("em", {}, "end of sentence") : shown(word);
    const item = element("li", { role: "option", id: `suggestion-${place}` }, name, element("small", {}, percent(probability)));
    item.dataset.word = word;
    return item;
  }));
  if (!view.suggestions.length) suggestions.append(element("li", { className: "none" }, "No word begins so."));
  mark(0, false);
}

function mark(place, chosen) {
  const items = suggestions.querySelectorAll("[data-word]");
  active = Math.min(Math.max(place, 0), items.length - 1);
  isMarked = chosen;
  items.forEach((item, index) => item.setAttribute("aria-selected", String(index === active && !leaves)));
  suggestions.classList.toggle("chosen", chosen);
  text.setAttribute("aria-activedescendant", chosen && active >= 0 ? `suggestion-${active}` : "");
  if (chosen) items[active]?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function measure() {
  const { perplexity, count, ends, unknown } = view;
  const facts = [plural(count - ends, "word")];
  if (ends) facts.push(plural(ends, "sentence end"));
  if (unknown) facts.push(`${number(unknown)} unknown`);
  const figure = count ? [element("strong", {}, perplexity < 100 ? perplexity.toFixed(1) : number(Math.round(perplexity)))] : [];
  $("perplexity").replaceChildren(...figure, count ? " perplexity " : "", element("small", {}, facts.join(" · ")));
}

// Punctuation that sticks to words, and capitals, can make them unknown: say so once, and change it if asked.
function advise() {
  const wrong = view.tokens.find(token => token.mended);
  $("note").hidden = !wrong;
  if (!wrong) return;
  const change = element("button", { className: "quiet", onclick: mend }, "Change all such words");
  const [written, better] = [text.value.slice(wrong.begin, wrong.end), wrong.mended].map(words => element("b", {}, shown(words)));
  $("note").replaceChildren(written, " is not known to the model, but ", better, " is. ", change);
}

function mend() {
  const written = text.value;
  let mended = "", end = 0;
  for (const token of view.tokens) {
    mended += written.slice(end, token.begin) + (token.mended || written.slice(token.begin, token.end));
    end = token.end;
  }
  replace(0, written.length, mended + written.slice(end));
}

// As if it was typed, so that it can be undone.
function replace(begin, end, by) {
  text.focus();
  text.setSelectionRange(begin, end);
  if (!document.execCommand("insertText", false, by)) text.setRangeText(by, begin, end, "end");
  return refresh();
}

async function take(place) {
  await refresh();  // keys may have come since the suggestions were made
  const chosen = view.suggestions[place];
  if (!chosen) return;
  const [begin, end] = view.replaced;
  const follows = chosen.isEnd ? "\n" : /^[ \t]/.test(text.value.slice(end)) ? "" : " ";
  await replace(begin, end, chosen.isEnd ? follows : chosen.word + follows);
  if (!follows) text.setSelectionRange(text.selectionEnd + 1, text.selectionEnd + 1);
}

const isAtEnd = () => text.selectionStart === text.value.length;

text.addEventListener("input", () => {
  leaves = false;
  tip.hidden = true;
  refresh();
});
text.addEventListener("focus", refresh);
text.addEventListener("blur", refresh);
document.addEventListener("selectionchange", () => {
  if (document.activeElement === text && !text.value.slice(text.selectionStart, text.selectionEnd)) refresh();
});
text.addEventListener("keydown", event => {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step && isAtEnd() && (step > 0 || (isMarked && active > 0))) {
    event.preventDefault();
    mark(active + step, true);
  } else if ((event.key === "Tab" && !leaves && view?.suggestions.length) || (event.key === "Enter" && isMarked)) {
    event.preventDefault();
    take(active);
  } else if (event.key === "Escape") {
    leaves = true;
    mark(0, false);
  }
});
suggestions.addEventListener("mousedown", event => event.preventDefault());  // the text keeps the focus
suggestions.addEventListener("click", event => {
  const item = event.target.closest("[data-word]");
  if (item) take([...suggestions.children].indexOf(item));
});

// The ground of a word lies under the text, where it cannot be pointed at: it is looked for.
text.addEventListener("pointermove", event => {
  const ground = document.elementsFromPoint(event.clientX, event.clientY).find(under => under.parentElement === shades);
  const token = ground && view?.tokens[[...shades.children].indexOf(ground)];
  tip.hidden = !token;
  if (!token) return;
  tip.textContent = surprise(token);
  const { left, top } = ground.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${top - tip.offsetHeight - 4}px`;
});
text.addEventListener("pointerleave", () => { tip.hidden = true; });

const surprise = ({ bits, isUnknown }) =>
  `${bits.toFixed(1)} bits · ${percent(2 ** -bits)}${isUnknown ? " as the unknown word" : ""}`;

// ---- a word's place

let placed = null;  // the word whose place is shown
let located = null;  // when that of the token at the caret is

// The token at the caret, or before it.
async function locate(token) {
  $("word").hidden = !token;
  if (!token) return;
  const isPlaced = placed?.number === token.number, found = isPlaced ? placed : await ask("word", { number: token.number });
  if (view.tokens[view.selected] === token) place(found, token);
}

function place(found, token = null) {
  const { number: selected, word, count, row, column, inRow, inColumn } = found, isUnknown = token?.isUnknown ?? false;
  const where = isUnknown ? ["not among the model’s words"] : [
    column === undefined ? "stands alone in a row of its own" : `row ${number(row)}, column ${number(column)}`,
    `seen ${number(count)} ×`,
  ];
  $("name").replaceChildren(shown(isUnknown ? text.value.slice(token.begin, token.end) : word));
  $("place").textContent = [...where, ...(token ? [`here ${surprise(token)}`] : [])].join(" · ");
  if (placed !== found) {
    placed = found;
    list("row", inRow, selected);
    list("column", inColumn, selected);
  }
  $("row").hidden = $("column").hidden = isUnknown || column === undefined;
}

function list(side, { count, words }, selected) {
  const rest = count - words.length;
  $(side).querySelector(".words").replaceChildren(...words.map(({ number: member, word }) => {
    const button = element("button", { onclick: async () => place(await ask("word", { number: member })) }, shown(word));
    if (member === selected) button.setAttribute("aria-current", "true");
    return button;
  }), ...(rest > 0 ? [element("small", {}, `and ${number(rest)} more`)] : []));
}

// ---- writing on

async function writeOn() {
  const written = text.value.replace(/[ \t]+$/, "");
  const question = { text: written, temperature: Number($("temperature").value), unknown: $("unknown").checked };
  const { words, ended } = await ask("write", question);
  const sentence = (ended ? words.slice(0, -1) : words).join(" ") + (ended ? "\n" : " ");
  await replace(written.length, text.value.length, (/[^\n]$/.test(written) && words.length > ended ? " " : "") + sentence);
  $("write").focus();
}

$("write").addEventListener("click", writeOn);
$("temperature").addEventListener("input", event => { $("degrees").textContent = Number(event.target.value).toFixed(2); });
$("unknown").addEventListener("change", refresh);
$("clear").addEventListener("click", () => replace(0, text.value.length, ""));

// ---- begin

async function begin() {
  try {
    const facts = await ask("load", { payload: $("model").textContent.trim() });
    const parts = [plural(facts.words, "word"), facts.network, `${(facts.bytes / 1e6).toPrecision(2)} MB`];
    $("facts").textContent = parts.join(" · ");
    $("most").textContent = `${MOST_BITS} bits of surprise`;
    document.querySelector("main").hidden = false;
    await refresh();
  } catch (error) {
    refuse(error.message);
  } finally {
    $("model").remove();
    URL.revokeObjectURL(source);
  }
}

const ready = begin();
