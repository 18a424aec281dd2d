#!/usr/bin/env python3
"""A web server for tests: files with ranges, the Hugging Face Hub's paths, and faults on request.

    web_server.py ROOT      prints "PORT CDN_PORT", then serves until its standard input ends

Below ROOT, files/ is served at /files/, and repos/<org>/<name>/ is a repository of the Hub. Files of 1000 bytes and
more are "large file storage": the first port redirects to the second, as the Hub does to its storage. Repositories
named private-* want the token "hf_test_token"; gated-* refuse it.

    /__fault?path=SUBSTRING&kind=KIND&count=N&value=V   the next N answers for such a path go wrong:
        status     answer V (429 with Retry-After: 0)
        cut        close after V bytes of the announced body
        stall      send V bytes, then nothing for 20 s
        drip       send V bytes twenty times a second
        no_range   ignore Range: answer 200 with everything
        other_range  answer with another range than asked for
        longer     announce V bytes more than there are, then close
        extra      really send V bytes more than there are
        flip       change the last byte
        redirect   answer 302 to the address V
        endless_redirect  the same with a body that has no end
        slow_status  answer V, and its body in drips
        silent     take the request, then nothing for 20 s
    /__log         what was asked so far, as JSON

A POST below /post/ is answered with the file of that name below ROOT/post/; its body is in the log.
"""

import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = Path(sys.argv[1])
TOKEN = "hf_test_token"
LARGE = 1000
lock = threading.Lock()
faults, log, servers = [], [], []


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def repo_files(repo):
    root = ROOT / "repos" / repo
    return {str(p.relative_to(root)): p for p in sorted(root.rglob("*")) if p.is_file()}


