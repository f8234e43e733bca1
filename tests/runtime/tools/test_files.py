"""Read, Write, Edit, Glob, Grep on real files."""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from fsm_agent.core.events import Outcome
from fsm_agent.runtime.tools.edit import Edit
from fsm_agent.runtime.tools.glob import Glob
from fsm_agent.runtime.tools.grep import Grep
from fsm_agent.runtime.tools.media import sniff
from fsm_agent.runtime.tools.paths import PathProblem, open_regular, write_atomic
from fsm_agent.runtime.tools.read import Read
from fsm_agent.runtime.tools.write import Write

from .kit import Bench, bench, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """These tools run in threads; one backend is enough here, the pipeline's tests use both."""
    return str(request.param)


def files(folder: Path) -> Bench:
    return bench(folder, [Read(), Write(), Edit(), Glob(), Grep()])


async def test_read_numbers_lines_and_takes_ranges(tmp_path: Path) -> None:
    """Lines are counted from 1; a range says how to go on."""
    (tmp_path / "a").write_text("".join(f"l{n}\n" for n in range(1, 3_001)))
    own = files(tmp_path)
    text = await own.text("Read", file_path="a")
    assert text.startswith("     1\tl1\n")
    assert text.endswith("... [1000 more lines; go on with offset 2001]")
    assert await own.text("Read", file_path="a", offset=2_999) == "  2999\tl2999\n  3000\tl3000"
    assert (await own.text("Read", file_path="a", offset=5, limit=1)).startswith("     5\tl5\n... [2995 more")
    behind = await own.call("Read", file_path="a", offset=4_000)
    assert behind.outcome is Outcome.ERROR
    assert "only 3000 lines" in text_of(behind)


async def test_read_bounds_lines_and_says_what_cannot_be_read(tmp_path: Path) -> None:
    """Long lines are cut; directories, devices, pipes, binaries and missing files are clear errors."""
    (tmp_path / "long").write_text("x" * 5_000)
    (tmp_path / "bin").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "empty").write_text("")
    (tmp_path / "config.yaml").write_text("")
    os.mkfifo(tmp_path / "pipe")
    own = files(tmp_path)
    assert "[3000 characters cut]" in await own.text("Read", file_path="long")
    assert "empty" in await own.text("Read", file_path="empty")
    for path, words in (
        (".", "is a directory"),
        ("bin", "binary file"),
        ("pipe", "not a regular file"),
        ("config.yml", "Did you mean config.yaml?"),
        ("none/x", "does not exist either"),
    ):
        finished = await own.call("Read", file_path=path)
        assert finished.outcome is Outcome.ERROR, path
        assert words in text_of(finished), path


async def test_read_keeps_only_its_own_idea_of_lines_and_letters(tmp_path: Path) -> None:
    """UTF-16 and Latin-1 are decoded, form feeds do not split lines, controls do not come through."""
    (tmp_path / "u16").write_bytes("ä\r\nb".encode("utf-16"))
    (tmp_path / "latin").write_bytes("ä\n".encode("latin-1"))
    (tmp_path / "feed").write_text("a\x0cb\u2028c\n")
    own = files(tmp_path)
    assert await own.text("Read", file_path="u16") == "     1\tä\n     2\tb"
    assert await own.text("Read", file_path="latin") == "     1\tä"
    assert await own.text("Read", file_path="feed") == "     1\ta\ufffdb\u2028c"


