"""The tokens format and the files behind all formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.trace import Conversations

HEADER = "session,turn,prompt_tokens,output_tokens"


def read(path: Path, text: str | bytes, name: str = "conversations.csv") -> Conversations:
    file = path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_conversations(file, "tokens")


def test_history_defaults_to_everything_before(tmp_path: Path) -> None:
    c = read(tmp_path, f"{HEADER}\nb,0,5,6\nb,1,7,8\na,3,1,2\nb,9,1,1\n")
    assert c.session_id == ("a", "b")
    assert c.offsets.tolist() == [0, 1, 4]
    assert c.history_tokens.tolist() == [0, 0, 11, 26]
    assert c.category.tolist() == [-1] * 4
    assert c.arrival_s is None
    assert any("history" in note for note in c.notes)


def test_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    rows = ["1,0,5,6", "1,1,7,8", "2,0,1,2", "2,4,3,4"]
    sorted_ = read(tmp_path, "\n".join([HEADER, *rows]))
    shuffled = read(tmp_path, "\n".join([HEADER, rows[3], rows[1], rows[0], rows[2]]))
    assert sorted_.prompt_tokens.tolist() == shuffled.prompt_tokens.tolist() == [5, 7, 1, 3]
    assert sorted_.history_tokens.tolist() == shuffled.history_tokens.tolist()


def test_integer_ids_are_ordered_by_value_others_by_text(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER}\n10,0,1,1\n9,0,1,1\n007,0,1,1\n").session_id == (
        "007",
        "9",
        "10",
    )
    assert read(tmp_path, f"{HEADER}\n10,0,1,1\n9,0,1,1\nx,0,1,1\n").session_id == ("10", "9", "x")


def test_keys_come_from_the_text_of_the_id(tmp_path: Path) -> None:
    c = read(tmp_path, f"{HEADER}\n7,0,1,1\n 7 ,1,1,1\n")
    assert c.session_key.tolist() == [draws.key_of_text("7")]


def test_names_and_features_of_the_sharegpt_file_are_accepted(tmp_path: Path) -> None:
    c = read(
        tmp_path,
        "session_id,turn,user_tokens,response_tokens,history_tokens,user_codeish,user_mathish,"
        "task_guess,lang_guess\n"
        "0,0,5,6,39,0,0,other,en\n0,1,5,6,50,0,0,write,en\n0,2,5,6,61,1,0,write,en\n"
        "0,3,5,6,72,1,1,code,en\n0,4,5,6,83,0,0,code,en\n0,5,5,6,94,0,0,list,en\n",
    )
    assert c.history_tokens[0] == 39
    assert [CATEGORIES[k] for k in c.category] == [
        "reasoning",
        "creative",
        "coding",
        "math",
        "coding",
        "information",
    ]


def test_category_column_is_taken_as_it_is(tmp_path: Path) -> None:
    c = read(tmp_path, f"{HEADER},category\n1,0,5,6,math\n1,1,5,6,\n")
    assert c.category.tolist() == [CATEGORIES.index("math"), -1]


def test_arrivals_in_seconds_or_iso_with_offset(tmp_path: Path) -> None:
    relative = read(tmp_path, f"{HEADER},arrival\n1,0,5,6,0.5\n1,1,5,6,90\n")
    assert not relative.absolute_time
    assert relative.arrival_s is not None
    assert relative.arrival_s.tolist() == [0.5, 90.0]
    calendar = read(
        tmp_path,
        f"{HEADER},arrival\n1,0,5,6,2023-05-08T09:00:00Z\n1,1,5,6,2023-05-08T11:00:00.25+02:00\n",
    )
    assert calendar.absolute_time
    assert calendar.arrival_s is not None
    assert calendar.arrival_s.tolist() == [1683536400.0, 1683536400.25]


def test_an_empty_arrival_column_means_none(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER},arrival\n1,0,5,6,\n1,1,5,6,\n").arrival_s is None


def test_gzip_byte_order_mark_crlf_and_trailing_blank_lines(tmp_path: Path) -> None:
    text = f"{HEADER}\r\n1,0,5,6\r\n\r\n"
    c = read(tmp_path, gzip.compress(b"\xef\xbb\xbf" + text.encode()), "c.csv.gz")
    assert c.turns == 1
    # told by its first bytes, not by its name
    assert read(tmp_path, gzip.compress(text.encode()), "c.csv").turns == 1


def test_quoted_ids(tmp_path: Path) -> None:
    assert read(tmp_path, f'{HEADER}\n"a, ""b""",0,5,6\n').session_id == ('a, "b"',)


BAD_ROWS = {
    "negative": ("1,0,5,6\n1,1,-5,6", "line 3", "-5"),
    "fraction": ("1,0,5.5,6", "line 2", "5.5"),
    "nan": ("1,0,nan,6", "line 2", "nan"),
    "infinite": ("1,0,inf,6", "line 2", "inf"),
    "empty cell": ("1,0,,6", "line 2", "missing"),
    "text": ("1,0,many,6", "line 2", "many"),
    "huge": ("1,0,10000001,6", "line 2", "10000001"),
    "beyond 64 bits": ("1,0,99999999999999999999999,6", "line 2", "10,000,000"),
    "true": ("1,0,5,True", "line 2", "True"),
    "turn": ("1,first,5,6", "line 2", "turn"),
    "same turn twice": ("1,0,5,6\n2,0,5,6\n1,0,5,6", "line 4", "line 2"),
    "no session": (" ,0,5,6", "line 2", "session is empty"),
    "blank line": ("1,0,5,6\n\n1,1,5,6", "line 3", "blank"),
    "cells too many": ("1,0,5,6\n1,1,1,000,6", "line 3", "5 cells"),
    "cells too few": ("1,0,5,6\n1,1,5", "line 3", "3 cells"),
    "cells too many, quoted": ('"1",0,5,6\n1,1,1,000,6', "line 3", "5 cells"),
    "open quote": ('"1,0,5,6', "line 2", "cells"),
    "no rows": ("", "no rows", "at least one turn"),
}


