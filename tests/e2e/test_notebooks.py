"""The notebooks under docs/notebooks run from top to bottom, and what they print is what they show.

One that no longer fits is executed anew by

    python tests/e2e/test_notebooks.py docs/notebooks/tiling_by_hand.ipynb
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# Names of runs and temporary folders, seconds; a chart's text is compared, its drawing is not.
VOLATILE = re.compile(r"\d{8}T\d{6}-[\w-]+|/tmp/\w+|\d+\.\d+ s\b")
DRAWING = re.compile(r"<svg.*?</svg>", re.S)


def execute(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of now; a cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    client = nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", coalesce_streams=True,
                                     resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": paths})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["outputs"] = [o for o in cell.get("outputs", ()) if o.get("name") != "stderr"] if cell.cell_type == "code" else []
        for output in cell.outputs:
            data = output.get("data", {})
            if "text/html" in data:
                data["text/plain"] = data["text/plain"].split("(")[0].split(" at 0x")[0][:80]
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def shown(cell: Any) -> list[str]:
    """What a cell shows, without what differs from run to run."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        # What a notebook shows is HTML where there is any; the rest is for those who cannot show that.
        text = output.get("text") or data.get("text/html") or data.get("text/plain") or ""
        found.append(VOLATILE.sub("...", DRAWING.sub(_words, text)))
    return found


def _words(drawing: re.Match[str]) -> str:
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawing[0]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_shows_what_it_does(path: Path, tmp_path: Path) -> None:
    saved = nbformat.read(path, as_version=4)
    nbformat.validate(saved)
    again = execute(path, tmp_path)
    hint = f"execute it anew with: python tests/e2e/test_notebooks.py {path.relative_to(ROOT)}"
    for k, (old, new) in enumerate(zip(saved.cells, again.cells, strict=True)):
        assert old.cell_type == new.cell_type and old.source == new.source
        # What a search finds changes with the space; that it finds something does not.
        if "varies" in old.metadata.get("tags", ()):
            assert len(shown(new)) == len(shown(old)) and all(shown(new)), f"cell {k}"
        else:
            assert shown(new) == shown(old), f"cell {k}: {hint}"
    assert any("<svg" in text for cell in again.cells for output in cell.get("outputs", ())
               for text in output.get("data", {}).values()), "a notebook without a picture"


if __name__ == "__main__":
    import tempfile

    for one in [Path(p).resolve() for p in sys.argv[1:]] or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as empty:
            nbformat.write(execute(one, Path(empty)), one)
        print(one.relative_to(ROOT))
