#!/usr/bin/env python3
"""Do `ingot pull` and huggingface_hub share a cache? Serves a repository on loopback (tests/support/web_server.py), then
pulls with one and opens with the other, offline, in both directions, and compares the trees of both caches.

    pip install huggingface_hub
    python3 tools/compare/hub_cache.py [build/bin/ingot]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INGOT = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/bin/ingot")
REPO = "org/tiny"


def tree(cache):
    """Every entry below the repository's blobs, refs and snapshots; links as what they point at."""
    root = cache / "models--org--tiny"
    found = {}
    for part in ("blobs", "refs", "snapshots"):
        for path in sorted((root / part).rglob("*")):
            if path.is_symlink():
                found[str(path.relative_to(root))] = "-> " + os.readlink(path)
            elif path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def hub(cache, endpoint, offline, patterns=None):
    """snapshot_download in a process of its own, as it reads its settings when imported."""
    code = ("import sys; from huggingface_hub import snapshot_download; "
            f"print(snapshot_download('{REPO}', allow_patterns={patterns!r}))")
    settings = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": str(int(offline)),
                "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=settings, check=True, capture_output=True,
                          text=True).stdout.strip()


def ingot(cache, endpoint, offline, *arguments):
    settings = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": str(int(offline))}
    return subprocess.run([INGOT, *arguments], env=settings, check=True, capture_output=True, text=True).stdout.strip()


def main():
    with tempfile.TemporaryDirectory() as directory:
        served = Path(directory) / "served"
        repo = served / "repos" / REPO
        (repo / "1_Pooling").mkdir(parents=True)
        (repo / "README.md").write_text("A model.")
        (repo / "1_Pooling" / "config.json").write_text('{"a": 1}')
        header = b'{"w":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}}'
        (repo / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4000))
        server = subprocess.Popen([sys.executable, str(ROOT / "tests/support/web_server.py"), str(served)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        endpoint = "http://127.0.0.1:" + server.stdout.readline().split()[0]
        ours, theirs = Path(directory) / "ours", Path(directory) / "theirs"
        ingot(ours, endpoint, False, "pull", REPO, "--include", "*")
        hub(theirs, endpoint, False)
        assert tree(ours) == tree(theirs), (tree(ours).keys(), tree(theirs).keys())
        print("both write the same", len(tree(ours)), "entries")
        path = hub(ours, endpoint, True)
        assert (Path(path) / "model.safetensors").stat().st_size == 4000 + 8 + len(header)
        print("huggingface_hub opens what ingot pulled, offline")
        listing = ingot(theirs, endpoint, True, "inspect", REPO)
        assert "[1000]" in listing, listing
        print("ingot opens what huggingface_hub pulled, offline")
        again = ingot(theirs, endpoint, False, "pull", REPO, "--include", "*", "--json")
        assert '"fetched": true' not in again, again
        print("ingot fetches nothing again of it")
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    main()
