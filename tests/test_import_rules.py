"""What the importers make of the peculiarities of each source of conversations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from import_samples import SAMPLES, check, json_lines, put, table, words

from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.importing.detect import detect
from carbon_gym.importing.formats import read_any
from carbon_gym.importing.mooncake import BlockSessions, block_tokens
from carbon_gym.importing.requests import Prompts
from carbon_gym.importing.write import write_tokens
from carbon_gym.scenario import load_scenario
from carbon_gym.workload.trace import Conversations


def read(folder: Path, format: str, text: str, prompts: Prompts = "auto") -> Conversations:
    return read_any(put(folder, "file", text), format, None, prompts)


def sharechat(*rows: tuple[str, int, str, str]) -> str:
    header = ["url", "message_index", "role", "plain_text", "message_create_time"]
    return table(header, *([u, i, role, words(2), time] for u, i, role, time in rows))


def test_sessions_without_times_are_left_out_if_they_are_few(tmp_path: Path) -> None:
    pairs = [(url, i, role) for url in "abc" for i, role in enumerate(("user", "llm"))]
    dated = [(u, i, r, "ts:1717236000.5" if u != "b" else "") for u, i, r in pairs]
    found = read(tmp_path, "sharechat", sharechat(*dated))
    assert found.session_id == ("a", "c")
    assert found.arrival_s is not None
    assert found.arrival_s.tolist() == [1717236000.5] * 2
    assert any("1 sessions left out" in note for note in found.notes)
    few = [(u, i, r, "ts:1717236000.5" if u == "b" else "") for u, i, r in pairs]
    found = read(tmp_path, "sharechat", sharechat(*few))
    assert found.session_id == ("a", "b", "c")
    assert found.arrival_s is None
    assert any("times left out: 2 of 3" in note for note in found.notes)
    # a year no share link can have, and times that go back
    odd = [(u, i, r, "ts:9850000000.0" if u == "b" else "ts:1717236000") for u, i, r in pairs]
    assert read(tmp_path, "sharechat", sharechat(*odd)).session_id == ("a", "c")
    back = [*dated[:2], ("a", 2, "user", "ts:1717235000"), ("a", 3, "llm", ""), *odd[4:]]
    assert read(tmp_path, "sharechat", sharechat(*back)).session_id == ("c",)


def test_sharechat_orders_messages_and_ignores_repeats(tmp_path: Path) -> None:
    rows = [("a", 1, "llm", ""), ("a", 0, "user", ""), ("a", 1, "llm", "")]
    found = read(tmp_path, "sharechat", sharechat(*rows))
    assert (found.turns, found.output_tokens.tolist()) == (1, [2])
    assert any("1 messages repeat" in note for note in found.notes)


def test_replies_longer_than_a_csv_module_likes(tmp_path: Path) -> None:
    text = sharechat(("a", 0, "user", ""), ("a", 1, "llm", ""))
    found = read(tmp_path, "sharechat", text.replace(f"llm,{words(2)}", f"llm,{words(60_000)}"))
    assert found.output_tokens.tolist() == [60_000]


def test_wildchat_dates_a_turn_by_the_end_of_its_reply(tmp_path: Path) -> None:
    found = read(tmp_path, "wildchat", SAMPLES["wildchat"].text)
    assert found.arrival_s is not None
    assert np.diff(found.arrival_s).tolist() == [23.0, 36.0]
    assert any("3 prompts have no time" in note for note in found.notes)


def test_wildchat_conversations_of_the_same_text_are_told_apart(tmp_path: Path) -> None:
    records = [json.loads(line) for line in SAMPLES["wildchat"].text.splitlines()]
    again = json.loads(json.dumps(records[1]))
    for message in again["conversation"]:
        message["turn_identifier"] = 777
    text = json_lines(*records, again, records[1], again)
    found = read(tmp_path, "wildchat", text)
    assert found.session_id == ("beef", "beef-777", "c0ffee")
    assert any("2 records repeat an id" in note for note in found.notes)


def test_lmsys_as_one_list_and_with_repeats(tmp_path: Path) -> None:
    records = [json.loads(line) for line in SAMPLES["lmsys"].text.splitlines()]
    text = json.dumps([*records, records[0]], indent=2)
    file = put(tmp_path, "lmsys.json", text)
    assert detect(file)[0] == "lmsys"
    found = read_any(file, "lmsys")
    check(found, SAMPLES["lmsys"])
    assert any("1 records repeat an id" in note for note in found.notes)


def test_prompts_that_hold_the_history_or_do_not(tmp_path: Path) -> None:
    whole = SAMPLES["burstgpt"].text
    new = whole.replace("600,230", "60,230")
    assert read(tmp_path, "burstgpt", whole).history_tokens.tolist() == [0, 490, 0]
    assert read(tmp_path, "burstgpt", new).history_tokens.tolist() == [0, 490, 0]
    assert read(tmp_path, "burstgpt", new).prompt_tokens.tolist() == [472, 60, 417]
    forced = read(tmp_path, "burstgpt", whole, "new")
    assert forced.prompt_tokens.tolist() == [472, 600, 417]
    cut = read(tmp_path, "burstgpt", new, "whole")
    assert (cut.history_tokens.tolist(), cut.prompt_tokens.tolist()) == ([0, 0, 0], [472, 60, 417])
    assert any("1 prompts are shorter" in note for note in cut.notes)
    assert any("1 failed requests" in note for note in cut.notes)


def test_a_prompt_cut_by_the_client_keeps_what_the_cache_knew(tmp_path: Path) -> None:
    text = SAMPLES["usage"].text.replace('"prompt_tokens": 170', '"prompt_tokens": 149')
    found = read(tmp_path, "usage", text)
    assert found.history_tokens.tolist() == [0, 144, 0]
    assert found.prompt_tokens.tolist() == [120, 5, 200]


def test_usage_in_all_its_forms(tmp_path: Path) -> None:
    responses = {
        "conversation_id": 7,
        "created_at": "2024-06-01T10:00:00Z",
        "usage": {
            "input_tokens": 50,
            "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0},
        },
    }
    batch = {
        "custom_id": "x",
        "metadata": {"session_id": "7"},
        "response": {
            "status_code": 200,
            "body": {
                "created": 1_717_236_060,
                "usage": {
                    "prompt_tokens": 60,
                    "completion_tokens": 6,
                    "prompt_tokens_details": None,
                },
            },
        },
    }
    flat = {"timestamp": 1_717_236_001_500, "prompt_tokens": 8, "completion_tokens": 9}
    found = read(tmp_path, "usage", json_lines(responses, batch, flat))
    assert found.session_id == ("7", "line 3")
    assert found.history_tokens.tolist() == [0, 55, 0]
    assert found.arrival_s is not None
    assert found.arrival_s.tolist() == [1717236000.0, 1717236060.0, 1717236001.5]
    csv_text = table(
        ["timestamp", "session_id", "prompt_tokens", "completion_tokens", "cached_tokens"],
        ["2024-06-01T10:00:00Z", "7", 50, 5, 0],
        ["2024-06-01T10:01:00Z", "7", 60, 6, 48],
    )
    file = put(tmp_path, "usage.csv", csv_text)
    assert detect(file)[0] == "usage"
    assert read_any(file, "usage").history_tokens.tolist() == [0, 55]


def test_what_real_usage_logs_hold(tmp_path: Path) -> None:
    anthropic = {
        "session_id": 0,
        "usage": {
            "input_tokens": 4,
            "cache_read_input_tokens": 90,
            "cache_creation_input_tokens": 6,
            "output_tokens": 5,
        },
    }
    response = {
        "conversation": {"id": "conv_1"},
        "usage": {"input_tokens": 10.0, "output_tokens": 3, "input_tokens_details": None},
    }
    failed = {"custom_id": "x", "response": None, "error": {"code": "batch_expired"}}
    logged = {"messages": [{"role": "user", "content": "x"}], "usage": response["usage"]}
    file = put(tmp_path, "log", json_lines(anthropic, response, failed, logged))
    assert detect(file)[0] == "usage"
    found = read_any(file, "usage")
    assert found.session_id == ("0", "conv_1", "line 4")
    assert found.prompt_tokens.tolist() == [100, 10, 10]
    said = "found 90.0 % of the prompt tokens in a cache, in 1 of 3 requests that say it"
    assert any(said in note for note in found.notes)
    assert any("1 failed requests" in note for note in found.notes)
    with pytest.raises(InputError, match=r"line 1: .* is missing; .* drop the line"):
        read(tmp_path, "usage", json_lines({"usage": None, "prompt": 3}))


def test_days_before_the_first_request_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, "burstgpt", SAMPLES["burstgpt"].text)  # begins on day 225 of its trace
    assert found.arrival_s is not None
    assert found.arrival_s.tolist() == [110.0, 150.0, 223.0]
    assert any("first 225 days" in note for note in found.notes)
    at = {"source": "file", "path": str(tmp_path / "t.csv.gz"), "format": "tokens"}
    write_tokens(found, tmp_path / "t.csv.gz")
    assert len(evaluation_fleets(load_scenario("tiny", workload=at)).days) == 1


def test_azure_of_2024_and_2025(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "azure",
        table(
            ["TIMESTAMP", "NumImages", "ContextTokens", "GeneratedTokens"],
            ["2024-05-10 00:00:00.009930+00:00", 1, 2_162, 5],
            ["2024-05-12 00:00:00+00:00", 0, 90, 6],
        ),
    )
    assert found.absolute_time
    assert found.arrival_s is not None
    assert np.diff(found.arrival_s).tolist() == pytest.approx([2 * 86_400 - 0.00993])


def test_a_trace_in_seconds_is_not_taken_for_mooncakes(tmp_path: Path) -> None:
    line = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 40}
    with pytest.raises(InputError, match=r"line 1: .*by 1000"):
        read(tmp_path, "mooncake", json_lines({**line, "output_length": 2, "hash_ids": [1, 2, 3]}))


def test_without_sessions_every_request_is_its_own(tmp_path: Path) -> None:
    found = read(tmp_path, "azure", SAMPLES["azure"].text)
    assert found.session_id == ("2", "3")
    assert found.arrival_s is not None
    assert found.arrival_s[0] == pytest.approx(18 * 3600 + 15 * 60 + 46.68059)
    assert any("session of its own" in note for note in found.notes)
    assert any("no offset to UTC" in note for note in found.notes)
    dated = SAMPLES["azure"].text.replace("5900,", "5900Z,").replace("1690,", "1690Z,")
    assert read(tmp_path, "azure", dated).absolute_time
    sessions = table(
        ["TIMESTAMP", "SessionId", "ContextTokens", "GeneratedTokens"],
        ["2024-05-10 00:00:05", "u", 50, 5],
        ["2024-05-10 00:00:01", "u", 20, 5],
    )
    found = read(tmp_path, "azure", sessions)
    assert (found.prompt_tokens.tolist(), found.history_tokens.tolist()) == ([20, 25], [0, 25])


def test_blocks_tell_sessions_but_not_by_a_system_prompt(tmp_path: Path) -> None:
    size = 512
    prompts = [600, 1_100, 1_700, 600, 1_300, 1_250]
    blocks = [[0, 1], [0, 2, 3], [0, 2, 4, 5], [0, 6], [0, 7, 8], [0, 2, 9]]
    assert block_tokens(prompts, [len(b) for b in blocks]) == size
    assert block_tokens([33, 40], [3, 3]) == 16
    found = BlockSessions(size).of(range(6), prompts, [10] * 6, blocks)
    # The first prompt shares its only whole block with all others: one of them at most can be
    # taken for its continuation. The third continues the second; the last, which begins as the
    # second does, cannot, since the second was continued already.
    assert found[2] == found[1]
    assert found[3] != found[4]
    assert found[5] not in (found[1], found[4])
    own = SAMPLES["mooncake"].text.replace('"timestamp"', '"session_id": "q", "timestamp"')
    assert read(tmp_path, "mooncake", own).session_id == ("q",)


def test_a_long_list_is_read_a_record_at_a_time(tmp_path: Path) -> None:
    records = [
        {
            "id": f"r{k}",
            "conversations": [
                {"from": "human", "value": "é\n" * (k % 7) + "\\u00e9"},
                {"from": "gpt", "value": "x" * (3_000 if k == 50 else 900)},
            ],
        }
        for k in range(3_000)
    ]
    text = json.dumps(records, indent=1, ensure_ascii=False)
    assert read(tmp_path, "sharegpt", text).sessions == 3_000
    at = text.index("r2700")
    broken = text[:at] + '"' + text[at:]
    with pytest.raises(InputError, match=f"line {text.count(chr(10), 0, at) + 1}: not valid JSON"):
        read(tmp_path, "sharegpt", broken)
