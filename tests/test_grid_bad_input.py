"""Grid files with faults: one sentence each, naming file, row and zone, what was found, the fix."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from pathlib import Path

import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.readers import read_grid

GOOD = "datetime_utc,GB,DE\n2024-02-29T22:00Z,100,400\n2024-02-29T23:00Z,110,410\n"
EXPORT = (
    "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
    "Carbon intensity gCO₂eq/kWh (Life cycle),Data source\n"
    "2024-02-29 22:00:00,Germany,Germany,DE,300,400,x\n"
)


def refused(path: Path | str, *, zones: list[str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_grid([path], zones)
    message = str(caught.value)
    assert "\n" not in message
    assert Path(path).name in message
    return message


def test_the_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(GOOD)
    assert read_grid(path).values.shape == (24, 2)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "nothing.csv")
    assert "is a folder" in refused(tmp_path)
    assert "no such file" in refused("nowhere/grid.csv.gz")
    assert "cannot be read" in refused(tmp_path / ("x" * 300 + ".csv"))


def test_no_file_and_no_zone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file is named"):
        read_grid([])
    path = tmp_path / "grid.csv"
    path.write_text(GOOD)
    assert "no zone is asked for" in refused(path, zones=[])


CONTENT: list[tuple[str, bytes, str]] = [
    ("grid.csv", b"", "is empty"),
    ("grid.csv", b" \n\n", "is empty"),
    ("grid.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
    ("grid.csv.gz", b"", "not a gzip file|is empty"),
    ("grid.csv", b"datetime_utc,GB\n", "a header but no rows"),
    ("grid.csv", b"datetime_utc,GB\n,\n\n", "a header but no rows"),
    ("grid.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-20], "ends too early"),
    ("grid.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:8], "ends too early"),
    ("grid.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-8] + b"\0" * 8, "is damaged"),
    ("grid.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b"\xff" * 40, "is damaged"),
    ("grid.csv.gz", GOOD.encode(), "named .gz but is not a gzip file"),
    ("grid.csv", bytes(range(256)) * 4, "is not UTF-8 text"),
    ("grid.csv", GOOD.encode("utf-16"), "is not UTF-8 text"),
    ("grid.csv", GOOD.replace("GB", "ZÜ").encode("latin-1"), "is not UTF-8 text"),
    ("grid.csv", GOOD.replace(",", ";").encode(), "row 1: .* separated by semicolons"),
    ("grid.csv", GOOD.replace(",", "\t").encode(), "row 1: .* separated by tabs"),
    ("grid.csv", b"datetime_utc\n2024-01-01T00:00Z\n", "no zone column beside 'datetime_utc'"),
    (
        "grid.csv",
        b"datetimeutc,GB\n2024-01-01T00:00Z,1\n",
        "no time column .*nearest: .datetimeutc",
    ),
    ("grid.csv", b"datetime_utc,GB,GB\n2024-01-01T00:00Z,1,1\n", "column 'GB' is there twice"),
    ("grid.csv", GOOD.encode() + b"2024-03-01T00:00Z,1\n", "row 4: has 2 cells where .* has 3"),
    ("grid.csv", GOOD.encode() + b"2024-03-01T00:00Z,1,2,3\n", "row 4: has 4 cells"),
    ("grid.csv", GOOD.encode() + b'2024-03-01T00:00Z,1,"2\n' + b"x" * 140_000, "not valid CSV"),
]


@pytest.mark.parametrize(("name", "content", "pattern"), CONTENT)
def test_files_that_are_no_grid(tmp_path: Path, name: str, content: bytes, pattern: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert re.search(pattern, refused(path))


def test_zip_archive(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("grid.csv", GOOD)
    path = tmp_path / "grid.csv"
    path.write_bytes(buffer.getvalue())
    assert "is a ZIP archive" in refused(path)


@pytest.mark.parametrize(
    ("cell", "pattern"),
    [
        ("", "GB is empty"),
        ("   ", "GB is empty"),
        ("nan", "GB is 'nan', which is not a number"),
        ("n/a", "GB is 'n/a', which is not a number"),
        ("1_000", "GB is '1_000', which is not a number"),
        ("-0.1", "GB is -0.1, which is negative"),
        ("-inf", "GB is -inf, which is negative"),
        ("inf", "GB is inf, which is above 5000"),
        ("5000.1", "GB is 5000.1, which is above 5000 .* unit"),
    ],
)
def test_values_that_are_no_intensity(tmp_path: Path, cell: str, pattern: str) -> None:
    path = tmp_path / "grid.csv"
    # The blank line and the quoted line break shift row numbers; the message must not.
    path.write_text(
        f'datetime_utc,note,GB\n2024-01-01T00:00Z,"a\nb",1\n\n2024-01-01T01:00Z,,{cell}\n'
    )
    message = refused(path, zones=["GB"])
    assert re.search(r"grid.csv, row 5: " + pattern, message)


@pytest.mark.parametrize("value", ["0", "5000", "1e3", "12.5"])
def test_values_at_the_bounds(tmp_path: Path, value: str) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(f"datetime_utc,GB\n2024-01-01T00:00Z,{value}\n")
    assert read_grid(path).values[0, 0] == float(value)


@pytest.mark.parametrize("column", ["datetime", "timestamp", "local_time_pacific", "Date"])
def test_local_time_without_offset(tmp_path: Path, column: str) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(f"{column},GB\n2024-01-01T00:00Z,1\n2024-01-01T01:00,1\n")
    message = refused(path)
    assert f"row 3: {column} is '2024-01-01T01:00', a time without offset" in message
    assert "datetime_utc" in message
    assert "add the offset" in message


@pytest.mark.parametrize(
    "cell", ["", "31/12/2023 23:00", "2024-02-30T00:00Z", "2023-02-29T00:00Z", "1704067200", "x"]
)
def test_times_that_are_not_iso_8601(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(f"datetime_utc,GB\n2024-01-01T00:00Z,1\n{cell},1\n")
    assert f"row 3: datetime_utc is {cell!r}, which is not an ISO 8601 time" in refused(path)


@pytest.mark.parametrize(
    "cell", ["2024-01-01T00:01Z", "2024-01-01T00:05:30Z", "2024-01-01T00:05:00.5Z"]
)
def test_times_off_the_clock(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(f"datetime_utc,GB\n2024-01-01T00:00Z,1\n{cell},1\n")
    assert "row 3" in refused(path)
    assert "not on the 5-minute UTC clock" in refused(path)


def test_gap_of_more_than_an_hour(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(GOOD + "2024-03-01T01:00Z,100,400\n")
    message = refused(path)
    assert "grid.csv, row 4: nothing is published for GB" in message
    assert "between 2024-02-29T23:00Z and 2024-03-01T01:00Z (120 minutes" in message


def test_gap_between_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("datetime_utc,GB\n2023-12-31T22:00Z,1\n")
    second.write_text("datetime_utc,GB\n2024-01-01T00:05Z,1\n")
    with pytest.raises(InputError, match=r"b.csv, row 2: .*\(125 minutes"):
        read_grid([first, second])


def test_a_repeated_time_with_different_values(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(GOOD + "2024-02-29T22:00Z,100,401\n")
    message = refused(path)
    assert re.search(
        r"grid.csv, row 4: DE is 401 at 2024-02-29T22:00Z, but 400 in .*grid.csv, row 2", message
    )
    assert read_grid(path, ["GB"]).held_steps == 0


def test_files_that_disagree(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(GOOD)
    second.write_text(GOOD.replace("110", "111"))
    with pytest.raises(InputError, match=r"b.csv, row 3: GB is 111 .* but 110 in .*a.csv, row 3"):
        read_grid([first, second])


def test_zones_without_common_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("datetime_utc,GB\n2023-01-01T00:00Z,1\n")
    second.write_text("datetime_utc,DE\n2024-01-01T00:00Z,1\n")
    with pytest.raises(InputError, match="GB ends at 2023-01-01T00:05Z before DE starts at 2024"):
        read_grid([first, second])


def test_unknown_zone(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text(GOOD)
    message = refused(path, zones=["GB", "DK"])
    assert "zone 'DK' is not there; nearest: DE; use one of GB, DE" in message


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("Zone id", "Region", "zone column is missing .*'Zone id'"),
        ("Zone id", "Zone idd", "zone column is missing .nearest: 'Zone idd'"),
        ("(Life cycle)", "(total)", "life-cycle column is missing .nearest: 'Carbon intensity"),
        (",DE,", ",,", "row 2: the zone id is empty"),
        (",400,", ",,", "row 2: DE is empty"),
        ("2024-02-29 22:00:00", "29/02/2024 22:00", "row 2: .* not an ISO 8601 time"),
        ("Datetime (UTC)", "Datetime", "row 2: Datetime is .* without offset"),
        ("Datetime (UTC)", "When", "no time column"),
    ],
)
def test_exports_with_faults(tmp_path: Path, old: str, new: str, pattern: str) -> None:
    path = tmp_path / "DE.csv"
    assert old in EXPORT
    path.write_text(EXPORT.replace(old, new), encoding="utf-8")
    assert re.search(pattern, refused(path))
