"""Random packed models and their pages, for the tests of the page."""

import base64
from pathlib import Path
from typing import Any

from browser import Browser
from helpers import made_up_vocabulary, random_lightrnn
from lightrnn.packed.model import Network
from lightrnn.packed.page import packed_page
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary

MARKUP = ["</script><script>alert(1)</script>", "<img/src=x/onerror=alert(1)>", "<!--<script>", "{{model}}", "&lt;"]
LETTERS = ['"', "\\", "\ufeff", "\ufeffé", "é", "中文", "\U0001f469\u200d\U0001f469", "\uffee", "x" * 300, "xylo"]
NASTY = [*MARKUP, *LETTERS, "__proto__", "constructor"]
SETTLED = "refresh().then(() => located)"  # all keys so far are answered, and the place of the word is shown


def network_of(vocabulary: Vocabulary, **settings: Any) -> Network:
    """A random LightRNN of these words."""
    model = random_lightrnn(V=len(vocabulary), **settings)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items() if name != "codes"}
    return Network(model.config, vocabulary, weights, model.table, {})


def numbered_vocabulary(size: int, **rules: Any) -> Vocabulary:
    """As `made_up_vocabulary`, of w0 …"""
    made = made_up_vocabulary([f"w{i}" for i in range(size - 2)])
    return Vocabulary(made.words, made.counts, TextRules(**rules))


def open_page(browser: Browser, folder: Path, packed: bytes, title: str = "a model") -> None:
    page = folder / "page.html"
    page.write_text(packed_page(packed, title), encoding="utf-8")
    browser.open(page)
    browser.run("return ready")


IN_A_WORKER = """
const [body, ...given] = arguments, script = `${$("worker").textContent}
  onmessage = async ({ data }) => postMessage(await (async (...given) => { ${body} })(...data));`;
return new Promise((resolve, reject) => {
  const worker = new Worker(URL.createObjectURL(new Blob([script])));
  worker.onmessage = ({ data }) => { worker.terminate(); resolve(data); };
  worker.onerror = reject;
  worker.postMessage(given);
});
"""


def in_a_worker(browser: Browser, body: str, *given: Any) -> Any:
    """What some JavaScript returns that runs behind the page's own scripts for the worker."""
    return browser.run(IN_A_WORKER, body, *given)


def encoded(packed: bytes) -> str:
    return base64.b64encode(packed).decode()
