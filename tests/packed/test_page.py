"""The page that runs a packed model, in a browser: what it holds, and what a person does with it."""

import base64
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import BACKSPACE, DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, Browser
from helpers import made_up_vocabulary, printed, run_here, train_small
from lightrnn.models.predictor import CodePredictor
from lightrnn.packed.model import read, write
from lightrnn.packed.page import packed_page
from lightrnn.table.explorer import column_words, row_words
from lightrnn.text.corpus import Corpus
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from packed_pages import NASTY, SETTLED, network_of, numbered_vocabulary, open_page


class Elements(HTMLParser):
    """What a browser's parser makes of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        name = self.found[-1][1].get("id") or self.found[-1][0] if self.found else ""
        self.texts[name] = self.texts.get(name, "") + data


def test_a_page_holds_the_packed_bytes_and_names_nothing_outside() -> None:
    packed = write(network_of(made_up_vocabulary(NASTY)))
    elements = Elements(packed_page(packed, "</title>&amp;<script>{{model}}"))
    assert base64.b64decode(elements.texts["model"]) == packed
    assert {elements.texts[name].strip() for name in ("title", "h1")} == {"</title>&amp;<script>{{model}}"}
    assert [tag for tag, _ in elements.found].count("script") == 3
    links = [value for _, attributes in elements.found for name, value in attributes.items() if name in {"src", "href"}]
    assert links == ["data:,"]
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith(("on", "style"))]


# --- what a person does


def suggested(browser: Browser) -> list[str]:
    """The words that can be taken."""
    return browser.run(f"return {SETTLED}.then(() => Array.from(suggestions.children, item => item.dataset.word))")


@pytest.fixture(scope="module")
def trained(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model, packed; its page is beside it."""
    folder = tmp_path_factory.mktemp("trained")
    model = train_small(tiny, folder / "a model", alone=20, tied=True, embedding_size=6)
    for name in ("words.lightrnn", "page.html"):
        printed(run_here("pack", model, "-o", folder / name))
    return folder / "words.lightrnn"


@pytest.fixture
def page(trained: Path, browser: Browser) -> Browser:
    """A window in which the page of the trained model is open."""
    browser.open(trained.with_name("page.html"))
    browser.run("return ready")
    return browser


def next_words(model: Path, context: str, prefix: str = "", count: int = 8) -> list[tuple[str, float]]:
    """What `lightrnn next` says, without the unknown word."""
    asked = ("--prefix", prefix) if prefix else ()
    told = json.loads(printed(run_here("next", model, context, "-k", count + 1, *asked, "--json")))
    return [(next_["word"], next_["probability"]) for next_ in told["words"] if next_["word"] != "<unk>"][:count]


def test_typing_suggests_what_next_says(page: Browser, trained: Path) -> None:
    assert page.run("return document.title") == "a model"
    asked = [
        ("", ""),
        ("", "w"),
        ("w1 ", ""),
        ("w1 ", "w2"),
        ("w1 w2 ", ""),
        ("w1 w2 nonsense ", ""),
        ("w1\tw2  w3 ", "w1"),
    ]
    for before, prefix in asked:
        page.run("text.value = ''; text.focus()")
        page.run("document.execCommand('insertText', false, arguments[0])", before)
        page.type("#text", prefix) if prefix else None
        wanted = next_words(trained, before, prefix)
        assert suggested(page) == [word for word, _ in wanted]
        shown = page.run("return view.suggestions.map(suggestion => suggestion.probability)")
        assert shown == pytest.approx([probability for _, probability in wanted], rel=1e-4)
    assert page.text("#suggestions li small").endswith("%")
    assert page.complaints() == []


