#!/usr/bin/env python3
"""Rules for the text of every tracked file.

An error: a path that exists on one person's machine only, a merge conflict left behind, a file too big for git, a quoted
example ("<!-- example: FILE -->" before a block of code) that is not what FILE holds, a link to a page that is not there,
a range algorithm that clang 14 (clang-tidy, the fuzzers) cannot parse.
A warning: a source file longer than a reader likes.
"""
import argparse
import pathlib
import re
import subprocess
import sys

MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:work|root|home/[a-z]\w*|Users/\w+|mnt/[a-z]\w*|opt/[a-z]\w*/)(?=[/\s\"'`,;:)\]]|$)")
CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7})(?: |$)")
EXAMPLE = re.compile(r"^<!-- example: (\S+) -->$\n^```\w*$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)")
MENTION = re.compile(r"(?<![\w/.-])docs/[\w-]+\.md")
# With libstdc++ 12 clang 14 finds std::ranges::subrange, which these return, to be no range.
SUBRANGE = re.compile(r"\bstd::ranges::(?:subrange|rotate|unique|remove|remove_if|partition|stable_partition|equal_range|"
                      r"search|search_n|find_end)\b")
GENERATED = re.compile(r"(?:commands|configuration|models|benchmarks-\w[\w-]*)\.md")  # by tools/docs/pages.py
BIGGEST = 1 << 20
LONGEST = 600
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py"}


def tracked(root):
    """What a commit would hold: tracked files and new ones that git does not ignore."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                           capture_output=True, check=True).stdout.decode().split("\0")
    return [root / name for name in sorted(set(names)) if name and (root / name).is_file()]


def stale_examples(text, root):
    """(line, file) of every quoted example that differs from its file."""
    for match in EXAMPLE.finditer(text):
        source = root / match.group(1)
        if not source.is_file() or source.read_text() != match.group(2):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def dead_links(path, text, root):
    """(line, target) of every link of a Markdown page, and of every mention of a page of docs/, that leads nowhere."""
    if path.suffix == ".md":
        for match in LINK.finditer(text):
            target = path.parent / match.group(1)
            if not target.exists() and not (target.parent.name == "docs" and GENERATED.fullmatch(target.name)):
                yield text.count("\n", 0, match.start()) + 1, match.group(1)
    for match in MENTION.finditer(text):
        if not (root / match.group()).exists() and not GENERATED.fullmatch(pathlib.Path(match.group()).name):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def check(paths, root):
    errors, warnings = [], []
    for path in paths:
        shown = path.relative_to(root)
        data = path.read_bytes()
        if len(data) > BIGGEST:
            errors.append(f"{shown}:1: is {len(data)} bytes; a file in git has at most {BIGGEST}")
        if b"\0" in data[:8192]:
            continue
        text = data.decode(errors="replace")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            match = MACHINE_PATH.search(line)
            if match:
                errors.append(f"{shown}:{number}: names {match.group()}, a path of one machine; make it relative")
            if path.suffix in {".h", ".cpp"} and (match := SUBRANGE.search(line)):
                errors.append(f"{shown}:{number}: clang 14 cannot parse {match.group()}; take the algorithm of iterators")
            if CONFLICT.match(line):
                errors.append(f"{shown}:{number}: a merge conflict was left behind")
        if path.suffix == ".md":
            errors += [f"{shown}:{number}: the example is not {name} as it is now; copy it anew"
                       for number, name in stale_examples(text, root)]
        errors += [f"{shown}:{number}: leads to {target}, which is not there" for number, target in dead_links(path, text, root)]
        if path.suffix in SOURCES and len(lines) > LONGEST:
            warnings.append(f"{shown}:{len(lines)}: warning: {len(lines)} lines; over {LONGEST} a file wants to be two")
    return errors, warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    errors, warnings = check(tracked(root), root)
    for line in warnings + errors:
        print(line)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