async def test_read_of_a_large_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file too large to be held is read line by line, each bounded."""
    monkeypatch.setattr("fsm_agent.runtime.tools.read.MAX_EDIT_BYTES", 1_000)
    (tmp_path / "big").write_text("a\n" + "x" * 300_000 + "\n" + "b\n" * 3_000)
    own = files(tmp_path)
    text = await own.text("Read", file_path="big", offset=1, limit=3)
    assert "     3\tb" in text
    assert len(text) < 10_000
    assert "go on with offset 4" in text


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * (width + 1) * height))
        + chunk(b"IEND", b"")
    )


HEADERS = {
    "png": (png(7, 5), ("image/png", 7, 5)),
    "gif": (b"GIF89a" + struct.pack("<HH", 7, 5) + b"\0" * 10, ("image/gif", 7, 5)),
    "jpeg": (
        b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc4\x00\x04\0\0\xff\xc2\x00\x0b\x08"
        + struct.pack(">HH", 5, 7)
        + b"\1\1\x11\0",
        ("image/jpeg", 7, 5),
    ),
    "webp lossy": (
        b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 7, 5) + b"\0" * 8,
        ("image/webp", 7, 5),
    ),
    "webp lossless": (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 6 | 4 << 14) + b"\0" * 8, ("image/webp", 7, 5)),
    "webp extended": (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\6\0\0\4\0\0", ("image/webp", 7, 5)),
    "cut png": (b"\x89PNG\r\n\x1a\n\0\0", ("image/png", 0, 0)),
    "cut jpeg": (b"\xff\xd8\xff\xe0\x00", ("image/jpeg", 0, 0)),
}


@pytest.mark.parametrize(("data", "expected"), HEADERS.values(), ids=HEADERS.keys())
def test_sizes_of_images_come_from_their_headers(data: bytes, expected: tuple[str, int, int]) -> None:
    """Kind, width and height are read without an image library; a cut header gives no size and no crash."""
    info = sniff(data)
    assert info is not None
    assert (info.media_type, info.width, info.height) == expected


async def test_images_and_pdf_files_come_as_blocks(tmp_path: Path) -> None:
    """An image is an image block with its size known, a PDF a document block with its pages."""
    (tmp_path / "i.png").write_bytes(png(7, 5))
    (tmp_path / "misnamed.txt").write_bytes(png(7, 5))
    (tmp_path / "d.pdf").write_bytes(b"%PDF-1.4\n1 0 obj<</Type /Page>>\n2 0 obj<</Type/Page /X 1>>\n<</Type /Pages /Count 2>>")
    own = files(tmp_path)
    for name in ("i.png", "misnamed.txt"):
        finished = await own.call("Read", file_path=name)
        (part,) = json.loads(finished.result.json)["content"]
        assert part["source"]["media_type"] == "image/png"
        assert base64.b64decode(part["source"]["data"]) == png(7, 5)
        assert (finished.result.media[0].width, finished.result.media[0].height) == (7, 5)
    finished = await own.call("Read", file_path="d.pdf")
    assert finished.result.media[0].kind == "document"
    assert finished.result.media[0].pages == 2


async def test_media_over_the_limits_is_an_error(tmp_path: Path) -> None:
    """An image that the API would refuse never gets into the conversation (field report 71)."""
    (tmp_path / "wide.gif").write_bytes(b"GIF89a" + struct.pack("<HH", 9_000, 5) + b"\0" * 10)
    (tmp_path / "heavy.png").write_bytes(png(7, 5) + b"\0" * 4_000_000)
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10")
    (tmp_path / "many.pdf").write_bytes(b"%PDF-1.4\n" + b"<</Type /Page>>\n" * 101)
    own = files(tmp_path)
    for name, words in (
        ("wide.gif", "9000x5"),
        ("heavy.png", "encoded bytes"),
        ("broken.jpg", "damaged"),
        ("many.pdf", "101 pages"),
    ):
        finished = await own.call("Read", file_path=name)
        assert finished.outcome is Outcome.ERROR
        assert words in text_of(finished)
        assert not finished.result.media


async def test_write_makes_and_replaces_files_that_were_read(tmp_path: Path) -> None:
    """A new file needs nothing, an existing one must have been read and be unchanged; its mode stays."""
    own = files(tmp_path)
    assert (await own.call("Write", file_path="new/deep/a.txt", content="x\ny\n")).outcome is Outcome.OK
    assert (tmp_path / "new/deep/a.txt").read_text() == "x\ny\n"
    old = tmp_path / "old.sh"
    old.write_text("1")
    old.chmod(0o750)
    refused = await own.call("Write", file_path="old.sh", content="2")
    assert "Read it first" in text_of(refused)
    assert old.read_text() == "1"
    await own.call("Read", file_path="old.sh")
    old.write_text("3")
    assert "changed since" in await own.text("Write", file_path="old.sh", content="2")
    await own.call("Read", file_path="old.sh")
    assert (await own.call("Write", file_path="old.sh", content="2")).outcome is Outcome.OK
    assert (await own.call("Write", file_path="old.sh", content="4")).outcome is Outcome.OK  # its own write counts as read
    assert old.read_text() == "4"
    assert old.stat().st_mode & 0o777 == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old.sh"]


async def test_write_says_why_it_cannot(tmp_path: Path) -> None:
    """A directory, a file as a directory, or a full place is an error in words, and nothing is lost."""
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("x")
    own = files(tmp_path)
    for path, words in (("d", "is a directory"), ("f/x", "cannot be written")):
        finished = await own.call("Write", file_path=path, content="")
        assert finished.outcome is Outcome.ERROR
        assert words in text_of(finished)
    assert (tmp_path / "f").read_text() == "x"


def test_a_link_that_is_put_in_the_way_is_not_followed(tmp_path: Path) -> None:
    """Between judging and running a path became a link: neither reading nor writing follows it (field report 93)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("old")
    inside = tmp_path / "ws"
    inside.mkdir()
    (inside / "d").symlink_to(outside)
    (inside / "f").symlink_to(outside / "f")
    (inside / "new").symlink_to(outside / "new")
    for path in ("d/f", "f", "new"):
        with pytest.raises(PathProblem, match="symbolic link"):
            write_atomic(str(inside / path), b"new")
    for path in ("d/f", "f"):
        with pytest.raises(PathProblem, match="symbolic link"):
            open_regular(str(inside / path))
    assert (outside / "f").read_text() == "old"
    assert sorted(os.listdir(outside)) == ["f"]


