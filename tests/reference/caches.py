"""The KV caches of one deployment: a list of entries, least recently used evicted (SPEC §3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Entry:
    """What one deployment holds of one session."""

    session: int
    tokens: int
    size_bytes: int
    last_use_s: float
    last_use_event: int
    """Row of the last use; decides between entries used at the same instant."""


class DeploymentCache:
    """Entries of one deployment.

    Attributes:
        room_bytes: KV room of all replicas, bytes; None: unlimited.
        ttl_s: Time to live, s; an entry of exactly this age is alive.
        entries: Everything held, in no particular order; may contain expired entries, which
            count for nothing.
    """

    def __init__(self, room_bytes: float | None, ttl_s: float) -> None:
        self.room_bytes = room_bytes
        self.ttl_s = ttl_s
        self.entries: list[Entry] = []

    def is_alive(self, entry: Entry, now_s: float) -> bool:
        """Whether the entry's age is within the TTL, edge included (SPEC §10)."""
        return now_s - entry.last_use_s <= self.ttl_s

    def held_tokens(self, session: int, now_s: float) -> int:
        """Tokens of the session held here now, 0 without a living entry."""
        for entry in self.entries:
            if entry.session == session and self.is_alive(entry, now_s):
                return entry.tokens
        return 0

    def drop(self, session: int) -> None:
        """Forget a session."""
        self.entries = [entry for entry in self.entries if entry.session != session]

    def store(self, new: Entry, now_s: float) -> None:
        """Keep a session's new entry in place of its old one, evicting others where needed."""
        self.entries = [entry for entry in self.entries if self.is_alive(entry, now_s)]
        self.drop(new.session)
        if self.room_bytes is not None:
            if new.size_bytes > self.room_bytes:
                return
            while self.used_bytes() + new.size_bytes > self.room_bytes:
                oldest = min(self.entries, key=lambda e: (e.last_use_s, e.last_use_event))
                self.entries.remove(oldest)
        self.entries.append(new)

    def used_bytes(self) -> int:
        """Bytes of all entries."""
        total = 0
        for entry in self.entries:
            total = total + entry.size_bytes
        return total
