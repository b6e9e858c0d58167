"""What people look for they find: by the search, in the index, in the glossary, on a disk too."""

import json
import re

import pytest
from built_site import CHAPTERS, ROOT, SITE, built, read, todays_theme

APPENDICES = ["book/derivations", "book/lectures-checked"]
QUESTIONS = json.loads((ROOT / "tests/site/questions.json").read_text("utf-8"))

# The topics of a course on attention, each with the terms by which the index must have it.
TOPICS = {
    "R1": ["sequence modelling", "language model", "time series"],
    "R2": ["vanilla RNN cell", "parameter sharing"],
    "R3": ["one-to-many", "image captioning", "sentiment classification"],
    "R4": ["backpropagation through time", "truncated backpropagation through time"],
    "R5": ["vanishing gradients", "exploding gradients", "eigenvalues", "Jacobian"],
    "R6": ["ReLU", "gating"],
    "R7": ["LSTM", "forget gate", "cell state"],
    "R8": ["GRU", "reset gate", "update gate"],
    "R9": ["multi-layer", "depth of RNNs"],
    "R10": ["bidirectional RNN"],
    "R11": ["word embeddings", "one-hot", "distributional semantics", "skip-gram", "CBOW"],
    "R12": ["sequential computation", "path length", "hidden-state bottleneck"],
    "S1": ["encoder–decoder", "fixed context vector", "conditional factorisation"],
    "S2": ["bottleneck of the fixed context vector", "sentence length"],
    "S3": [
        "alignment scores",
        "additive (MLP) attention",
        "dot-product attention",
        "context vector",
    ],
    "S4": ["decoder initialisation"],
    "S5": ["learning without alignment supervision", "differentiable end to end"],
    "S6": ["teacher forcing", "autoregressive decoding"],
    "S7": ["alignment matrix", "reordering", "European Economic Area"],
    "S8": ["history of attention"],
    "S9": ["implicit and explicit attention"],
    "Q1": ["attention layer", "attention weights"],
    "Q2": ["library analogy", "database analogy", "search engine analogy", "hash table"],
    "Q3": ["hard lookup and soft lookup", "temperature of the softmax"],
    "Q4": ["worked example of attention"],
    "Q5": ["query, changing the"],
    "Q6": ["keys and values, why separate"],
    "Q7": ["scaled dot-product attention", "variance of a dot product", "softmax saturation"],
    "Q8": ["cosine similarity", "dot product as norms times cosine"],
    "Q9": ["attention in matrix form", "softmax axis"],
    "Q10": ["self-attention", "cross-attention", "fused QKV"],
    "Q11": ["queries and keys of different width"],
    "Q12": ["Prince's notation", "routing"],
    "Q13": ["linearity in the values"],
    "Q14": ["kernel regression", "Nadaraya–Watson"],
    "O1": ["permutation equivariance"],
    "O2": ["sinusoidal positional encoding", "shift of positions as a rotation"],
    "O3": ["positions, adding or concatenating"],
    "O4": ["learned positional embeddings", "length extrapolation"],
    "O5": ["two-dimensional (2D) positional encoding", "resizing positional embeddings"],
    "O6": ["relative position"],
    "O7": ["causal mask", "padding mask", "−∞ against −1e9", "fully masked row"],
    "M1": ["multi-head attention", "concatenation of heads", "output projection"],
    "M2": ["matrix products of attention", "FLOPs of multi-head attention", "fused QKV"],
    "M3": ["several heads", "subspaces of heads", "averaging, limits of"],
    "M4": ["ensemble of heads", "diversity of heads"],
    "T1": ["transformer block", "token mixing", "matrix products of a block"],
    "T2": ["feed-forward network", "GELU", "position-wise"],
    "T3": ["1×1 convolution", "shift equivariance", "kernel size"],
    "T4": ["residual connections", "identity path", "gradient +1"],
    "T5": ["layer normalisation", "batch normalisation", "post-norm and pre-norm"],
    "T6": ["encoder and decoder of the transformer", "masked self-attention", "cross-attention"],
    "T7": ["translation with a transformer", "teacher forcing in parallel", "beam search"],
    "T8": ["encoder-only (BERT)", "decoder-only (GPT)", "T5", "masked language model"],
    "T9": ["parameter count", "base and big configurations"],
    "T10": ["warm-up", "Noam schedule"],
    "T11": ["composition of functions"],
    "T12": ["label smoothing"],
    "L1": ["weight tying", "cross-entropy of a language model", "unembedding"],
    "L2": ["Shakespeare", "character-level transformer"],
    "L3": ["greedy decoding", "top-k sampling", "nucleus", "KV cache"],
    "L4": ["tokenisation", "byte-pair encoding", "patches as tokens", "code tokens"],
    "L5": ["in-context learning", "few-shot learning"],
    "V1": ["image patches", "strided convolution"],
    "V2": ["class token", "mean pooling", "classification head"],
    "V3": ["image classification", "attention maps of a vision transformer", "position similarity"],
    "V4": ["data hunger", "inductive bias", "ViT against CNN"],
    "W1": ["pre-norm"],
    "W2": ["RMSNorm", "ε inside the root"],
    "W3": ["SwiGLU", "hidden size for equal parameters"],
    "W4": ["mixture of experts", "router", "load balancing", "active parameters"],
    "W5": ["RoPE", "ALiBi", "GQA", "MQA", "MLA", "QK-norm", "sliding window attention"],
    "C1": ["complexity of RNN, CNN and attention", "sequential operations", "path length"],
    "C2": ["n²h memory"],
    "C3": ["FlashAttention", "online softmax", "tiling"],
    "C4": ["sparse attention", "local attention", "strided attention", "global tokens"],
    "C5": ["linear attention", "feature map"],
    "C6": ["Linformer", "Performer (FAVOR+)", "Reformer", "LSH", "reversible layers"],
    "C7": ["state-space models"],
    "C8": ["GPT-3, cost of", "training compute", "inference memory"],
    "C9": ["hierarchical processing", "segments", "gradient checkpointing"],
    "X1": ["tokens in every domain", "universal view"],
    "X2": ["adjacency mask", "structural encoding"],
    "X3": ["waveform", "spectrogram", "multi-scale audio", "time series forecasting"],
    "X4": ["joint sequence", "cross-modal attention", "CLIP", "contrastive loss"],
    "X5": ["video", "tubelets"],
    "Y1": ["gradient flow", "RNN against transformer"],
    "Y2": ["soft dictionary lookup"],
    "Y3": ["universal approximation"],
    "Y4": ["scaling laws", "power law"],
    "Y5": ["comparison of architectures", "architecture, choosing"],
    "I1": ["attention maps", "specialised heads", "attention heads that do nothing"],
    "I2": ["attention is not explanation", "ablation of heads"],
    "I3": ["coreference", "trophy and suitcase"],
    "I4": ["reliability", "energy"],
    "I5": ["data hunger"],
    "P1": ["debugging checklist", "attention entropy collapse", "loss spikes", "out of memory"],
    "P2": ["hyperparameter defaults", "tuning priority"],
    "P3": ["pre-training", "fine-tuning"],
    "P4": ["dropout", "mixed precision", "gradient accumulation", "clipping", "checkpointing"],
    "P5": ["project ideas", "reading list"],
    "P6": ["self-test questions"],
    "appendices": ["variance of a dot product, proof", "errata", "sum over heads, proof"],
}

