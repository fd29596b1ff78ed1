"""The two text formats: sharegpt and messages, and how their tokens are counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from carbon_gym.errors import InputError, InstallationError
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.trace import Conversations


def text(tokens: int, letter: str = "x") -> str:
    """A text of so many tokens by characters / 4."""
    return letter * (4 * tokens)


def say(speaker: str, value: str) -> dict[str, str]:
    return {"from": speaker, "value": value}


def sharegpt(path: Path, records: Any, **options: Any) -> Conversations:
    file = path / "sharegpt.json"
    file.write_text(records if isinstance(records, str) else json.dumps(records))
    return read_conversations(file, "sharegpt", **options)


def messages(path: Path, *lines: Any, **options: Any) -> Conversations:
    file = path / "messages.jsonl"
    file.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return read_conversations(file, "messages", **options)


def talk(*items: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in items], **more}


# --- sharegpt ---------------------------------------------------------------------------------


def test_turns_history_and_merging(tmp_path: Path) -> None:
    c = sharegpt(
        tmp_path,
        [
            {
                "id": "abc",
                "conversations": [
                    say("system", text(7)),
                    say("human", text(2)),
                    say("gpt", text(3)),
                    say("gpt", "y" * 3),  # joined by a line break: 12 + 1 + 3 characters
                    say("human", text(5)),
                    say("gpt", text(1)),
                    say("human", text(9)),  # never answered
                ],
            },
            {"id": "empty", "conversations": []},
        ],
    )
    assert c.session_id == ("abc",)
    assert c.prompt_tokens.tolist() == [2, 5]
    assert c.output_tokens.tolist() == [4, 1]
    assert c.history_tokens.tolist() == [7, 13]
    assert c.category.tolist() == [-1, -1]
    assert any("characters / 4" in note for note in c.notes)
    assert any("system" in note for note in c.notes)
    assert any("1 conversations without any reply" in note for note in c.notes)


def test_an_opening_reply_counts_as_history(tmp_path: Path) -> None:
    record = {"id": "a", "conversations": [say("gpt", text(4)), say("human", "?"), say("gpt", "!")]}
    c = sharegpt(tmp_path, [record])
    assert (c.history_tokens.tolist(), c.prompt_tokens.tolist()) == ([4], [1])


def test_an_unanswered_message_counts_in_the_later_history(tmp_path: Path) -> None:
    items = [
        say("human", text(3)),
        say("system", text(5)),
        say("human", text(2)),
        say("gpt", text(1)),
    ]
    c = sharegpt(tmp_path, [{"id": "a", "conversations": items}])
    assert (c.history_tokens.tolist(), c.prompt_tokens.tolist()) == ([8], [2])


def test_chunks_are_rejoined_and_repeats_removed(tmp_path: Path) -> None:
    conversation = [say("human" if i % 2 == 0 else "gpt", text(i + 1)) for i in range(8)]
    whole = sharegpt(tmp_path, [{"id": "q_1", "conversations": conversation}])
    chunks = [
        {"id": "q_4", "conversations": conversation[4:]},  # continues exactly
        {"id": "r_0", "conversations": conversation[:2]},
        {"id": "q_0", "conversations": conversation[:3]},
        {"id": "q_2", "conversations": conversation[2:4]},  # repeats one message
        {"id": "q_2", "conversations": conversation[2:4]},
    ]
    c = sharegpt(tmp_path, chunks)
    assert c.session_id == ("q", "r")
    assert c.prompt_tokens[:4].tolist() == whole.prompt_tokens.tolist() == [1, 3, 5, 7]
    assert c.history_tokens[:4].tolist() == whole.history_tokens.tolist() == [0, 3, 10, 21]
    assert any("2 chunks re-joined, 1 repeated messages removed" in note for note in c.notes)
    assert any("1 records repeat an id" in note for note in c.notes)
    missing = sharegpt(tmp_path, [chunks[2], chunks[0]])
    assert any("1 chunks follow a missing one" in note for note in missing.notes)


BAD_SHAREGPT = {
    "cut": ('[{"id": "a",\n "conversations": [', "line 2", "not valid JSON"),
    "lines": ('{"id": "a"}\n{"id": "b"}', "line 2", "format messages"),
    "object": ({"id": "a"}, "dict", "list"),
    "record": ([3], "record 1", "no object"),
    "no id": ([{"conversations": []}], "record 1", "'id' is missing"),
    "no conversations": ([{"id": "a", "items": []}], "record 1", "'conversations' is missing"),
    "no list": ([{"id": "a", "conversations": "hi"}], "record 1", "not a list"),
    "no value": (
        [{"id": "a", "conversations": [{"from": "human"}]}],
        "message 1",
        "from and value",
    ),
    "speaker": ([{"id": "a", "conversations": [say("humn", "")]}], "message 1", "'humn'"),
    "null": ([{"id": "a", "conversations": [{"from": "gpt", "value": None}]}], "message 1", "text"),
    "no turn": ([{"id": "a", "conversations": [say("human", "hi")]}], "sharegpt.json", "reply"),
    "empty list": ([], "sharegpt.json", "reply"),
    "deep": ("[" * 100_000, "sharegpt.json", ""),
}


@pytest.mark.parametrize(("records", "place", "finding"), BAD_SHAREGPT.values(), ids=BAD_SHAREGPT)
def test_bad_sharegpt(tmp_path: Path, records: Any, place: str, finding: str) -> None:
    with pytest.raises(InputError) as error:
        sharegpt(tmp_path, records)
    assert place in str(error.value)
    assert finding in str(error.value)


# --- messages ---------------------------------------------------------------------------------


def test_openai_messages(tmp_path: Path) -> None:
    calling = {
        "messages": [
            {"role": "developer", "content": text(6)},
            {
                "role": "user",
                "content": [{"type": "text", "text": text(2)}, {"type": "image_url", "url": "u"}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "look", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "content": text(10)},
            {"role": "assistant", "content": text(4)},
        ],
        "id": 12,
        "category": "math",
    }
    c = messages(tmp_path, calling, "", talk(("user", "a"), ("assistant", "b"), id=3))
    assert c.session_id == ("3", "12")
    assert c.prompt_tokens.tolist() == [1, 2, 10]
    assert c.output_tokens.tolist() == [1, 3, 4]  # look{"a": 1} has 12 characters
    assert c.history_tokens.tolist() == [0, 6, 11]
    assert c.category.tolist() == [-1, CATEGORIES.index("math"), CATEGORIES.index("math")]
    assert any("1 message parts without text" in note for note in c.notes)


def test_ids_default_to_line_numbers(tmp_path: Path) -> None:
    pair = talk(("user", "a"), ("assistant", "b"))
    named = talk(("user", "a"), ("assistant", "b"), conversation_id="z")
    assert messages(tmp_path, pair, pair).session_id == ("1", "2")
    assert messages(tmp_path, named).session_id == ("z",)


def stamped(*stamps: Any) -> dict[str, Any]:
    items = []
    for stamp in stamps:
        items.append({"role": "user", "content": "a", "timestamp": stamp})
        items.append({"role": "assistant", "content": "b"})
    return {"messages": items}


def test_timestamps(tmp_path: Path) -> None:
    c = messages(tmp_path, stamped("2023-05-08T11:00:00+02:00", 1683536460.5))
    assert c.absolute_time
    assert c.arrival_s is not None
    assert c.arrival_s.tolist() == [1683536400.0, 1683536460.5]


BAD_MESSAGES = {
    "json": (['{"messages": ['], "line 1", "not valid JSON"),
    "second line": ([talk(("user", "a"), ("assistant", "b")), "{"], "line 2", "not valid JSON"),
    "a list": (["[\n", "]"], "line 1", "format sharegpt"),
    "number": (["3"], "line 1", "no JSON object"),
    "key": ([{"mesages": []}], "line 1", "did you mean 'mesages'"),
    "no list": ([{"messages": {}}], "line 1", "not a list"),
    "no role": ([{"messages": [{"content": "a"}]}], "message 1", "role and content"),
    "no content": ([{"messages": [{"role": "user"}]}], "message 1", "role and content"),
    "role": ([talk(("asistant", "a"))], "message 1", "did you mean 'assistant'"),
    "content": ([talk(("user", 3))], "message 1", "int"),
    "part": ([talk(("user", [3]))], "message 1", "int"),
    "tool calls": ([{"messages": [{"role": "assistant", "tool_calls": [3]}]}], "message 1", "call"),
    "category": ([talk(("user", "a"), category="maths")], "line 1", "did you mean 'math'"),
    "same id": ([talk(("user", "a"), id=1), talk(("user", "a"), id=1)], "line 2", "line 1"),
    "bad id": ([talk(("user", "a"), id=[1])], "line 1", "id [1]"),
    "naive": ([stamped("2023-05-08T11:00:00")], "line 1", "no offset"),
    "no time": ([stamped("noon")], "line 1", "no time"),
    "milliseconds": ([stamped(1683536460500)], "line 1", "1000"),
    "neither": ([stamped([1])], "line 1", "neither"),
    "some": ([stamped(1683536460.0, None)], "line 1", "no timestamp"),
    "backwards": ([stamped(1683536460.0, 1683536459.0)], "line 1", "back in time"),
    "deep": (["[" * 100_000], "line 1", ""),
}


@pytest.mark.parametrize(("lines", "place", "finding"), BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_bad_messages(tmp_path: Path, lines: list[Any], place: str, finding: str) -> None:
    with pytest.raises(InputError) as error:
        messages(tmp_path, *lines)
    assert "messages.jsonl" in str(error.value)
    assert place in str(error.value)
    assert finding in str(error.value)


def test_wrong_encoding_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_bytes(b'{"messages": []}\n{"id": "\xe9"}\n')
    with pytest.raises(InputError, match="line 2: byte 0xe9"):
        read_conversations(file, "messages")


# --- counting ---------------------------------------------------------------------------------


def test_counting_with_a_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"how": 0, "are": 1, "you": 2, "?": 3}, unk_token="?")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    c = messages(
        tmp_path, talk(("user", "how are you"), ("assistant", "well")), tokenizer=str(path)
    )
    assert (c.prompt_tokens.tolist(), c.output_tokens.tolist()) == ([3], [1])
    assert any("tokenizer.json" in note for note in c.notes)


def test_bad_tokenizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    pair = talk(("user", "a"), ("assistant", "b"))
    with pytest.raises(InputError, match="no such tokenizer"):
        messages(tmp_path, pair, tokenizer=tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(InputError, match=r"bad\.json: is not a tokenizer\.json"):
        messages(tmp_path, pair, tokenizer=bad)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InstallationError, match=r"pip install .carbon-gym\[data\]"):
        messages(tmp_path, pair, tokenizer=bad)