def commit_of(repo):
    text = "".join(name + git_sha1(path.read_bytes()) for name, path in repo_files(repo).items())
    return hashlib.sha1(text.encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.handle_request()

    def do_GET(self):
        self.handle_request()

    def do_POST(self):
        self.posted = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.handle_request()

    def take_fault(self, path):
        with lock:
            for fault in faults:
                if fault["path"] in path and fault["count"] > 0:
                    fault["count"] -= 1
                    return fault
        return None

    def handle_request(self):
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), {k: v[0] for k, v in parse_qs(parts.query).items()}
        if path == "/__log":
            with lock:
                return self.answer(200, json.dumps(log).encode())
        if path == "/__fault":
            with lock:
                faults.append({"path": query["path"], "kind": query["kind"], "count": int(query.get("count", 1)),
                               "value": query.get("value", "0")})
            return self.answer(200, b"")
        with lock:
            log.append({"port": self.server.server_port, "method": self.command, "path": self.path,
                        "range": self.headers.get("Range"), "authorization": self.headers.get("Authorization"),
                        "key": self.headers.get("X-Api-Key"),
                        **({"body": self.posted} if self.command == "POST" else {})})
        fault = self.take_fault(path)
        if fault and fault["kind"] == "status":
            return self.answer(int(fault["value"]), b"busy", {"Retry-After": "0"})
        if fault and fault["kind"] == "redirect":
            return self.answer(302, b"", {"Location": fault["value"]})
        if fault and fault["kind"] == "endless_redirect":
            return self.endless(302, {"Location": fault["value"]}, b"x" * 65536, 0)
        if fault and fault["kind"] == "slow_status":
            return self.endless(int(fault["value"]), {}, b"x" * 400, 0.05)
        if fault and fault["kind"] == "silent":
            self.close_connection = True
            return time.sleep(20)
        if path.startswith("/files/") or (path.startswith("/post/") and self.command == "POST"):
            return self.file(ROOT / path[1:], fault)
        if path.startswith("/cdn/"):
            return self.file(ROOT / path[5:], fault, {"ETag": '"of-the-storage"'})
        return self.hub(path, fault)

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, message):
        self.answer(status, message.encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def hub(self, path, fault):
        words = path.strip("/").split("/")
        kind = "datasets/" if "datasets" in words[:2] else ""
        if kind:  # as the same paths of models, with repositories below datasets/
            words = ["api", "models", *words[2:]] if words[0] == "api" else words[1:]
        repo = kind + "/".join(words[2:4] if words[:2] == ["api", "models"] else words[:2])
        if not (ROOT / "repos" / repo).is_dir():
            return self.refuse(404, "RepoNotFound", "Repository not found")
        name = repo.split("/")[-1]
        if name.startswith("private-") and self.headers.get("Authorization") != "Bearer " + TOKEN:
            return self.refuse(401, "RepoNotFound", "Invalid username or password.")
        if name.startswith("gated-"):
            return self.refuse(403, "GatedRepo", "Access to this model is restricted")
        commit, files = commit_of(repo), repo_files(repo)
        if words[:2] == ["api", "models"]:
            kind, revision = (words[4], "/".join(words[5:])) if len(words) > 4 else ("revision", "main")
            if revision not in ("main", "v1", "refs/pr/1", commit):
                return self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return self.listing(kind, repo, commit, files)
        wanted = "/".join(words[4:])
        if words[2] != "resolve" or wanted not in files:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        data = files[wanted].read_bytes()
        if len(data) < LARGE:
            return self.file(files[wanted], fault, {"ETag": f'"{git_sha1(data)}"', "X-Repo-Commit": commit})
        self.answer(302, b"", {
            "Location": f"http://127.0.0.1:{servers[1].server_port}/cdn/repos/{repo}/{wanted}?signature=secret",
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Linked-Size": str(len(data)),
            "X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'})

    def listing(self, kind, repo, commit, files):
        entries = []
        for name, path in files.items():
            data = path.read_bytes()
            large = None
            if len(data) >= LARGE:
                large = {"oid": hashlib.sha256(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest(),
                         "size": len(data), "pointerSize": 134}
            if kind == "tree":
                entries.append({"type": "file", "oid": git_sha1(data), "size": len(data), "path": name,
                                **({"lfs": large} if large else {})})
            else:
                entries.append({"rfilename": name, "size": len(data), "blobId": git_sha1(data),
                                **({"lfs": large} if large else {})})
        body = entries if kind == "tree" else {"_id": "0", "id": repo, "modelId": repo, "sha": commit, "private": False,
                                               "tags": [], "downloads": 0, "likes": 0, "siblings": entries}
        self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def file(self, path, fault, headers=None):
        kind, value = (fault["kind"], int(fault["value"])) if fault else ("", 0)
        if not path.is_file():
            return self.answer(404, b"not found")
        data = path.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:32]}"', **(headers or {})}
        if kind == "flip":
            data = data[:-1] + bytes([data[-1] ^ 1])
        if kind == "extra":
            data += b"x" * value
        status, first, last = 200, 0, len(data) - 1
        asked = self.headers.get("Range")
        condition = self.headers.get("If-Range")
        if asked and kind != "no_range" and condition in (None, headers["ETag"]):
            start, end = asked.removeprefix("bytes=").split("-")
            first, last = int(start), min(int(end) if end else last, last)
            if kind == "other_range":
                first = min(first + 1, last)
            if first > last:
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        body = data[first:last + 1]
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body) + (value if kind == "longer" else 0)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind == "drip":
            return self.drip(body, value)
        if kind in ("cut", "stall"):
            body = body[:value]
        self.wfile.write(body)
        self.wfile.flush()
        if kind == "stall":
            time.sleep(20)
        if kind in ("cut", "stall", "longer"):
            self.close_connection = True

    def endless(self, status, headers, piece, pause):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(pause)
        except OSError:  # nobody waits for the rest
            pass

    def drip(self, body, size):
        try:
            for begin in range(0, len(body), size):
                self.wfile.write(body[begin:begin + size])
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:  # nobody waits for the rest
            self.close_connection = True


def main():
    for _ in range(2):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(servers[0].server_port, servers[1].server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