pytestmark = [built, todays_theme]


def sections_of(labels):
    """{label: the ids of its section and of those in it}, wherever in the book that is."""
    wanted, found = set(labels), {}
    for page in [*CHAPTERS, *APPENDICES]:
        for label in list(wanted):
            if target := read(page).find(id=label):
                section = target if target.name == "section" else target.find_parent("section")
                found[label] = {
                    tag["id"]
                    for tag in section.select("section, section > span[id]")
                    if tag.get("id")
                }
                found[label] |= {section["id"], label}
                wanted.discard(label)
    assert not wanted, f"no section is labelled {wanted}"
    return found


@pytest.fixture(scope="module")
def search(chromium):
    """The search page of a copy on a disk; what it asks for and complains of is collected."""
    page = chromium.new_page()
    page.trouble = []
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("requestfailed", lambda request: page.trouble.append(request.url))
    page.on(
        "console", lambda line: line.type in ("error", "warning") and page.trouble.append(line.text)
    )
    page.goto(f"{(SITE / 'search.html').as_uri()}?q=attention")
    page.locator("#search-results li a").first.wait_for()
    yield page
    page.close()


def ask(search, question, best=3):
    """Address, anchor and title of the best places."""
    found = search.evaluate(f"q => attnSearch.find(q).slice(0, {best})", question)
    return [{"page": place[6], "anchor": place[1], "title": place[3]} for place in found]


