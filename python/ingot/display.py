"""What notebooks show of tensors, models, runs and reports, and how far a long call is."""

import sys
import time
from pathlib import Path


def _escape(text):
    import html  # a twentieth of the package's import time

    return html.escape(text)


class Page:
    """A page of HTML that needs nothing else: shown in a notebook, or written with :meth:`save`."""

    def __init__(self, text: str):
        self.text = text

    def save(self, path):
        """Writes the page to a file."""
        Path(path).write_text(self.text, encoding="utf-8")

    def _repr_html_(self):
        return f'<iframe srcdoc="{_escape(self.text)}" style="width: 100%; height: 640px; border: 0"></iframe>'

    def __repr__(self):
        return f"Page({len(self.text)} characters; save(path) writes it)"


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, (tuple, list)) and value and all(isinstance(part, float) for part in value):
        return " ± ".join(map(_cell, value)) if len(value) == 2 else ", ".join(map(_cell, value))
    return _escape(str(value))


def table(rows, caption: str = "") -> str:
    """Dicts with the same keys as an HTML table, numbers to the right."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{_escape(str(name))}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {"right" if isinstance(row.get(name), (int, float, tuple)) else "left"}">'
            f"{_cell(row[name]) if row.get(name) is not None else ''}</td>"
            for name in names
        )
        + "</tr>"
        for row in rows
    )
    title = f'<caption style="text-align: left">{_escape(caption)}</caption>' if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Report(dict):
    """What was found, as a dict that notebooks show as tables."""

    def _repr_html_(self):
        plain = {name: value for name, value in self.items() if not isinstance(value, (dict, list))}
        parts = [table([plain])] if plain else []
        for name, value in self.items():
            if isinstance(value, dict):
                value = [{name: key, **part} if isinstance(part, dict) else {name: key, "value": part} for key, part in value.items()]
            if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
                parts.append(table([{key: part for key, part in row.items() if not isinstance(part, (dict, list))} for row in value], str(name)))
        return "".join(parts)


_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")


class Chart:
    """Lines over whole numbers, ``{name: [(x, y), ...]}``, drawn as SVG: shown in a notebook, or written with :meth:`save`."""

    WIDTH, HEIGHT, LEFT, BELOW = 640, 260, 64, 34

    def __init__(self, lines, title: str = "", x_label: str = ""):
        finite = {name: [(x, y) for x, y in points if y == y and abs(y) != float("inf")] for name, points in lines.items()}
        self.lines = {name: points for name, points in finite.items() if points}
        self.title, self.x_label = title, x_label

    def _places(self):
        points = [point for line in self.lines.values() for point in line] or [(0, 0)]
        low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
        low_y, high_y = min(y for _, y in points), max(y for _, y in points)
        wide, high = self.WIDTH - self.LEFT - 12, self.HEIGHT - self.BELOW - 24
        across = lambda x: self.LEFT + wide * ((x - low_x) / (high_x - low_x) if high_x > low_x else 0.5)  # noqa: E731
        up = lambda y: 24 + high * (1 - ((y - low_y) / (high_y - low_y) if high_y > low_y else 0.5))  # noqa: E731
        return across, up, (low_x, high_x), (low_y, high_y)

    def svg(self) -> str:
        """The drawing."""
        across, up, (low_x, high_x), (low_y, high_y) = self._places()
        grid, bottom = [], self.HEIGHT - self.BELOW
        for i in range(5):
            y = low_y + (high_y - low_y) * i / 4
            grid.append(
                f'<line x1="{self.LEFT}" x2="{self.WIDTH - 12}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="currentColor" opacity="0.15"/>'
                f'<text x="{self.LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>'
            )
        for x in dict.fromkeys((low_x, (low_x + high_x) // 2, high_x)):
            grid.append(f'<text x="{across(x):.1f}" y="{bottom + 14}" text-anchor="middle">{x}</text>')
        drawn = []
        for i, (name, points) in enumerate(self.lines.items()):
            color = _COLORS[i % len(_COLORS)]
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            if len(points) == 1:
                drawn.append(f'<circle cx="{across(points[0][0]):.1f}" cy="{up(points[0][1]):.1f}" r="3" fill="{color}"/>')
            drawn.append(f'<text x="{self.WIDTH - 12}" y="{40 + 14 * i}" text-anchor="end" fill="{color}">{_escape(name)}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.WIDTH} {self.HEIGHT}" width="{self.WIDTH}" '
            f'style="max-width: 100%; font: 11px sans-serif" fill="currentColor" role="img">'
            f'<text x="{self.LEFT}" y="14" font-weight="bold">{_escape(self.title)}</text>{"".join(grid)}{"".join(drawn)}'
            f'<text x="{(self.LEFT + self.WIDTH) / 2}" y="{self.HEIGHT - 4}" text-anchor="middle">{_escape(self.x_label)}</text></svg>'
        )

    def save(self, path):
        """Writes the drawing to an .svg file."""
        Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_html_(self):
        return self.svg()

    def __repr__(self):
        return f"Chart({self.title!r}, {', '.join(f'{name}: {len(points)} points' for name, points in self.lines.items())})"


def in_notebook() -> bool:
    """Whether what is returned here is shown by a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


