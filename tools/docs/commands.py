#!/usr/bin/env python3
"""Checks the commands of README.md, docs/ and of examples/ against the binary.

    python3 tools/docs/commands.py build/bin/ingot [--options] [PAGE...]

Every block of shell commands that calls `ingot` has a mark in the line above it:

    <!-- runs as written -->      it is run here
    <!-- needs: a GPU -->         it cannot be run everywhere; the site shows the reason above the block

Blocks of a page that run are one session: bash -eu, in a new folder with a copy of examples/, from the first block to the
last. A YAML block with a title (```yaml title="chats.yaml") is a file of that session. Port 8000 becomes a free one.

Of every `ingot` command, also of those in running text, the subcommand and the options have to be in its --help.
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *```(\w*)([^\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (runs as written|needs: ([^>]+)) -->\n\Z")
TITLE = re.compile(r'title="([^"]+)"')
INDENTED = re.compile(r"^    (ingot .*)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
SHELL = {"sh", "bash", "console"}
ASSIGNMENT = re.compile(r"[A-Z_]+=")
SECONDS = 400


class Commands:
    """What --help tells, asked once for each command."""

    def __init__(self, binary):
        self.binary = binary

    @functools.lru_cache(maxsize=None)
    def help(self, path):
        return subprocess.run([self.binary, *path, "--help"], capture_output=True, text=True, check=True).stdout

    def subcommands(self, path):
        listed = self.help(path).partition("\nSubcommands:\n")[2].partition("\n\n")[0]  # examples may follow
        return re.findall(r"^  (\S+)", listed, re.MULTILINE)

    def walk(self, path=()):
        """(path, help) of the command and of those below it."""
        yield path, self.help(path)
        for name in self.subcommands(path):
            yield from self.walk((*path, name))

    @functools.lru_cache(maxsize=None)
    def options(self, path):
        lines = [line for line in self.help(path).splitlines() if re.match(r"\s+-", line)]
        return {name for line in lines for name in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", re.split(r"\s{2,}", line.strip())[0])}

    def problems(self, words):
        """What is wrong with `ingot` and the words behind it."""
        path = ()
        for word in words:
            names = self.subcommands(path)
            if word not in names:
                # A command with subcommands has no operand of its own; `ingot help`, `completion` and the like have.
                if names and re.fullmatch(r"[a-z][a-z-]+", word):
                    yield f"ingot has no command '{' '.join((*path, word))}'"
                    return
                break
            path += (word,)
        for word in words[len(path):]:
            name = word.partition("=")[0]
            if re.fullmatch(r"--[a-z][\w-]*|-[A-Za-z]", name) and name not in self.options(path):
                yield f"'ingot {' '.join(path)}' has no option {name}"


def ingot_commands(text):
    """The words behind `ingot` of each command in a piece of shell."""
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r"^\s*\$ ", "", line)
        line = re.sub(r"\[(?=-)|(?<=\S)\](?:\.\.\.)?", " ", line)  # [--json] of a synopsis
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        for at, word in enumerate(words):
            if not (word == "ingot" or word.endswith("/ingot")):
                continue
            before = words[at - 1] if at else ""
            launcher = words[0] in {"mpirun", "nsys", "./run", "time", "docker"} if words else False
            if at == 0 or ASSIGNMENT.match(before) or before in {"&&", "||", "|", ";", "source", "<("} or before.endswith(";") or launcher:
                rest = []
                for other in words[at + 1:]:
                    if other in {"|", "&&", "||", ";", ">", "<", "&", "2>", ">>"}:
                        break
                    rest.append(other.rstrip(";"))
                yield rest


class Page:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.errors = []
        self.session = []  # (line, kind, value): what the session does
        self.commands = []  # (line, words)
        self.read()

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def read(self):
        spans = []
        for match in FENCE.finditer(self.text):
            spans.append(match.span())
            language, more, body = match.groups()
            mark = MARK.search(self.text[: match.start()])
            line = self.line(match.start())
            title = TITLE.search(more)
            if title:
                self.session.append((line, "file", (title.group(1), body)))
            if language in SHELL:
                commands = list(ingot_commands(body))
                self.commands += [(line, words) for words in commands]
                if mark and mark.group(1) == "runs as written":
                    self.session.append((line, "run", body))
                elif commands and not mark:
                    self.errors.append((line, "says neither that it runs as written nor what it needs"))
        plain = list(self.text)
        for begin, end in spans:
            plain[begin:end] = [c if c == "\n" else " " for c in plain[begin:end]]
        plain = "".join(plain)
        for match in INDENTED.finditer(plain):
            self.commands += [(self.line(match.start()), words) for words in ingot_commands(match.group(1))]
        for match in INLINE.finditer(plain):
            self.commands += [(self.line(match.start()), words) for words in ingot_commands(match.group(1))]

    def runs(self):
        return any(kind == "run" for _, kind, _ in self.session)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run_session(page, binary):
    """(seconds, error or None, what was printed)"""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", pathlib.Path(folder) / "examples")
        shutil.copy(ROOT / "README.md", folder)
        (pathlib.Path(folder) / "home").mkdir()
        script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
        for line, kind, value in page.session:
            if kind == "file":
                script.append(f"cat > {shlex.quote(value[0])} <<'INGOT_FILE'\n{value[1]}INGOT_FILE")
            else:
                script.append(f"echo '::{page.path.name}:{line}'\n{value}")
        environment = {**os.environ, "PATH": f"{pathlib.Path(binary).resolve().parent}:{os.environ['PATH']}",
                       "HOME": folder + "/home", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "NO_COLOR": "1",
                       "HF_HUB_OFFLINE": "1", "INGOT_CACHE_DIR": folder + "/cache"}
        start = time.monotonic()
        try:
            done = subprocess.run(["bash", "-c", re.sub(r"\b8000\b", port, "\n".join(script))], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired as late:
            return SECONDS, f"took more than {SECONDS} s", str(late.stdout or "")
        seconds = time.monotonic() - start
        return seconds, None if done.returncode == 0 else f"ended with code {done.returncode}", done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the binary ingot")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="README.md, docs/*.md, pages of examples/")
    parser.add_argument("--options", action="store_true", help="run nothing, only look for commands and options in --help")
    parser.add_argument("--verbose", action="store_true", help="print what the sessions print")
    arguments = parser.parse_args()
    pages = [Page(path) for path in arguments.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
                                                         *sorted((ROOT / "examples").glob("cluster/**/*.md")),
                                                         *sorted((ROOT / "examples").glob("serving/*.md"))]]
    commands, failed = Commands(arguments.binary), False
    for page in pages:
        problems = list(page.errors)
        for line, words in page.commands:
            problems += [(line, problem) for problem in commands.problems(words)]
        for line, problem in sorted(set(problems)):
            print(f"{page.path.name}:{line}: {problem}")
            failed = True
    if not arguments.options:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            sessions = [page for page in pages if page.runs()]
            for page, (seconds, error, output) in zip(sessions, pool.map(lambda page: run_session(page, arguments.binary), sessions)):
                if error or arguments.verbose:
                    print(output)
                print(f"{page.path.name}: {seconds:.1f} s{', ' + error if error else ''}")
                failed = failed or error is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