def misses(search, questions):
    sections = sections_of({label for _, labels in questions for label in labels.split()})
    for question, labels in questions:
        first = next(iter(ask(search, question)), {"anchor": "none", "title": "nothing"})
        place = first["anchor"] or read(first["page"]).select_one("article section")["id"]
        if not any(place in sections[label] for label in labels.split()):
            yield f"{question}: {first['title']}, not {labels}"


def test_of_forty_questions_thirty_five_lead_to_the_right_section_first(search):
    assert len(QUESTIONS["forty"]) == 40
    wrong = list(misses(search, QUESTIONS["forty"]))
    assert len(wrong) <= 5, "\n".join(wrong)


@pytest.mark.slow
def test_thirty_questions_that_nothing_was_fitted_to_do_nearly_as_well(search):
    assert len(QUESTIONS["thirty more"]) == 30
    wrong = list(misses(search, QUESTIONS["thirty more"]))
    assert len(wrong) <= 5, "\n".join(wrong)


@pytest.mark.slow
def test_twelve_questions_in_a_readers_own_words_lead_there_too(search):
    assert len(QUESTIONS["twelve more"]) == 12
    wrong = list(misses(search, QUESTIONS["twelve more"]))
    assert len(wrong) <= 1, "\n".join(wrong)


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("vanishng gradeint", "sec-vanishing"),  # two slips
        ("nucl", "sec-writing"),  # still being typed
        ("layer normalization", "sec-norm"),  # American spelling
        ("LayerNorm", "sec-norm"),
        ("prenorm", "sec-pre-norm sec-norm"),
        ("√d", "sec-scale"),
    ],
)
def test_slips_beginnings_and_other_spellings_are_understood(search, question, labels):
    assert not list(misses(search, [(question, labels)]))


def test_names_of_the_module_and_chinese_terms_are_found(search):
    assert "attnbook.attention.MultiHeadAttention" in [
        p["anchor"] for p in ask(search, "MultiHeadAttention")
    ]
    first = ask(search, "注意力权重")[0]
    assert (first["page"], first["anchor"]) == ("book/glossary", "term-attention-weights")
    assert ask(search, "zzzzqqq") == []


def test_a_result_says_where_it_leads_and_what_is_said_there(search):
    field = search.locator("#main-content input[name=q]")
    field.fill("label smoothing")
    first = search.locator("#search-results li").first
    search.wait_for_function(
        "document.querySelector('#search-results a').textContent.includes('smoothing')"
    )
    assert first.locator("a").get_attribute("href").endswith("#sec-smoothing")
    assert "label smoothing" in first.locator(".where").inner_text()
    assert len(first.locator("p.context").inner_text()) > 40
    assert search.locator("#search-results .highlighted").count() > 0
    assert "q=label+smoothing" in search.url
    assert search.trouble == []


def test_the_index_of_the_search_is_on_its_page_alone():
    for page in ("index", CHAPTERS[4], "genindex"):
        text = (SITE / f"{page}.html").read_text("utf-8")
        assert not re.search(r"searchindex\.js|searchtools\.js|sections\.js", text), page
    text = (SITE / "search.html").read_text("utf-8")
    assert "sections.js" in text and "searchindex.js" not in text


