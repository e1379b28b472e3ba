"""Lines of files that grow: which are whole, which are new, and what becomes of files that do not just grow."""

import random
from pathlib import Path

import pytest

from ottla.pipeline.sources import lines
from ottla.pipeline.sources.lines import Ends, Range, find, new_ranges, read_lines

pytestmark = pytest.mark.once


def read(start: dict[str, int], end: dict[str, int], **options: bool) -> list[str]:
    return [line for part in new_ranges(start, end) for some in read_lines(part, **options) for line in some]


def test_a_line_is_read_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path, ends = tmp_path / "a.log", Ends()
    path.write_bytes(b"one\ntw")
    first = ends.of([str(path)])
    assert first == {str(path): 4}
    with path.open("ab") as file:
        file.write(b"o\r\n\xff\n\nthr")
    second = ends.of([str(path)])
    assert read({}, first) == ["one"]
    assert read(first, second) == ["two", "�", ""]
    assert read(first, first) == []
    assert ends.of([str(path)]) == second


def test_a_file_that_is_shorter_than_what_was_read_is_read_anew(tmp_path: Path) -> None:
    path, ends = tmp_path / "a.log", Ends()
    path.write_text("one\ntwo\n")
    before = ends.of([str(path)])
    path.write_text("new\n")
    assert read(before, ends.of([str(path)])) == ["new"]


def test_a_file_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    path, ends = tmp_path / "a.log", Ends()
    path.write_text("one\n")
    before = ends.of(find(str(tmp_path)))
    path.unlink()
    assert ends.of([*before]) == {}
    assert ends.of(find(str(tmp_path))) == {}


def test_a_file_that_becomes_shorter_before_it_is_read_is_no_end_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    for left in ("one\n", "one\ntwo"):
        path.write_text(left)
        with pytest.raises(EOFError, match=r"a\.log has become shorter"):
            read({}, {str(path): 8})


def test_paths_name_files_folders_or_patterns_and_nothing_hidden(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt", ".hidden.log", "_hidden.log", "below/d.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def names(pattern: str) -> list[str]:
        return [str(Path(each).relative_to(tmp_path)) for each in find(f"{tmp_path}{pattern}")]

    assert names("") == ["a.log", "b.log", "c.txt"]
    assert names("/a.log") == ["a.log"]
    assert names("/*.log") == ["a.log", "b.log"]
    assert names("/**/*.log") == ["a.log", "b.log", "below/d.log"]
    assert names("/none*") == []


def test_a_header_is_the_first_line_of_each_file_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("h\n1\n")
    ends = Ends()
    first = ends.of(find(str(tmp_path)))
    (tmp_path / "b.csv").write_text("h\n2\n")
    with (tmp_path / "a.csv").open("a") as file:
        file.write("3\n")
    assert read({}, first, skip_header=True) == ["1"]
    assert read(first, ends.of(find(str(tmp_path))), skip_header=True) == ["3", "2"]


@pytest.mark.trials(few=10, soak=50)
def test_pieces_of_a_file_have_each_line_once_wherever_they_are_cut(
    tmp_path: Path, seed: int, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    for trial in range(trials):
        monkeypatch.setattr(lines, "_RANGE_BYTES", chance.randint(1, 40))
        monkeypatch.setattr(lines, "_PART_BYTES", chance.randint(1, 40))
        monkeypatch.setattr(lines, "_BLOCK_BYTES", chance.randint(1, 40))
        wanted = ["x" * chance.choice((0, 1, 5, 100)) for _ in range(chance.randint(0, 30))]
        path = tmp_path / f"{trial}.log"
        path.write_text("".join(f"{line}\n" for line in wanted) + "unfinished" * chance.randint(0, 9))
        assert read({}, Ends().of([str(path)])) == wanted


def test_large_files_are_read_in_several_pieces() -> None:
    size = 64 << 20
    assert new_ranges({"a": 1}, {"a": size + 3}) == [Range("a", 1, size + 1), Range("a", size + 1, size + 3)]