def test_surprise_and_perplexity_are_those_of_score(page: Browser, trained: Path) -> None:
    page.type("#text", "w1 w2 nonsense w3\n")
    suggested(page)
    command = ("score", trained, "-", "--format", "jsonl", "--log-base", "2")
    told = json.loads(printed(run_here(*command, stdin=b"w1 w2 nonsense w3\n")))
    bits = page.run("return view.tokens.map(token => token.bits)")
    assert bits == pytest.approx([-value for value in told["log_probs"][:-1]], abs=1e-3)
    assert page.run("return view.perplexity") == pytest.approx(told["perplexity"], rel=1e-4)
    assert page.text("#perplexity") == f"{told['perplexity']:.1f} perplexity 4 words · 1 sentence end · 1 unknown"

    # Each word has its ground, the more surprising the stronger; the unknown one is marked.
    grounds = "return Array.from(shades.children, ground => [ground.textContent, ground.classList.contains('unknown'), "
    shown = page.run(grounds + "Number(ground.style.getPropertyValue('--surprise'))])")
    words = [("w1", False), ("w2", False), ("nonsense", True), ("w3", False)]
    assert [(word, unknown) for word, unknown, _ in shown] == words
    assert [strength for *_, strength in shown] == pytest.approx([min(value / 16, 1) for value in bits], abs=1e-3)
    x, y = page.run("const b = shades.children[1].getBoundingClientRect(); return [b.x + 5, b.y + 5]")
    page.point(x, y)
    assert page.text("#tip").startswith(f"{bits[1]:.1f} bits · ")


@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_lines_go_on_as_the_convention_says(browser: Browser, tmp_path: Path, convention: str) -> None:
    vocabulary = numbered_vocabulary(61, convention=convention)
    packed = write(network_of(vocabulary, alone=9), "float32")
    network = read(packed, "packed")
    predictor = CodePredictor(network.config, network.weights, network.table)
    bos, ids = network.vocabulary.bos_id, network.vocabulary.encode(["w1", "w2", "</s>", "w4", "w5"]).tolist()
    begin = last, state = bos, predictor.fresh_state(bos)
    nats = []
    for word in ids:
        log_prob, state = predictor.word(last, state, word)
        nats, last = [*nats, log_prob], word
        if convention == "sentence" and word == network.vocabulary.eos_id:
            last, state = begin
    open_page(browser, tmp_path, packed)
    browser.type("#text", "w1 w2\nw4 w5 ")
    suggested(browser)
    assert browser.run("return Math.log(view.perplexity)") == pytest.approx(-np.mean(nats), abs=1e-4)


def test_the_rules_of_the_text_apply(browser: Browser, tmp_path: Path) -> None:
    words = ["straße", "éa", "éb", "1", "2", "ab"]
    vocabulary = Vocabulary(["</s>", "<unk>", *words], np.arange(8, 0, -1), TextRules("nfkc", lowercase=True))
    open_page(browser, tmp_path, write(network_of(vocabulary)))
    insert = "text.value = ''; text.focus(); document.execCommand('insertText', false, arguments[0]); "
    insert += f"return {SETTLED}"
    browser.run(insert, "STRASSE STRAẞE E\u0301A ﹢ １\u00a0２ ")  # the last are two words to these rules
    assert browser.run("return view.tokens.map(token => token.isUnknown)") == [True, False, False, True, False]
    assert browser.run("return view.count") == 6
    browser.run(insert, "E\u0301")
    assert set(suggested(browser)) == {"éa", "éb"}
    browser.run(insert, "ab １\u00a0A")  # and a prefix may begin within a token
    assert suggested(browser) == ["ab"]


def test_keyboard_alone(page: Browser, trained: Path) -> None:
    value = f"return {SETTLED}.then(() => text.value)"
    page.press(TAB, *"w")  # into the text
    taken = suggested(page)[0]
    page.press(TAB)
    assert page.run(value) == f"{taken} "
    page.press(*"w")
    assert suggested(page) == [word for word, _ in next_words(trained, taken, "w")]
    third = suggested(page)[2]
    page.press(RIGHT, RIGHT, RIGHT, LEFT)
    assert page.run("return document.getElementById(text.getAttribute('aria-activedescendant')).dataset.word") == third
    assert page.run("return document.querySelector('[aria-selected=true]').dataset.word") == third
    page.press(ENTER)
    assert page.run(value) == f"{taken} {third} "
    assert suggested(page) == [word for word, _ in next_words(trained, f"{taken} {third}")]
    page.press(ENTER)  # nothing was marked: it ends the sentence
    page.press(*"w1", BACKSPACE, DOWN, DOWN, ENTER)
    text = page.run(value)
    assert text.startswith(f"{taken} {third} \nw")
    assert page.run("return view.count") == 4

    # Escape lets Tab leave; the other controls follow, and Enter or space presses them.
    page.press(ESCAPE, TAB)
    assert page.run("return document.activeElement.id") == "write"
    page.press(TAB, TAB, *[LEFT] * 40)
    assert page.run("return [document.activeElement.id, $('degrees').textContent]") == ["temperature", "0.00"]
    page.press(TAB, " ")
    assert page.run("return $('unknown').checked")
    assert "<unk>" in page.run(
        "return ask('look', {text: '', caret: 0, count: 99, unknown: true})"
        ".then(answer => answer.suggestions.map(found => found.word))"
    )
    page.run("$('clear').focus()")
    page.press(ENTER)
    assert page.run(value) == ""
    assert page.complaints() == []