def test_python_and_the_page_take_words_apart_alike(search, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book/_ext"))
    section_search = pytest.importorskip("section_search")
    text = " ".join(re.findall(r"<li>(.*?) <a", (SITE / "genindex.html").read_text("utf-8"))[:900])
    text += " normalization behaviour Nadaraya–Watson 1×1 √d RMSNorm top-p Q Kᵀ don't"
    theirs = search.evaluate("text => attnSearch.words(text)", text)
    assert theirs == list(section_search.words(text)) and len(theirs) > 1000


@pytest.fixture(scope="module")
def index():
    return read("genindex").select_one("article.bd-article")


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_of_a_course_is_in_the_index(index, topic):
    entries = [item.get_text(" ") for item in index.select("#a-to-z li")]
    for term in TOPICS[topic]:
        assert any(term.casefold() in entry.casefold() for entry in entries), term


def test_the_index_is_grouped_by_topic_and_each_entry_leads_to_a_section(index):
    assert index.h1.get_text().startswith("Index")
    topics = [heading.get_text() for heading in index.select("#topics h3")]
    assert len([name for name in topics if re.match(r"\d+ ", name)]) == 18
    for item in index.select("#topics li"):
        links = item.select("a[href]")
        assert links and all("#" in link["href"] for link in links), item.get_text()
    noon = [
        item for item in index.select("#a-to-z li") if item.get_text().startswith("KV cache 7.")
    ]
    assert noon and noon[0].a["href"].endswith("#sec-kv-cache")


@pytest.mark.parametrize("page", [*CHAPTERS, *APPENDICES])
def test_each_section_is_in_the_index(index, page):
    linked = {
        link["href"].partition("#")[2] for link in index.select(f'#topics a[href*="{page}.html"]')
    }
    body = read(page).select_one("article.bd-article")
    for section in body.select("section > section:has(> h2)"):
        ids = {
            section["id"],
            *(tag["id"] for tag in section.select("section[id], section > span[id]")),
        }
        if not re.search(r"(Exercises|Summary|In \w+ lines)#*$", section.h2.get_text()):
            assert ids & linked, f"no index entry in {section.h2.get_text()}"


def test_each_entry_of_the_glossary_leads_to_where_its_term_is_taught():
    body = read("book/glossary").select_one("dl.glossary")
    definitions = body.find_all("dd")
    assert len(definitions) > 100
    for definition in definitions:
        name = definition.find_previous_sibling("dt").get_text()
        link = definition.select_one("p.taught a[href]")
        assert link and re.match(r"\d\d-[\w-]+\.html#.|derivations\.html#.", link["href"]), name
    led = {
        dt["id"]: dt.find_next_sibling("dd").select_one("p.taught a")["href"]
        for dt in body.find_all("dt")
    }
    assert led["term-causal-mask"].endswith("#sec-causal")
    assert led["term-KV-cache"].endswith("#sec-kv-cache")


@pytest.mark.parametrize("how", ["hover", "focus"])
def test_a_term_shows_its_first_sentence(chromium, how):
    page = chromium.new_page()
    page.goto((SITE / "book/05-multi-head-attention.html").as_uri())
    link = page.locator('article a[href*="glossary.html#term-"]').first
    if how == "hover":
        link.hover()
    else:
        page.keyboard.press("Tab")  # what follows is reached by keyboard
        link.focus()
    tip = page.locator("#term-tip")
    tip.wait_for(state="visible")
    said = json.loads(
        (SITE / "_static/terms.js").read_text("utf-8").strip()[len("attnTerms(") : -1]
    )
    sentence = said[link.get_attribute("href").partition("#")[2]]
    assert sentence.endswith(".") and tip.inner_text()[:20] == sentence[:20]
    assert link.get_attribute("aria-describedby") == "term-tip"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.close()
