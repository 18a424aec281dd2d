#!/usr/bin/env python3
"""Has schemathesis ask a running `ingot serve` everything that its OpenAPI document allows, and much that it does not.

    pip install schemathesis
    tools/check_openapi.py build/bin/ingot [--max-examples 50] [--seed 1]

Trains a tiny model, serves it with a key, and ends with schemathesis' exit code: 0 where every status and header is
documented, nothing answers without the key, wrong requests are refused, and no request gets a status of 500.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEY, PORT = "schema-key", 8391
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
# A schema does not tell how many tokens a text has, or which ids a vocabulary: requests that it allows may get 400.
UNTOLD = "positive_data_acceptance"
# A request may say how long its answer may take, and 504 is what it gets then.
CONFIG = """[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]
"""


def wait_until_ready(server):
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/ready", timeout=5)
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                sys.exit(f"check_openapi.py: the server ended with {server.returncode}")
            time.sleep(0.1)
    sys.exit("check_openapi.py: the server did not get ready")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ingot")
    parser.add_argument("--max-examples", type=int, default=50, help="for each route")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "out" / "model"
        subprocess.run([given.ingot, "train", "examples/data/train.yaml", "--set", f"output_dir={model.parent}"], cwd=ROOT,
                       check=True, stdout=subprocess.DEVNULL)
        (pathlib.Path(folder) / "schemathesis.toml").write_text(CONFIG)
        (model / "chat_template.jinja").write_text(TEMPLATE)
        server = subprocess.Popen([given.ingot, "serve", model, "--port", str(PORT), "--api-key", KEY, "--quiet",
                                   "--context", "512", "--request-timeout", "20"])
        try:
            wait_until_ready(server)
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{PORT}/openapi.json",
                       "--header", f"Authorization: Bearer {KEY}", "--max-examples", str(given.max_examples),
                       "--seed", str(given.seed), "--exclude-checks", UNTOLD, "--request-timeout", "60"]
            code = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": ""}).returncode
            if server.poll() is not None:
                sys.exit(f"check_openapi.py: the server ended with {server.returncode}")
        finally:
            server.terminate()
            server.wait()
    return code


if __name__ == "__main__":
    sys.exit(main())
