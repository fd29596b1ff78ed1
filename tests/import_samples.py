"""Small files in the true formats of the sources of conversations, made up by us.

The formats are those that the sources document: the data cards of ShareGPT, ShareChat, WildChat
and LMSYS-Chat-1M, the READMEs of BurstGPT, Azure's public data sets and Mooncake, OpenAI's and
vLLM's usage objects.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carbon_gym.workload.trace import Conversations


@dataclass(frozen=True)
class Sample:
    """A file and what is in it; `arrivals`: whether calendar times, None if none."""

    name: str
    text: str
    sessions: int
    prompt: list[int]
    output: list[int]
    history: list[int]
    arrivals: bool | None = None


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """A file of that content."""
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def check(found: Conversations, sample: Sample) -> None:
    """That the sample was read as what it holds."""
    assert found.sessions == sample.sessions
    assert found.prompt_tokens.tolist() == sample.prompt
    assert found.output_tokens.tolist() == sample.output
    assert found.history_tokens.tolist() == sample.history
    assert (found.arrival_s is None) == (sample.arrivals is None)
    assert found.absolute_time == bool(sample.arrivals)


def words(tokens: int, letter: str = "x") -> str:
    """A text of so many tokens by characters / 4."""
    return letter * (4 * tokens)


def json_lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def table(*rows: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _say(speaker: str, tokens: int) -> dict[str, str]:
    return {"from": speaker, "value": words(tokens)}


def _flags(flagged: bool) -> dict[str, Any]:
    return {"categories": {"hate": flagged, "violence": False}, "flagged": flagged}


def _wildchat(name: str, *turns: tuple[int, int, str]) -> dict[str, Any]:
    """A record of WildChat-1M: replies are dated, by their end; prompts are not."""
    conversation: list[dict[str, Any]] = []
    for number, (prompt, reply, time) in enumerate(turns):
        common = {"language": "English", "redacted": False, "toxic": False}
        conversation += [
            {
                **common,
                "role": "user",
                "content": words(prompt),
                "country": "Germany",
                "state": "Berlin",
                "hashed_ip": "0f" * 32,
                "header": {"accept-language": "de-DE", "user-agent": "Mozilla/5.0"},
                "timestamp": None,
                "turn_identifier": 100 + number,
            },
            {
                **common,
                "role": "assistant",
                "content": words(reply),
                "country": None,
                "state": None,
                "hashed_ip": None,
                "header": None,
                "timestamp": time,
                "turn_identifier": 100 + number,
            },
        ]
    return {
        "conversation_hash": name,
        "model": "gpt-4-0314",
        "timestamp": turns[-1][2],
        "conversation": conversation,
        "turn": len(turns),
        "language": "English",
        "openai_moderation": [_flags(False)],
        "toxic": False,
        "redacted": False,
        "state": "Berlin",
        "country": "Germany",
        "hashed_ip": "0f" * 32,
    }


def _lmsys(name: str, *turns: tuple[int, int]) -> dict[str, Any]:
    conversation = []
    for prompt, reply in turns:
        conversation += [
            {"content": words(prompt), "role": "user"},
            {"content": words(reply), "role": "assistant"},
        ]
    return {
        "conversation_id": name,
        "model": "vicuna-13b",
        "conversation": conversation,
        "turn": len(turns),
        "language": "English",
        "openai_moderation": [_flags(False)] * len(turns),
        "redacted": False,
    }


def completion(session: str, created: int, prompt: int, reply: int, cached: int) -> dict[str, Any]:
    """A logged chat completion of OpenAI's or vLLM's server, with the session beside it."""
    return {
        "session_id": session,
        "id": f"chatcmpl-{created}",
        "object": "chat.completion",
        "created": created,
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "total_tokens": prompt + reply,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _shared(url: str, index: int, role: str, tokens: int, time: str) -> list[Any]:
    """A row of ShareChat's file of ChatGPT."""
    cell = words(tokens - 1) + '\n",y'  # line breaks, quotes and commas stand in real ones
    model = "gpt-4o" if role != "user" else ""
    return ["chatgpt", url, 2, index, role, cell, "en", model, time, "2024-06-01 10:00:00", "code"]


_SHARECHAT_HEADER = [
    *("platform", "url", "turns_count", "message_index", "role", "plain_text"),
    *("detected_language_final", "model", "message_create_time", "create_time", "topic"),
]
_UUID = "f7c1a2d4-0b51-4c1e-9f0e-2d3a5b6c7d8e"
_LINK = "https://chatgpt.com/share/"
_BLOCKS = {"timestamp": 0, "input_length": 1_300, "output_length": 50, "hash_ids": [0, 1, 2]}

