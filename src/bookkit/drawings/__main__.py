"""All drawings on one page, for authors: python -m bookkit.drawings > gallery.html; or `dark`."""

import sys

from bookkit.drawings.drawing import page
from bookkit.drawings.gallery import GALLERY

if __name__ == "__main__":
    theme = "dark" if "dark" in sys.argv[1:] else "light"
    sys.stdout.write(page({name: make() for name, make in GALLERY.items()}, theme))