@pytest.mark.parametrize(("rows", "place", "finding"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows(tmp_path: Path, rows: str, place: str, finding: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, f"{HEADER}\n{rows}\n")
    message = str(error.value)
    assert "conversations.csv" in message
    assert place in message
    assert finding in message
    assert "\n" not in message


BAD_ARRIVALS = {
    "naive": ("2023-05-08T09:00:00", "2023-05-08T09:00:01", "line 2", "no offset"),
    "date only": ("2023-05-08", "2023-05-09", "line 2", "offset"),
    "backwards": ("10", "9.5", "line 3", "back in time"),
    "some missing": ("10", "", "line 3", "missing"),
    "mixed": ("2023-05-08T09:00:00Z", "7", "line 3", "one form"),
    "no time": ("noon", "one", "line 2", "no time"),
    "month 13": ("2023-13-08T09:00:00Z", "2023-12-08T09:00:00Z", "line 2", "no time"),
    "year 9999": ("9999-12-08T09:00:00Z", "9999-12-08T09:00:00Z", "line 2", "9999"),
    "negative": ("-1", "5", "line 2", "-1"),
    "epoch": ("1700000000", "1700000001", "line 2", "ISO 8601"),
}


@pytest.mark.parametrize(
    ("first", "second", "place", "finding"), BAD_ARRIVALS.values(), ids=BAD_ARRIVALS
)
def test_bad_arrivals(tmp_path: Path, first: str, second: str, place: str, finding: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, f"{HEADER},arrival\n1,0,5,6,{first}\n1,1,5,6,{second}\n")
    assert place in str(error.value)
    assert finding in str(error.value)


BAD_HEADERS = {
    "misspelt": ("session,turn,promt_tokens,output_tokens", "'promt_tokens'"),
    "no header": ("1,0,5,6", "'session' is missing"),
    "semicolons": ("session;turn;prompt_tokens;output_tokens", "'session' is missing"),
    "twice": ("session,turn,prompt_tokens,output_tokens,turn", "mean the same"),
    "two names": ("session,session_id,turn,prompt_tokens,output_tokens", "mean the same"),
    "old line ends": (f"{HEADER}\r1,0,5,6\r", "line 1"),
}


@pytest.mark.parametrize(("header", "finding"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_bad_headers(tmp_path: Path, header: str, finding: str) -> None:
    with pytest.raises(InputError, match="line 1") as error:
        read(tmp_path, header + "\n1,0,5,6\n")
    assert finding in str(error.value)


@pytest.mark.parametrize(
    ("column", "cell", "finding"),
    [
        ("category", "codng", "did you mean 'coding'"),
        ("user_codeish", "yes", "'yes'"),
        ("history_tokens", "-1", "-1"),
    ],
)
def test_bad_optional_cells(tmp_path: Path, column: str, cell: str, finding: str) -> None:
    with pytest.raises(InputError, match="line 2") as error:
        read(tmp_path, f"{HEADER},{column}\n1,0,5,6,{cell}\n")
    assert finding in str(error.value)


def test_shrinking_history_is_kept_and_said(tmp_path: Path) -> None:
    c = read(tmp_path, f"{HEADER},history_tokens\n1,0,5,6,100\n1,1,5,6,50\n")
    assert c.history_tokens.tolist() == [100, 50]
    assert any("shrinks" in note for note in c.notes)


def test_bad_files(tmp_path: Path) -> None:
    whole = gzip.compress(f"{HEADER}\n1,0,5,6\n".encode() * 50)
    for name, content, finding in [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b" \n\n", "empty"),
        ("cut.csv.gz", whole[:-12], "truncated"),
        ("damaged.csv.gz", whole[:20] + b"\x00\xff\x00" + whole[23:], "damaged"),
        ("plain.csv.gz", HEADER.encode(), "not gzip"),
        ("latin.csv", f"{HEADER}\né,0,5,6\n".encode("latin-1"), "UTF-8"),
        ("latin_header.csv", f"{HEADER},né\n1,0,5,6,1\n".encode("latin-1"), "UTF-8"),
    ]:
        with pytest.raises(InputError) as error:
            read(tmp_path, content, name)
        assert name in str(error.value)
        assert finding in str(error.value)
    with pytest.raises(InputError, match="no such file"):
        read_conversations(tmp_path / "missing.csv", "tokens")
    with pytest.raises(InputError, match="directory"):
        read_conversations(tmp_path, "tokens")
    with pytest.raises(InputError, match="did you mean 'tokens'"):
        read_conversations(tmp_path / "x", "token")
    with pytest.raises(InputError, match="leave the tokenizer out"):
        read_conversations(tmp_path / "x", "tokens", "tokenizer.json")


def test_the_real_file_loads_as_it_is(shared_data: Path) -> None:
    c = read_conversations(shared_data / "conversations" / "sharegpt_turns.csv.gz", "tokens")
    assert (c.sessions, c.turns) == (7578, 48_335)
    assert c.session_id[:3] == ("0", "1", "2")
    assert np.all(np.diff(c.offsets) >= 1)
    assert set(np.unique(c.category)) == set(range(5))
    assert int((c.history_tokens[c.offsets[:-1]] > 0).sum()) == 37
