#!/usr/bin/env python3
"""Runs clang-tidy over the sources of a build folder, in parallel, and only where something changed.

A file that passed is remembered by the hash of everything its verdict depends on: the source, the project's headers
it includes (from ninja's dependency log), the compile command, .clang-tidy and clang-tidy's version.
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
from concurrent.futures import ThreadPoolExecutor, as_completed

# g++ has warned already, so clang's own warnings are off; what g++ alone understands is no error.
EXTRA = ["--extra-arg=-w", "--extra-arg=-Wno-unknown-warning-option"]


def dependencies(build):
    """{object: [files it was made from]} out of ninja's log."""
    text = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True,
                          check=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("    "):
            found[current].append(line.strip())
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
            found[current] = []
    return found


class Hasher:
    def __init__(self, root, build, version):
        self.root, self.build = root, build
        self.common = version + (root / ".clang-tidy").read_text()
        self.files = {}

    def file(self, path):
        if path not in self.files:
            self.files[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
        return self.files[path]

    def unit(self, source, command, headers):
        digest = hashlib.sha256((self.common + command).encode())
        ours = {(self.build / name).resolve() for name in headers}
        for path in [source] + sorted(p for p in ours if self.root in p.parents):
            digest.update(self.file(path).encode())
        return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a configured and built folder")
    parser.add_argument("--again", action="store_true", help="forget what passed before")
    arguments = parser.parse_args()
    root, build = pathlib.Path(__file__).resolve().parent.parent, arguments.build.resolve()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    memory = build / ".tidy-passed.json"
    passed = json.loads(memory.read_text()) if memory.exists() and not arguments.again else {}
    hasher, deps = Hasher(root, build, version), dependencies(build)

    work, current = [], {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"]).resolve()
        if root / "src" not in source.parents:  # tests cost twice as much to parse and hold little to find
            continue
        command = entry["command"]
        words = shlex.split(command)
        output = words[words.index("-o") + 1]
        key = hasher.unit(source, command, deps.get(output, []))
        name = source.relative_to(root).as_posix()
        current[name] = key
        if passed.get(name) != key:
            work.append((name, source))

    def run(item):
        done = subprocess.run(["clang-tidy", "--quiet", "-p", str(build), *EXTRA, str(item[1])], capture_output=True,
                              text=True, errors="replace")
        return item[0], done

    said = set()  # a complaint about a header comes once for every file that includes it

    def new_complaints(text):
        """Each complaint is a line "path:line:column: error: ..." and the lines under it that show the place."""
        for block in re.split(r"^(?=\S+:\d+:\d+: )", text, flags=re.MULTILINE):
            if block.strip() and block not in said:
                said.add(block)
                yield block

    good = {name: key for name, key in current.items() if passed.get(name) == key}
    failures = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for future in as_completed([pool.submit(run, item) for item in work]):
            name, done = future.result()
            if done.returncode == 0:
                good[name] = current[name]
            else:
                failures += 1
                print("".join(new_complaints(done.stdout.replace(str(root) + "/", ""))), end="")
                if "error:" not in done.stdout:
                    print(f"{name}:1: clang-tidy failed\n{done.stderr}")
    memory.write_text(json.dumps(good, indent=0, sort_keys=True))
    print(f"clang-tidy: {len(work)} of {len(current)} files looked at, {failures} with complaints")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