SAMPLES: dict[str, Sample] = {
    "tokens": Sample(
        "mine.csv",
        table(
            ["session", "turn", "prompt_tokens", "output_tokens", "arrival"],
            ["a", 0, 10, 20, "2024-06-01T10:00:00Z"],
            ["a", 1, 5, 7, "2024-06-01T10:02:00Z"],
            ["b", 0, 3, 4, "2024-06-01T10:01:00Z"],
        ),
        2,
        [10, 5, 3],
        [20, 7, 4],
        [0, 30, 0],
        True,
    ),
    "sharegpt": Sample(
        "ShareGPT_V3_unfiltered_cleaned_split.json",
        json.dumps(
            [
                {"id": "QWJhYvA_0", "conversations": [_say("human", 3), _say("gpt", 9)]},
                {"id": "i6IyJda_0", "conversations": [_say("human", 4), _say("gpt", 6)]},
                {"id": "QWJhYvA_2", "conversations": [_say("human", 5), _say("gpt", 8)]},
            ]
        ),
        2,
        [3, 5, 4],
        [9, 8, 6],
        [0, 12, 0],
    ),
    "messages": Sample(
        "chats.jsonl",
        json_lines(
            {
                "id": "a",
                "messages": [
                    {"role": "system", "content": words(6)},
                    {"role": "user", "content": words(2), "timestamp": 1_717_236_000},
                    {"role": "assistant", "content": words(3)},
                ],
            },
            {
                "id": "b",
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": words(4)}],
                        "timestamp": "2024-06-01T10:00:30Z",
                    },
                    {"role": "assistant", "content": words(5)},
                ],
            },
        ),
        2,
        [2, 4],
        [3, 5],
        [6, 0],
        True,
    ),
    "sharechat": Sample(
        "chatgpt_results_final_language_filtered.csv",
        table(
            _SHARECHAT_HEADER,
            _shared(_LINK + "aa", 0, "user", 3, "ts:1717236000.25"),
            _shared(_LINK + "aa", 1, "llm", 7, "ts:1717236010.5"),
            _shared(_LINK + "aa", 2, "user", 2, "ts:1717236100.0"),
            _shared(_LINK + "aa", 3, "llm", 4, "ts:1717236110.0"),
            _shared(_LINK + "bb", 0, "user", 5, "ts:1717300000.0"),
            _shared(_LINK + "bb", 1, "llm", 6, "ts:1717300010.0"),
        ),
        2,
        [3, 2, 5],
        [7, 4, 6],
        [0, 10, 0],
        True,
    ),
    "wildchat": Sample(
        "train-00000-of-00014.jsonl",
        json_lines(
            _wildchat("c0ffee", (3, 8, "2023-04-09T00:02:53Z"), (4, 6, "2023-04-09T00:03:29Z")),
            _wildchat("beef", (5, 7, "2023-04-09T00:02:30Z")),
        ),
        2,
        [5, 3, 4],
        [7, 8, 6],
        [0, 0, 11],
        True,
    ),
    "lmsys": Sample(
        "lmsys.jsonl",
        json_lines(_lmsys("33f01939", (2, 9), (3, 5)), _lmsys("1e230e55", (6, 4))),
        2,
        [6, 2, 3],
        [4, 9, 5],
        [0, 0, 11],
    ),
    "burstgpt": Sample(
        "BurstGPT_3.csv",
        table(
            [
                *("Timestamp", "Session ID", "Elapsed time", "Model"),
                *("Request tokens", "Response tokens", "Total tokens", "Log Type"),
            ],
            ["19440110.0", _UUID, 2, "ChatGPT", 472, 18, 490, "Conversation log"],
            ["19440150.0", _UUID, 4, "ChatGPT", 600, 230, 830, "Conversation log"],
            ["19440223.0", "", 3, "GPT-4", 417, 276, 693, "API log"],
            ["19440235.0", "", 1, "GPT-4", 99, 0, 99, "API log"],
        ),
        2,
        [472, 110, 417],
        [18, 230, 276],
        [0, 490, 0],
        False,
    ),
    "azure": Sample(
        "AzureLLMInferenceTrace_conv.csv",
        table(
            ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
            ["2023-11-16 18:15:46.6805900", 374, 44],
            ["2023-11-16 18:15:50.9951690", 396, 109],
        ),
        2,
        [374, 396],
        [44, 109],
        [0, 0],
        False,
    ),
    "mooncake": Sample(
        "conversation_trace.jsonl",
        json_lines(
            _BLOCKS,
            {"timestamp": 3_052, "input_length": 700, "output_length": 9, "hash_ids": [0, 3]},
            {
                "timestamp": 61_000,
                "input_length": 1_400,
                "output_length": 30,
                "hash_ids": [0, 1, 4],
            },
        ),
        2,
        [1_300, 50, 700],
        [50, 30, 9],
        [0, 1_350, 0],
        False,
    ),
    "usage": Sample(
        "vllm-usage.jsonl",
        json_lines(
            completion("s-1", 1_717_236_000, 120, 30, 0),
            completion("s-2", 1_717_236_005, 200, 10, 112),
            completion("s-1", 1_717_236_090, 170, 40, 144),
        ),
        2,
        [120, 20, 200],
        [30, 40, 10],
        [0, 150, 0],
        True,
    ),
}

