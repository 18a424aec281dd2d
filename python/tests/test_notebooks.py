"""The notebooks of examples/notebooks run, as a reader would run them."""

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
# What notebooks show inline: drawings, pages, bars.
SHOWN = {"finetune": ["<svg", "<progress"], "tune": ["<svg", "<progress"], "forecast": ["<iframe", "<progress"]}


def test_the_six_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["embed", "finetune", "forecast", "self_play", "serve", "tune"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_committed_without_outputs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": os.fspath(tmp_path)}}).execute()
    shown = "".join(output["data"].get("text/html", "") for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output)
    assert all(part in shown for part in SHOWN.get(path.stem, []))