class Progress:
    """How far a long call is: a bar in a notebook, a line on a terminal's stderr.

    ``show``: None shows it in notebooks alone, True on stderr too, False nowhere. Written five times a second at most.
    """

    def __init__(self, total: int, title: str, show: bool | None = None):
        self.total, self.title = total, title
        self._notebook = show is not False and in_notebook()
        self._terminal = bool(show) and not self._notebook
        self._handle, self._begun, self._told = None, time.monotonic(), 0.0
        self._done, self._note, self._shown = 0, "", -1

    def update(self, done: int, note: str = "", total: int | None = None) -> None:
        """So much is done of ``total``; ``note`` stands behind the bar."""
        self._done, self._note = done, note or self._note
        self.total = self.total if total is None else total
        now = time.monotonic()
        if now - self._told >= 0.2 or done == self.total:
            self._told = now
            self._write()

    def _text(self):
        passed = time.monotonic() - self._begun
        left = passed / self._done * (self.total - self._done) if self._done else None
        time_left = "" if left is None or self._done >= self.total else f", {_duration(left)} left"
        return f"{self._done}/{self.total}, {_duration(passed)}{time_left}{', ' if self._note else ''}{self._note}"

    def _write(self):
        self._shown = self._done
        if self._terminal:
            filled = int(24 * self._done / self.total) if self.total else 0
            print(f"\r{self.title} [{'=' * filled}{' ' * (24 - filled)}] {self._text()}\033[K", end="", file=sys.stderr, flush=True)
        if self._notebook:
            from IPython.display import display

            bar = _Bar(self)
            if self._handle is None:
                self._handle = display(bar, display_id=True)
            else:
                self._handle.update(bar)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._told:
            if self._shown != self._done:
                self._write()
            if self._terminal:
                print(file=sys.stderr)


class _Bar:
    def __init__(self, progress):
        self._title, self._text = progress.title, progress._text()
        self._value, self._total = progress._done, progress.total

    def _repr_html_(self):
        return (
            f'{_escape(self._title)} <progress value="{self._value}" max="{self._total or 1}" style="width: 240px"></progress> '
            f"{_escape(self._text)}"
        )

    def __repr__(self):
        return f"{self._title}: {self._text}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def tensor_html(x) -> str:
    """A tensor: shape, dtype, device, range, and the corner of its last two axes."""
    shape = " × ".join(map(str, x.shape)) or "number"
    lines = [f"<b>Tensor</b> {shape} · {x.dtype.name} · {x.device}{' · requires grad' if x.requires_grad else ''}"]
    values = x.detach().cpu()
    if x.numel() and x.dtype.name.startswith(("float", "bfloat")):
        wide = values.float() if x.dtype.name != "float64" else values
        lines.append(f" · {wide.amin().item():.4g} to {wide.amax().item():.4g}, mean {wide.mean().item():.4g}")
    while values.ndim > 2 and values.numel():
        values = values[0]
    if not values.numel() or values.ndim == 0:
        return "".join(lines) + ("" if values.ndim else f"<pre>{_escape(repr(values))}</pre>")
    if values.ndim == 1:
        values = values.unsqueeze(0)
    rows, columns = (_edges(size) for size in values.shape)
    cells = "".join(
        "<tr>" + "".join(f'<td style="text-align: right">{_element(values, i, j)}</td>' for j in columns) + "</tr>" for i in rows
    )
    where = f" of [{', '.join('0' for _ in x.shape[:-2])}]" if x.ndim > 2 else ""
    return f"{''.join(lines)}{where}<table><tbody>{cells}</tbody></table>"


def _edges(size, shown=4):
    return list(range(size)) if size <= 2 * shown else [*range(shown), None, *range(size - shown, size)]


def _element(values, i, j):
    return "…" if i is None or j is None else _cell(values[i, j].item())


def module_html(module, title: str) -> str:
    """A module: its parameters by name."""
    rows = [
        {"parameter": name, "shape": " × ".join(map(str, x.shape)), "dtype": x.dtype.name, "elements": x.numel()}
        for name, x in module.named_parameters()
    ]
    total = sum(row["elements"] for row in rows)
    shown = rows if len(rows) <= 40 else [*rows[:20], {"parameter": f"… {len(rows) - 40} more"}, *rows[-20:]]
    return f"<b>{_escape(title)}</b> {total:,} parameters{table(shown)}"