def test_a_hard_link_outside_keeps_its_content(tmp_path: Path) -> None:
    """Writing replaces the name inside the workspace; another name of the same file is untouched (field report 93)."""
    (tmp_path / "outside").write_text("old")
    os.link(tmp_path / "outside", tmp_path / "inside")
    write_atomic(str(tmp_path / "inside"), b"new")
    assert (tmp_path / "outside").read_text() == "old"
    assert (tmp_path / "inside").read_text() == "new"


EDITS = [
    (b"a\nb\na\n", "b", "c", False, b"a\nc\na\n"),
    (b"a\nb\na\n", "a", "c", True, b"c\nb\nc\n"),
    (b"a\r\nb\r\n", "a\nb", "x\ny", False, b"x\r\ny\r\n"),
    (b"a\r\nb\nc\r\n", "b", "x\ny", False, b"a\r\nx\r\ny\nc\r\n"),
    (b"a\r\nb\nc\r\n", "b\nc", "x\ny", False, b"a\r\nx\ny\r\n"),
    (b"\xef\xbb\xbfa\n", "a", "b", False, b"\xef\xbb\xbfb\n"),
    ("ä\n".encode("utf-16"), "ä", "ö", False, "ö\n".encode("utf-16")),
    ("ä\n".encode("latin-1"), "ä", "ö", False, "ö\n".encode("latin-1")),
    (b"a.c abc", "a.c", "x", False, b"x abc"),
    (b"a", "a", r"\1\g<0>", False, rb"\1\g<0>"),
    (b"no newline", "newline", "end", False, b"no end"),
    (b"a\n\n\nb", "\n\n", "\n", False, b"a\n\nb"),
    (b"aa", "a", "b", False, None),
    (b"x", "y", "z", False, None),
    (b"x", "x", "x", False, None),
    ("ä".encode("latin-1"), "ä", "\u20ac", False, None),
]


@pytest.mark.parametrize(("before", "old", "new", "everywhere", "after"), EDITS)
async def test_edit_replaces_exactly(
    tmp_path: Path, before: bytes, old: str, new: str, everywhere: bool, after: bytes | None
) -> None:
    """The text is replaced once or everywhere; encoding, mark and line ends stay; else nothing changes."""
    path = tmp_path / "f"
    path.write_bytes(before)
    own = files(tmp_path)
    await own.call("Read", file_path="f")
    finished = await own.call("Edit", file_path="f", old_string=old, new_string=new, replace_all=everywhere)
    assert finished.outcome is (Outcome.ERROR if after is None else Outcome.OK), text_of(finished)
    assert path.read_bytes() == (before if after is None else after)


async def test_edit_wants_the_file_read_and_unchanged(tmp_path: Path) -> None:
    """A file that was not read, or that changed since, is left alone; touching it without a change is fine."""
    path = tmp_path / "f"
    path.write_text("a b")
    own = files(tmp_path)
    assert "Read it first" in await own.text("Edit", file_path="f", old_string="a", new_string="c")
    await own.call("Read", file_path="f")
    os.utime(path, (1, 1))
    assert (await own.call("Edit", file_path="f", old_string="a", new_string="c")).outcome is Outcome.OK
    path.write_text("a x")
    assert "changed since" in await own.text("Edit", file_path="f", old_string="a", new_string="c")
    assert path.read_text() == "a x"
    assert "does not exist" in await own.text("Edit", file_path="none", old_string="a", new_string="c")


def tree(folder: Path) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "build/e.py", ".git/f.py", ".hidden/g.py", "secret/h.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os  # {name}\nNeedle = 1\nlast\n")
    (folder / ".gitignore").write_text("build/\n*.log\n")
    (folder / "x.log").write_text("Needle")
    (folder / "out").symlink_to(folder.parent)


