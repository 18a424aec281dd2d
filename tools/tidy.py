#!/usr/bin/env python3
"""Judges every source of a configured folder by itself, in parallel, and only where something changed.

A unity build compiles files in batches (cmake/batches.cmake), so that one may lean on its neighbours' includes unnoticed.
Here each stands alone: those of src go through clang-tidy, which parses them; those of the tests, which cost twice as
much to parse and hold little to find, are only compiled as far as their syntax.

A file that passed is remembered by the hash of everything its verdict depends on: the source, the project's and the
generated headers that it includes, its command, .clang-tidy and the versions of the tools. Like a compiler cache this
memory belongs to the user and serves every checkout (~/.cache/ingot/tidy-passed, or under XDG_CACHE_HOME).

With --since COMMIT, only the sources that changed since it are looked at, and one source for each changed header: all
that include a header of core/ are most of the project, and nearly all they could be told is told by one. With --until, what
is left then is left out, and told.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

# g++ has warned already, so clang's own warnings are off; what g++ alone understands is not an error.
EXTRA = ["--extra-arg=-w", "--extra-arg=-Wno-unknown-warning-option"]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


def include_folders(words):
    """Where a command looks for headers, in its order."""
    folders = []
    for i, word in enumerate(words):
        if word in ("-I", "-isystem"):
            folders.append(pathlib.Path(words[i + 1]))
        elif word.startswith("-I"):
            folders.append(pathlib.Path(word[2:]))
    return folders


def members(path):
    """What a batch includes: sources, as paths from an include folder."""
    return INCLUDE.findall(path.read_text())


def units(build):
    """(source, command words) of every file as it would be compiled by itself; those of batches are taken apart."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words, file = shlex.split(entry["command"]), pathlib.Path(entry["file"])
        if build / "batches" not in file.parents:
            yield file.resolve(), words
            continue
        for name in members(file):
            source = next(folder / name for folder in include_folders(words) if (folder / name).is_file())
            yield source.resolve(), [str(source) if word == entry["file"] else word for word in words]


class Headers:
    """What a source includes, directly or through others, out of the given folders: not the system's headers.

    Conditions are not looked at, so it may name more than the preprocessor reads, and never less."""

    def __init__(self, *roots):
        self.roots = roots
        self.known = {}

    def direct(self, path, folders):
        for name in INCLUDE.findall(path.read_text(errors="replace")):
            for folder in [path.parent, *folders]:
                found = folder / name
                if any(root in found.parents for root in self.roots) and found.is_file():
                    yield found.resolve()
                    break

    def of(self, source, folders):
        folders = [folder for folder in folders if any(root == folder or root in folder.parents for root in self.roots)]
        seen, open_ = set(), [source]
        while open_:
            path = open_.pop()
            if path in seen:
                continue
            seen.add(path)
            key = (path, *folders)
            if key not in self.known:
                self.known[key] = list(self.direct(path, folders))
            open_ += self.known[key]
        return sorted(seen)


