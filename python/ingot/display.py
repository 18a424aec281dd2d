"""What notebooks show of models, tensors and runs."""

import html
from pathlib import Path


class Page:
    """A page of HTML that needs nothing else: shown in a notebook, or written with :meth:`save`."""

    def __init__(self, text: str):
        self.text = text

    def save(self, path):
        """Writes the page to a file."""
        Path(path).write_text(self.text, encoding="utf-8")

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self.text)}" style="width: 100%; height: 640px; border: 0"></iframe>'

    def __repr__(self):
        return f"Page({len(self.text)} characters; save(path) writes it)"