GLOBS = [
    ("**/*.py", {"a.py", "src/b.py", "src/deep/c.py", ".hidden/g.py", "secret/h.py"}),
    ("*.ts", {"src/d.ts"}),
    ("src/*.py", {"src/b.py"}),
    ("src/**/*.py", {"src/b.py", "src/deep/c.py"}),
    ("src/**", {"src/b.py", "src/deep/c.py", "src/d.ts"}),
    ("src/*.{py,ts}", {"src/b.py", "src/d.ts"}),
    ("[ab].py", {"a.py", "src/b.py"}),
    ("[!a].ts", {"src/d.ts"}),
    ("?.ts", {"src/d.ts"}),
    ("nothing*", set()),
]


@pytest.mark.parametrize(("pattern", "expected"), GLOBS)
async def test_glob_finds_files(tmp_path: Path, pattern: str, expected: set[str]) -> None:
    """Globs match as people expect; ignored files, version control and links are left out."""
    ws = tmp_path / "ws"
    ws.mkdir()
    tree(ws)
    text = await files(ws).text("Glob", pattern=pattern)
    assert (set() if text == "No files found." else set(text.split("\n"))) == expected


async def test_glob_is_newest_first_but_compared_by_names(tmp_path: Path) -> None:
    """The newest file is first; loop detection does not take another order for progress."""
    for index, name in enumerate(("a", "b", "c")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (index, index))
    own = files(tmp_path)
    first = await own.call("Glob", pattern="*")
    assert text_of(first) == "c\nb\na"
    os.utime(tmp_path / "a", (9, 9))
    second = await own.call("Glob", pattern="*")
    assert text_of(second) == "a\nc\nb"
    assert first.digest == second.digest
    for pattern, words in (("[", "without"), ("{a", "without"), ("../*", "must not hold")):
        assert words in await own.text("Glob", pattern=pattern)


ENGINES = [pytest.param("rg", marks=pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")), None]


@pytest.mark.parametrize("engine", ENGINES, ids=["ripgrep", "python"])
async def test_grep_means_the_same_with_both_engines(tmp_path: Path, engine: str | None) -> None:
    """Paths, lines, counts, context, case, kinds and spans of lines agree between ripgrep and Python."""
    ws = tmp_path / "ws"
    ws.mkdir()
    tree(ws)
    (ws / "crlf.txt").write_bytes(b"one\r\nNeedle two\r\n")
    (ws / "bin").write_bytes(b"Needle\0")
    (ws / ".git").mkdir(exist_ok=True)
    own = bench(ws, [Grep(ripgrep=engine)], rules={"deny": ("Read(./secret/**)",)})
    everywhere = {"a.py", "src/b.py", "src/deep/c.py", "src/d.ts", ".hidden/g.py"}
    assert set((await own.text("Grep", pattern="Needle")).split("\n")) == everywhere | {"crlf.txt"}
    assert set((await own.text("Grep", pattern="Needle", type="py")).split("\n")) == everywhere - {"src/d.ts"}
    assert await own.text("Grep", pattern="Needle", glob="*.ts") == "src/d.ts"
    assert await own.text("Grep", pattern="needle", path="a.py") == "No matches found."
    assert await own.text("Grep", pattern="needle", path="a.py", **{"-i": True}) == "a.py"
    assert await own.text("Grep", pattern="^Need", path="a.py", output_mode="content") == "a.py:2:Needle = 1"
    assert await own.text("Grep", pattern="^Need", path="a.py", output_mode="content", **{"-n": False}) == "a.py:Needle = 1"
    assert await own.text("Grep", pattern="two$", path="crlf.txt", output_mode="content") == "crlf.txt:2:Needle two"
    around = await own.text("Grep", pattern="Need", path="a.py", output_mode="content", **{"-C": 1})
    assert around == "a.py-1-import os  # a.py\na.py:2:Needle = 1\na.py-3-last"
    assert await own.text("Grep", pattern="[a-z]", path="src", output_mode="count") == "src/b.py:3\nsrc/d.ts:3\nsrc/deep/c.py:3"
    spans = await own.text("Grep", pattern="Needle.*last", path="a.py", output_mode="content", multiline=True)
    assert spans == "a.py:2:Needle = 1\na.py:3:last"
    assert (await own.text("Grep", pattern="[a-z]", path="src", output_mode="content", head_limit=2)).endswith(
        "... [7 more lines]"
    )
    broken = await own.call("Grep", pattern="(")
    assert broken.outcome is Outcome.ERROR
    assert "search failed" in text_of(broken)
    assert "does not exist" in await own.text("Grep", pattern="x", path="none")
    assert await own.text("Grep", pattern="-e", path="a.py") == "No matches found."