class Hasher:
    def __init__(self, common):
        self.common = common
        self.files = {}

    def file(self, path):
        if path not in self.files:
            self.files[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.files[path]

    def unit(self, words, paths, root):
        """The same in every checkout: paths in the command count from the root."""
        command = "\0".join([self.common, *words]).replace(str(root), ".")
        digest = hashlib.sha256(command.encode())
        for path in paths:
            digest.update(self.file(path).encode())
        return digest.hexdigest()


def version(command):
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout


def compiler(words):
    """The command without what stands before the compiler (env and ccache with their settings)."""
    first = next(i for i, word in enumerate(words) if re.search(r"(\+\+|cc|clang)(-[0-9]+)?$", word))
    return words[first:]


def syntax_check(words):
    """The command, compiling nothing."""
    words = compiler(words)
    for option in ("-o", "-MF", "-MT"):
        if option in words:
            at = words.index(option)
            del words[at:at + 2]
    return [word for word in words if word not in ("-c", "-MD")] + ["-fsyntax-only"]


class Passed:
    """Hashes of what passed, one empty file each, so that several runs at once add to it; the oldest half goes at kMost."""
    kMost = 20000

    def __init__(self, forget):
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        self.folder = cache / "ingot" / "tidy-passed"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.known = set() if forget else {file.name for file in self.folder.iterdir()}

    def __contains__(self, key):
        return key in self.known

    def add(self, key):
        self.known.add(key)
        (self.folder / key).touch()

    def trim(self):
        files = sorted(self.folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[:len(files) // 2 if len(files) > self.kMost else 0]:
            file.unlink(missing_ok=True)


def changed_since(commit, root):
    """Paths of the tracked files that differ from the commit, and of the new ones that git does not ignore."""
    def git(*command):
        return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()

    return {*git("diff", "--name-only", commit, "--"), *git("ls-files", "--others", "--exclude-standard")}


def touched(changed, includes):
    """Of the sources (name -> names of the headers that it includes, directly or through others) those that changed, and
    for each changed header that none of these includes the one of its own name, or else the one with the fewest headers."""
    chosen = {name for name in includes if name in changed}
    seen = {header for name in chosen for header in includes[name]}
    for header in sorted(changed):
        including = [name for name in includes if header in includes[name]] if header not in seen else []
        if including:
            stem = header.rsplit(".", 1)[0]
            best = min(including, key=lambda name: (name.rsplit(".", 1)[0] != stem, len(includes[name]), name))
            chosen.add(best)
            seen |= includes[best]
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a configured and built folder")
    parser.add_argument("--again", action="store_true", help="forget what passed before")
    parser.add_argument("--since", metavar="COMMIT", help="look only at what changed since it")
    parser.add_argument("--until", metavar="SECONDS", type=float, default=float("inf"),
                        help="seconds since 1970, after which no further file is looked at; those that changed come first")
    arguments = parser.parse_args()
    root, build = pathlib.Path(__file__).resolve().parent.parent, arguments.build.resolve()
    passed = Passed(forget=arguments.again)
    headers, tidied = Headers(root, build), build / "tidy"
    hasher = Hasher(version("clang-tidy") + version("c++") + (root / ".clang-tidy").read_text())

    work, current, commands, includes = [], {}, [], {}
    for source, words in units(build):
        if source.suffix != ".cpp" or (root / "src" not in source.parents and root / "tests" not in source.parents):
            continue
        name = source.relative_to(root).as_posix()
        if name in current:  # another target compiles it, too
            continue
        paths = headers.of(source, include_folders(words))
        current[name] = hasher.unit(words, paths, root)
        includes[name] = {path.relative_to(root).as_posix() for path in paths if root in path.parents}
        if name.startswith("src/"):
            commands.append({"directory": str(build), "file": str(source), "arguments": compiler(words)})
            job = ["clang-tidy", "--quiet", "-p", str(tidied), *EXTRA, str(source)]
        else:
            job = syntax_check(words)
        if current[name] not in passed:
            work.append((name, job))
    if arguments.since:
        changed = changed_since(arguments.since, root)
        chosen = set(current) if ".clang-tidy" in changed else touched(changed, includes)
        work = [(name, job) for name, job in work if name in chosen]
        work.sort(key=lambda item: item[0] not in changed)  # then those that include what changed
    tidied.mkdir(exist_ok=True)
    (tidied / "compile_commands.json").write_text(json.dumps(commands, indent=0))

    def run(name, job):
        if time.time() > arguments.until:
            return name, None
        return name, subprocess.run(job, capture_output=True, text=True, errors="replace", cwd=build)

    said = set()  # a complaint about a header comes once for every file that includes it

    def new_complaints(text):
        """Each complaint is a line "path:line:column: error: ..." and the lines under it that show the location."""
        for block in re.split(r"^(?=\S+:\d+:\d+: )", text, flags=re.MULTILINE):
            if block.strip() and block not in said:
                said.add(block)
                yield block

    failures = left_out = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for future in as_completed([pool.submit(run, *item) for item in work]):
            name, done = future.result()
            if done is None:
                left_out += 1
                continue
            if done.returncode == 0:
                passed.add(current[name])
                continue
            failures += 1
            text = done.stdout if name.startswith("src/") else done.stderr
            print("".join(new_complaints(text.replace(str(root) + "/", ""))), end="")
            if "error:" not in text:
                print(f"{name}:1: could not be looked at\n{done.stderr}")
    passed.trim()
    print(f"clang-tidy: {len(work) - left_out} of {len(current)} files looked at, {failures} with complaints"
          + (f", {left_out} left out, as no time is left" if left_out else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
