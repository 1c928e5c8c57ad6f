const $ = id => document.getElementById(id);
const number = value => value.toLocaleString("en");
const plural = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;

function element(tag, properties, ...children) {
  const built = Object.assign(document.createElement(tag), properties);
  built.append(...children);
  return built;
}

// A word as text. White space and control characters would be invisible: they are shown as code points.
function shown(word) {
  if (/[^\p{C}\p{M}\p{Z}]/u.test(word)) return element("bdi", {}, word);
  const points = [...word].map(c => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
  return element("bdi", { className: "code" }, points.join(" "));
}