def test_the_caret_may_stand_anywhere(page: Browser, trained: Path) -> None:
    page.type("#text", "w1 w20 w3 w4")
    page.run("text.setSelectionRange(5, 5)")  # within the second word
    wanted = [word for word, _ in next_words(trained, "w1", "w2")]
    assert suggested(page) == wanted
    page.press(TAB)
    suggested(page)
    assert page.run("return text.value") == f"w1 {wanted[0]} w3 w4"
    page.run("text.setSelectionRange(0, 0)")
    second = suggested(page)[1]
    page.click("#suggestions li:nth-child(2)")
    suggested(page)
    assert page.run("return text.value") == f"{second} {wanted[0]} w3 w4"
    assert page.run("return document.activeElement === text")  # a tap leaves it the focus


def test_writing_on_is_the_paper_s_prediction_at_temperature_zero(page: Browser, trained: Path) -> None:
    page.type("#text", "w1 w2")
    page.run("$('temperature').value = 0; $('temperature').dispatchEvent(new Event('input'))")
    assert page.text("#degrees") == "0.00"
    written = page.run("return writeOn().then(() => text.value)")
    assert page.run("return document.activeElement.id") == "write"
    told = printed(run_here("generate", trained, "--prompt", "w1 w2", "--greedy", "-n", "60")).split("\n")[0]
    assert written.split("\n")[0].split() == told.split()[: len(written.split())]
    page.run("$('temperature').value = 1")
    page.click("#write")
    wait = "const wait = resolve => text.value === arguments[0] ? setTimeout(wait, 10, resolve) : resolve(text.value);"
    longer = page.run(f"{wait} return new Promise(wait)", written)
    assert longer.startswith(written)
    assert "<unk>" not in longer


def test_who_shares_a_row_or_a_column(page: Browser, trained: Path) -> None:
    network = read(trained.read_bytes(), "packed")
    words, counts, table = network.vocabulary.words, network.vocabulary.counts, network.table
    shared = next(w for w in table.sharing.tolist() if words[w].startswith("w"))
    row, column = table.codes[shared].tolist()
    listed = "return Array.from(document.querySelectorAll(`${arguments[0]} button`), button => button.textContent)"

    def assert_listed() -> None:
        assert page.text("#name") == words[shared]
        assert page.text("#place").startswith(f"row {row}, column {column} · seen {counts[shared]:,} ×")
        assert page.run(listed, "#row") == [words[w] for w in row_words(table, counts, row)]
        assert page.run(listed, "#column") == [words[w] for w in column_words(table, counts, column)]

    page.type("#text", f"{words[shared]} {words[table.words[0]]} ")
    page.run(f"return {SETTLED}")
    assert page.text("#place").startswith("stands alone in a row of its own")
    assert page.run("return [$('row').hidden, $('column').hidden]") == [True, True]
    page.run(f"text.setSelectionRange(1, 1); return {SETTLED}")
    assert_listed()
    page.click("#row button:not([aria-current])")
    mate = next(words[w] for w in row_words(table, counts, row) if w != shared)
    assert page.run("return ask('word', {number: 0}).then(() => $('name').textContent)") == mate