BROKEN: dict[str, dict[str, tuple[str, str, str, str]]] = {
    # format: fault: text to replace, by what, the place that is named, the fix that is said
    "tokens": {
        "word": ("a,1,5,", "a,1,five,", "line 3", "whole number"),
        "local time": ("10:02:00Z", "10:02:00", "line 3", "ISO 8601 with offset"),
        "turn twice": ("a,1,", "a,0,", "line 3", "number the turns"),
        "cut": ("b,0,3,4,2024-06-01T10:01:00Z", "b,0", "line 4", "as many cells"),
    },
    "sharegpt": {
        "no id": ('"id": "i6IyJda_0"', '"name": "i6"', "record 2", "'id' is missing"),
        "speaker": ('"from": "gpt"', '"from": "hal"', "record 1, message 2", "known: human"),
        "cut": ("}]}]", "}]}", "line 1", "one JSON list"),
        "value": ('"value": "xxxxxxxxxxxx"', '"value": 12', "record 1, message 1", "must be text"),
    },
    "messages": {
        "role": ('"role": "system"', '"role": "sytem"', "line 1, message 1", "'system'"),
        "local time": ("10:00:30Z", "10:00:30", "line 2", "with offset"),
        "half dated": (', "timestamp": 1717236000', "", "line 1", "to every user message"),
        "same id": ('"id": "b"', '"id": "a"', "line 2", "its own id"),
    },
    "sharechat": {
        "role": (",llm,", ",lm,", "line 4", "known: user"),
        "time": ("ts:1717236100.0", "yesterday", "line 6", "epoch seconds"),
        "index": ("2,0,user", "2,first,user", "line 2", "number the messages"),
        "order": (_LINK + "bb,2,1", _LINK + "aa,2,1", "line 12", "sort them by url"),
    },
    "wildchat": {
        "role": ('"role": "assistant"', '"role": "asistant"', "line 1, message 2", "'assistant'"),
        "time": ('"2023-04-09T00:03:29Z", "turn_i', '"soon", "turn_i', "line 1, message 4", "ISO"),
        "content": ('"content": "xxxx', '"content": 7, "c": "xxxx', "line 1", "must be text"),
        "cut": ("\n{", "\n", "line 2", "one JSON object per line"),
    },
    "lmsys": {
        "role": ('"role": "user"', '"role": "usr"', "line 1, message 1", "'user'"),
        "no list": ('"conversation": [', '"conversation": 5, "c": [', "line 1", "its messages"),
        "id": ('"1e230e55"', "[1]", "line 2", "text or an integer"),
        "cut": ("}\n{", "\n{", "line 1", "one JSON object per line"),
    },
    "burstgpt": {
        "negative": ("600,230", "-600,230", "line 3", "whole number"),
        "time": ("19440223.0,", "noon,", "line 4", "seconds since the start"),
        "cells": ("GPT-4,417", "GPT-4,4,17", "line 4", "as many cells"),
        "column": ("Response tokens", "Reply tokens", "line 1", "'Response tokens' is missing"),
    },
    "azure": {
        "time": ("2023-11-16 18:15:50.9951690", "18:15", "line 3", "ISO 8601"),
        "fraction": ("396,109", "396.5,109", "line 3", "whole number"),
        "offset": ("46.6805900", "46.6805900+00:00", "line 3", "one form"),
        "column": ("ContextTokens", "PromptTokens", "line 1", "'ContextTokens' is missing"),
    },
    "mooncake": {
        "seconds": ('"timestamp": 3052', '"timestamp": "3 s"', "line 2", "milliseconds"),
        "hashes": ("[0, 1, 4]", '["0", "1"]', "line 3", "block hashes"),
        "negative": ('"input_length": 700', '"input_length": -700', "line 2", "whole number"),
        "cut": ("[0, 3]}", "[0, 3", "line 2", "one JSON object per line"),
    },
    "usage": {
        "over": ('"cached_tokens": 144', '"cached_tokens": 1440', "line 3", "part of the prompt"),
        "time": ('"created": 1717236005', '"created": 17', "line 2", "epoch seconds"),
        "no time": ('"created": 1717236005', '"made": 1717236005', "line 2", "every line"),
        "text": ('"prompt_tokens": 170', '"prompt_tokens": "170"', "line 3", "whole number"),
    },
}
