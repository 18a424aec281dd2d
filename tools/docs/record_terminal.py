#!/usr/bin/env python3
"""Records commands in a terminal as an animated SVG: docs/images/terminal.svg.

    python3 tools/docs/record_terminal.py build/bin/ingot docs/images/terminal.svg

Needs pyte (Debian: python3-pyte), which reads what programs write to a terminal. The commands really run, in a new folder with a
copy of examples/; the picture has their output at the pace at which it came, but pauses are cut to PAUSE seconds.
"""
import argparse
import fcntl
import html
import os
import pathlib
import pty
import select
import shutil
import struct
import tempfile
import termios
import time

import pyte

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = [
    "ingot train examples/data/train.yaml --set max_steps=60",
    "ingot generate out/tiny/model --prompt 'Every command ' --max-tokens 24",
    "ingot quantize out/tiny/model tiny.gguf --format q8_0",
    "ingot forecast fit examples/data/series.csv --model ets -o sales",
]
COLUMNS, ROWS = 100, 30
PAUSE = 0.7  # seconds: the longest time in which nothing changes
TYPING = 0.03  # seconds for a key
FRAME = 0.1  # seconds between two pictures
FONT, WIDTH, HEIGHT = 13, 7.8, 18
COLOURS = {"default": "#d7dae0", "black": "#5c6370", "red": "#e06c75", "green": "#98c379", "brown": "#d19a66", "yellow": "#e5c07b",
           "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#ffffff"}


class Recording:
    """The screen, and the pictures taken of it: (seconds, lines)."""

    def __init__(self):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.now = 0.0
        self.frames = []

    def write(self, data, seconds):
        self.now += min(seconds, PAUSE)
        self.stream.feed(data)
        if not self.frames or self.now - self.frames[-1][0] >= FRAME:
            self.take()

    def take(self):
        lines = tuple(self.line(row) for row in range(ROWS))
        if self.frames and self.frames[-1][1] == lines:
            return
        self.frames.append((self.now, lines))

    def line(self, row):
        """Runs of one style: ((column, text, colour, bold), ...)"""
        runs = []
        for column in range(COLUMNS):
            cell = self.screen.buffer[row][column]
            style = (COLOURS.get(cell.fg, "#" + cell.fg if len(cell.fg) == 6 else COLOURS["default"]), cell.bold)
            if runs and runs[-1][2:] == style and runs[-1][0] + len(runs[-1][1]) == column:
                runs[-1] = (runs[-1][0], runs[-1][1] + cell.data, *style)
            elif cell.data != " ":
                runs.append((column, cell.data, *style))
        return tuple((column, text.rstrip(), *style) for column, text, *style in runs if text.strip())


def run(command, folder, environment, recording):
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-c", command], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    last = time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the program is gone
            break
        now = time.monotonic()
        recording.write(data, now - last)
        last = now
    recording.take()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise SystemExit(f"'{command}' ended with {os.waitstatus_to_exitcode(status)}")


def record(binary):
    recording = Recording()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", pathlib.Path(folder) / "examples")
        environment = {**os.environ, "PATH": f"{pathlib.Path(binary).resolve().parent}:{os.environ['PATH']}",
                       "HOME": folder, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "INGOT_CACHE_DIR": folder + "/cache"}
        environment.pop("NO_COLOR", None)
        for command in COMMANDS:
            recording.write(b"\x1b[32m$\x1b[0m ", PAUSE)
            for key in command:
                recording.write(key.encode(), TYPING)
            recording.write(b"\r\n", PAUSE)
            run(command, folder, environment, recording)
        recording.write(b"\x1b[32m$\x1b[0m ", PAUSE)
        recording.take()
    return recording


def svg(recording, hold=4.0):
    """Pictures above one another in a strip that moves by whole pictures; equal lines are written once."""
    frames, total = recording.frames, recording.now + hold
    known, strip = {}, []
    for number, (_, lines) in enumerate(frames):
        for row, line in enumerate(lines):
            if line:
                name = known.setdefault(line, f"l{len(known)}")
                strip.append(f'<use href="#{name}" y="{number * ROWS * HEIGHT + row * HEIGHT}"/>')
    definitions = []
    for line, name in known.items():
        spans = "".join(f'<tspan x="{column * WIDTH:g}" fill="{colour}"{" font-weight=" + chr(34) + "bold" + chr(34) if bold else ""}>'
                        f"{html.escape(text, quote=False)}</tspan>" for column, text, colour, bold in line)
        definitions.append(f'<text id="{name}">{spans}</text>')
    steps = "".join(f"{100 * seconds / total:.2f}%{{transform:translateY({-number * ROWS * HEIGHT}px)}}"
                    for number, (seconds, _) in enumerate(frames))
    steps += f"100%{{transform:translateY({-(len(frames) - 1) * ROWS * HEIGHT}px)}}"
    width, height = COLUMNS * WIDTH + 24, ROWS * HEIGHT + 44
    still = -(len(frames) - 1) * ROWS * HEIGHT
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" viewBox="0 0 {width:g} {height}" role="img">
<title>A terminal: ingot trains, generates, quantizes and forecasts</title>
<style>text{{font:{FONT}px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}
.strip{{animation:s {total:.1f}s step-end infinite}}@keyframes s{{{steps}}}
@media(prefers-reduced-motion:reduce){{.strip{{animation:none;transform:translateY({still}px)}}}}</style>
<rect width="100%" height="100%" rx="8" fill="#1e2127"/>
<circle cx="18" cy="16" r="5" fill="#e06c75"/><circle cx="36" cy="16" r="5" fill="#e5c07b"/><circle cx="54" cy="16" r="5" fill="#98c379"/>
<defs>{"".join(definitions)}</defs>
<svg x="12" y="36" width="{COLUMNS * WIDTH:g}" height="{ROWS * HEIGHT}"><g class="strip" transform="translate(0 0)"><g transform="translate(0 {FONT})">
{"".join(strip)}
</g></g></svg>
</svg>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the binary ingot")
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    recording = record(arguments.binary)
    arguments.output.write_text(svg(recording))
    print(f"{arguments.output}: {len(recording.frames)} pictures, {recording.now:.0f} s, {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