def test_punctuation_that_sticks_and_capitals_are_told_and_mended(browser: Browser, tmp_path: Path) -> None:
    words = ["late", ".", '"', "it", "was", "Paris"]
    vocabulary = Vocabulary(["</s>", "<unk>", *words], np.arange(8, 0, -1), TextRules())
    open_page(browser, tmp_path, write(network_of(vocabulary)))
    browser.type("#text", 'It was "late." late! Was. Paris. ')
    suggested(browser)
    assert browser.text("#note").startswith("It is not known to the model, but it is.")
    browser.click("#note button")
    suggested(browser)
    assert browser.run("return text.value") == 'it was " late . " late! was . Paris . '
    assert browser.run("return [$('note').hidden, view.unknown]") == [True, 1]  # nothing helps against late!
    browser.run(f"text.setSelectionRange(20, 20); return {SETTLED}")
    assert browser.text("#name") == "late!"
    assert browser.text("#place").startswith("not among the model’s words · here ")
    assert browser.run("return [$('row').hidden, $('column').hidden]") == [True, True]


def test_hostile_words_are_text_and_no_request_leaves_the_page(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(made_up_vocabulary(NASTY), alone=3))
    browser.command("Network.enable")
    open_page(browser, tmp_path, packed, title="<img src=x onerror=alert(1)>")
    browser.run("addEventListener('securitypolicyviolation', event => { window.violation = event.violatedDirective })")
    images = "return document.querySelectorAll('img, iframe, object, embed, main script').length"
    for word in NASTY:
        browser.run("text.value = arguments[0]; text.focus(); text.setSelectionRange(9e9, 9e9)", f"{word} {word} ")
        browser.run(f"return {SETTLED}")
        assert browser.text("#name") == browser.run("return shown(arguments[0]).textContent", word.lower())
        assert browser.run("return Array.from(shades.children, ground => ground.textContent)") == [word, word]
        assert browser.run(images) == 0
    assert set(suggested(browser)) <= {*NASTY, "</s>"}
    assert browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert browser.run("return window.violation ?? null") is None
    assert browser.complaints() == []

    # The policy is in force: what tries to reach out is refused by the browser.
    refused = "return fetch(arguments[0]).then(() => 'sent', () => 'refused')"
    assert browser.run(refused, "https://example.org/") == browser.run(refused, "data:,") == "refused"
    assert browser.run("return window.violation") == "connect-src"
    assert (
        browser.run(
            "const e = document.createElement('div'); e.innerHTML = '<img src=x onerror=\"window.ran = 1\">'; "
            "document.body.append(e); return new Promise(r => setTimeout(() => r(window.ran ?? 0), 200))"
        )
        == 0
    )


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out_of_a_narrow_window(page: Browser, width: int) -> None:
    page.command("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        page.type("#text", "w1 w2 " + "x" * 200 + " w3 ")
        suggested(page)
        assert page.run("return document.documentElement.scrollWidth") <= width
        # The shades lie where the text does: as wide, as high, wrapped alike.
        boxes = "return [text, shades].map(e => [e.clientWidth, e.clientHeight])"
        one, other = page.run(boxes)
        assert one == other
        assert page.run("return text.scrollHeight") <= one[1]
    finally:
        page.command("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read_in_both_schemes(page: Browser, scheme: str) -> None:
    """The contrast that WCAG asks of text, 4.5 to 1, with the full colour of surprise under it too."""
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        variables = ("--page", "--panel", "--ink", "--faint", "--accent", "--surprising")
        colours = "const style = getComputedStyle(document.documentElement); return arguments[0].map(name => {"
        colours += (
            "const probe = element('i', {}); document.body.append(probe); const value = style.getPropertyValue(name);"
        )
        colours += "probe.style.color = value.includes(' ') ? `rgb(${value})` : value;"
        colours += "return getComputedStyle(probe).color.match(/[0-9]+/g).map(Number); })"
        found = dict(zip(variables, map(np.array, page.run(colours, list(variables))), strict=True))
    finally:
        page.command("Emulation.setEmulatedMedia", features=[])

    def luminance(colour: Any) -> float:
        linear = np.where(colour <= 10, colour / 255 / 12.92, ((colour / 255 + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    surprising = 0.75 * found["--surprising"] + 0.25 * found["--panel"]
    pairs = [
        (found[ink], found[ground]) for ink in ("--ink", "--faint", "--accent") for ground in ("--page", "--panel")
    ]
    for ink, ground in [*pairs, (found["--ink"], surprising)]:
        dark, light = sorted((luminance(ink), luminance(ground)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
    assert (luminance(found["--page"]) < 0.1) == (scheme == "dark")
