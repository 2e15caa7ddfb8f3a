"""The layout that packaging rests on (docs/adr/001-packaging.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("sdk", "core", "collector", "scorer", "api")


def tracked() -> list[Path]:
    out = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).is_file()]


def test_no_part_claims_the_namespace() -> None:
    # One stray stagewatch/__init__.py makes every other part vanish in a checkout.
    assert [p for part in PARTS for p in (ROOT / part).glob("stagewatch/__init__.py")] == []


def test_every_part_is_typed() -> None:
    for part in PARTS:
        for package in (ROOT / part / "stagewatch").iterdir():
            if package.is_dir() and package.name != "__pycache__":
                assert (package / "py.typed").exists(), package


def test_no_file_names_a_download_address() -> None:
    host = re.compile(
        r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|debian|registry)[\w.-]*", re.IGNORECASE
    )
    for path in tracked():
        if path.suffix in {".pb", ".svg", ".png", ".gz"} or "golden" in path.parts:
            continue
        found = host.search(path.read_text(encoding="utf-8", errors="ignore"))
        assert found is None, f"{path}: {found.group() if found else ''}"


def test_requirements_are_pinned_with_hashes() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "--index-url" not in text
        for line in text.splitlines():
            if line and not line.startswith((" ", "#")):
                assert "==" in line, line
        pins, hashes = text.count("=="), text.count("--hash=sha256:")
        assert hashes >= pins > 0, path
