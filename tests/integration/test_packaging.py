"""The wheel: the SDK alone is light and types are seen; the server extra is named when it lacks."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.integration


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the SDK's pinned dependencies, nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    built = run(
        sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--out-dir", folder, ROOT, cwd=ROOT
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    for words in (
        ["--require-hashes", "-r", str(ROOT / "requirements" / "sdk.txt")],
        ["--no-deps", str(next(folder.glob("*.whl")))],
    ):
        done = run(
            sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *words,
            cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_every_part_with_its_types_pages_and_statements(bare: Path) -> None:
    names = set(zipfile.ZipFile(next(bare.glob("*.whl"))).namelist())
    for part in ("sdk", "core", "collector", "scorer", "api"):
        assert f"stagewatch/{part}/py.typed" in names
    assert "stagewatch/__init__.py" not in names
    assert "stagewatch/api/web/templates/base.html" in names
    assert "stagewatch/api/web/static/app.js" in names
    assert "stagewatch/core/store/sql/schema/0001_turns.sql" in names
    assert "stagewatch/demo/labels.jsonl" in names
    assert any(name.startswith("stagewatch/demo/captures/") for name in names)
    assert any(name.startswith("stagewatch/collector/assemble/conventions/") for name in names)
    assert not [name for name in names if name.startswith(("tests", "bench"))]


def test_the_sdk_alone_loads_nothing_heavy(bare: Path) -> None:
    code = (
        "import sys, stagewatch.sdk as s\n"
        "s.configure('http://127.0.0.1:9')\n"
        "with s.turn('q') as t:\n    t.record('a')\n"
        "heavy = {'grpc', 'fastapi', 'chdb', 'pandas', 'numpy', 'uvicorn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print('light')\n"
    )
    done = run(bare / "env" / "bin" / "python", "-W", "error", "-c", code, cwd=bare)
    assert done.stdout == "light\n", done.stderr


def test_the_command_says_what_to_install(bare: Path) -> None:
    done = run(bare / "env" / "bin" / "stagewatch", "up", cwd=bare)
    assert done.returncode == 2
    assert "pip install 'stagewatch[server]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    helped = run(bare / "env" / "bin" / "stagewatch", "--help", cwd=bare)
    assert "doctor" in helped.stdout


def test_a_consumer_sees_the_types(bare: Path) -> None:
    consumer = bare / "consumer.py"
    consumer.write_text(
        "from stagewatch.sdk import generate, retrieve, turn\n"
        "def ask(question: str) -> str:\n"
        "    with turn(question) as t:\n"
        "        with retrieve(question, top_k=3) as step:\n"
        "            docs: list[str] = step.record(['a'])\n"
        "        with generate('m', context=docs) as step2:\n"
        "            answer: str = step2.record('b')\n"
        "    reveal_type(t.trace_id)\n"
        "    return answer\n"
    )
    done = run(
        sys.executable, "-m", "mypy", "--strict", "--python-executable",
        bare / "env" / "bin" / "python", "--config-file", "/dev/null", consumer, cwd=bare,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert 'Revealed type is "str"' in done.stdout.replace("builtins.", "")
