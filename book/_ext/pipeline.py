"""The site's pipeline: every extension with what a reader gains by it, every step in its order.

Jupyter Book reads the pages, Sphinx writes them. What this book does on the way stands here and
nowhere else: an extension's `setup` adds its directives, roles and nodes; what runs at which event
is a line of `STEPS`.
"""

from collections.abc import Iterable
from typing import Any

import attnsite
import boxes
import cell_folds
import find
import front_door
import glossary_links
import light_pictures
import measured_numbers
import module_reference
import opening
import page_html
import page_meta
import section_search
import through
import topic_index
import trainer
import used_styles
import writer
from sphinx.application import Sphinx

EXTENSIONS = {
    "module_reference": "a listing's name leads to its signature, shapes and errors",
    "your_run": "one's own run beside ours, table by table",
    "letters": "which letter means what in which chapter, from the formulas themselves",
    "models_table": "open models in a table that can be sorted and filtered",
    "cell_folds": "the idea stays open, the machinery is folded",
    "boxes": "predictions, results, pitfalls, what goes deeper",
    "opening": "a chapter's first screen: question, picture, time, ways to open it",
    "measured_numbers": "a number in the text is the one in the table",
    "page_html": "what comes next, pictures that do not jump, old links that still lead",
    "light_pictures": "pictures a third lighter, dot for dot",
    "used_styles": "a first screen without 400 kB of rules that no page needs",
    "find": "scripts that arrive when they are asked for",
    "topic_index": "which section to open for a term",
    "section_search": "search by section, from file:// too",
    "glossary_links": "a term leads to where it is taught",
    "front_door": "the landing page",
    "page_meta": "a card for who shares a page, a line for who cites it",
    "speaker_notes": "what a lecturer says beside a slide",
    "writer": "the book's language model, in the page",
    "through": "what happens in it between a line and its next token",
    "trainer": "a small transformer that learns, or fails to, in the page",
}

BEFORE, AFTER = 400, 600  # Sphinx's own steps, and other extensions', have priority 500

# At each event: the steps before Sphinx's own, then those after them, in the lists' order.
STEPS: dict[str, tuple[list[Any], list[Any]]] = {
    "config-inited": ([], [find.use_templates]),
    "builder-inited": (
        [],
        [module_reference.forget, measured_numbers.read_all, used_styles.begin],
    ),
    "env-purge-doc": (
        [],
        [topic_index.forget, section_search.purge, glossary_links.purge],
    ),
    "env-merge-info": (
        [],
        [topic_index.merge, section_search.merge, glossary_links.merge],
    ),
    "doctree-read": (
        [boxes.gather],  # boxes hold their contents before anything counts or moves them
        [
            module_reference.link_listings,
            cell_folds.prepare,
            topic_index.remember,
            opening.arrange,  # moves the first picture up, folded or not
            glossary_links.collect,  # both read the page as it will stand
            section_search.collect,
        ],
    ),
    "env-updated": ([], [glossary_links.again, front_door.again]),
    "doctree-resolved": (
        [],
        [
            measured_numbers.link_tables,
            glossary_links.lead,
            front_door.fill,
            page_meta.own_links,
        ],
    ),
    "html-page-context": (
        [topic_index.page],
        [
            module_reference.lines_without_list,
            page_meta.tags,
            page_html.header,
            page_html.scripts,
            page_html.once,
            page_html.sized_images,
            page_html.neighbours,
            page_html.shorter_bar,
            light_pictures.convert,  # when they have their sizes
            page_meta.cite,
        ],
    ),
    "build-finished": (
        [],
        [
            page_html.write_moved,
            light_pictures.tidy,
            section_search.write,
            glossary_links.write,
            page_meta.write,
            find.copy_scripts,
            writer.store_model,
            through.store_script,
            trainer.store_scripts,
            front_door.write_miniatures,
            attnsite.copy_mathjax,
            used_styles.write,  # when all pages, 404.html too, have been written
        ],
    ),
}


def connect(app: Sphinx, extensions: Iterable[str] = (*EXTENSIONS, "attnsite")) -> None:
    """Set up these extensions, all unless they are named, and connect their steps, each at its
    place."""
    chosen = set(extensions)
    for name in EXTENSIONS:
        if name in chosen:
            app.setup_extension(name)
    for event, (before, after) in STEPS.items():
        for first, steps in ((BEFORE, before), (AFTER, after)):
            for place, step in enumerate(steps):
                if step.__module__ in chosen:
                    app.connect(event, step, priority=first + place)
