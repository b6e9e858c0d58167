"""A site of a few pages: the extensions of the book that a page needs, connected as in the book."""

import pipeline

NEEDED = ("cell_folds", "boxes", "opening", "measured_numbers", "page_html", "light_pictures")


def setup(app):
    """Called by Sphinx."""
    pipeline.connect(app, NEEDED)
