"""What GitHub keeps between runs: caches, of which the least recently used go first, and artifacts, which expire."""

from __future__ import annotations

from dataclasses import dataclass, field

#: GitHub's: bytes of a repository's caches, and days after which one goes that nobody has used.
CACHE_LIMIT, CACHE_DAYS = 10e9, 7.0

DAY = 1440.0  #: minutes


@dataclass(eq=False, kw_only=True)
class Entry:
    """A cache. Times are in minutes."""

    key: str
    size: float
    built: float  #: when what it holds was compiled
    saved: float
    used: float


@dataclass
class Caches:
    """The caches of a repository."""

    limit: float = CACHE_LIMIT
    entries: list[Entry] = field(default_factory=list)
    peak: float = 0.0  #: bytes, with what is about to go
    evicted: int = 0

    def count_anew(self) -> None:
        """Forget what was most, and how many went."""
        self.peak, self.evicted = self.held, 0

    def restore(self, prefix: str, now: float) -> Entry | None:
        """The newest cache whose key begins so; that counts as its use."""
        self._expire(now)
        found = [entry for entry in self.entries if entry.key.startswith(prefix)]
        if not found:
            return None
        newest = max(found, key=lambda entry: entry.saved)
        newest.used = now
        return newest

    def save(self, key: str, size: float, now: float, *, built: float) -> None:
        """Keep one more. Others go where there are too many, those first that nobody has used for longest."""
        self._expire(now)
        self.entries.append(Entry(key=key, size=size, built=built, saved=now, used=now))
        self.peak = max(self.peak, self.held)
        while self.held > self.limit and len(self.entries) > 1:
            self.entries.remove(min(self.entries, key=lambda entry: entry.used))
            self.evicted += 1

    def delete_superseded(self, prefix: str) -> int:
        """Of those whose keys begin so, keep the newest; how many went."""
        found = sorted((entry for entry in self.entries if entry.key.startswith(prefix)), key=lambda one: one.saved)
        for entry in found[:-1]:
            self.entries.remove(entry)
        return len(found[:-1])

    @property
    def held(self) -> float:
        """Bytes."""
        return sum(entry.size for entry in self.entries)

    def _expire(self, now: float) -> None:
        self.entries = [entry for entry in self.entries if now - entry.used <= CACHE_DAYS * DAY]


@dataclass
class Artifacts:
    """The artifacts of a repository: name, bytes, and the minutes from and until which there is one."""

    kept: list[tuple[str, float, float, float]] = field(default_factory=list)

    def upload(self, name: str, size: float, now: float, *, days: float) -> None:
        """Keep one for so many days."""
        self.kept.append((name, size, now, now + days * DAY))

    def byte_days(self, begin: float, end: float) -> dict[str, float]:
        """Bytes times days, by name, of what is uploaded between two moments, until it expires.

        Over the days between them, that is what is held on average, if every week is like this one.
        """
        found: dict[str, float] = {}
        for name, size, since, until in self.kept:
            if begin <= since < end:
                found[name] = found.get(name, 0.0) + size * (until - since) / DAY
        return found

    def peak(self, begin: float, end: float) -> float:
        """The most bytes at once between two moments."""
        changes = [(since, size) for _, size, since, _ in self.kept] + [
            (until, -size) for _, size, _, until in self.kept
        ]
        held = most = 0.0
        for when, size in sorted(changes):
            if when >= end:
                break
            held += size
            most = max(most, held) if when > begin else held
        return most
