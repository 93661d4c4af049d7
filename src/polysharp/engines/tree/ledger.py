"""Supports and what they cost, however many: on disk, each one once, and read cheapest first.

A census may name millions of supports, some of them twice (by a rounding, and where the tree ends),
and which of them are close enough is known only when it is over.  So they go to a temporary file as
they are named, about 4 l + 20 bytes each, and what memory holds does not depend on their number.
The file is SQLite's own: it lies in TMPDIR and vanishes with the process, however that ends.

    key    the sorted support, 32-bit numbers with the highest byte first: keys compare as supports
    value  its cost
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from polysharp.typing import Array, Indices

FRESH = 10_000  # supports in memory that are not yet in the file
CACHE = 16_384  # KiB of the file that are held in memory
PLACE = np.dtype(">i4")


class Ledger:
    """Supports of one size with their costs; it is closed when it has been read."""

    def __init__(self, size: int) -> None:
        import sqlite3  # which not every build of Python has, nor every caller needs

        self.size, self._failure = size, sqlite3.Error
        self._fresh: dict[bytes, float] = {}
        self._file = sqlite3.connect("", isolation_level=None)  # no name: a temporary file
        self._file.execute(f"PRAGMA cache_size = -{CACHE}")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("CREATE TABLE named (support BLOB PRIMARY KEY, cost REAL) WITHOUT ROWID")
        self._file.execute("BEGIN")  # and never a commit: nobody else reads it

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, support: Indices, cost: float) -> None:
        """Enter a support, unless it is there."""
        self._fresh[support.astype(PLACE).tobytes()] = cost
        if len(self._fresh) >= FRESH:
            self._write()

    def count(self, limit: float = np.inf) -> int:
        """Return how many cost at most so much."""
        self._write()
        with self._on_disk():
            found = self._file.execute("SELECT count(*) FROM named WHERE cost <= ?", (limit,))
            return int(found.fetchone()[0])

    def blocks(
        self, limit: float = np.inf, *, most: int = -1, rows: int = FRESH
    ) -> Iterator[tuple[Indices, Array]]:
        """Yield supports, one in a row, and their costs up to a limit, so many rows at a time.

        The cheapest come first, equal costs in the order of the supports; at most ``most`` in all,
        any number where it is -1.
        """
        self._write()
        wanted = "SELECT support, cost FROM named WHERE cost <= ? ORDER BY cost, support LIMIT ?"
        with self._on_disk():
            found = self._file.execute(wanted, (limit, most))
            while block := found.fetchmany(rows):
                keys, costs = zip(*block, strict=True)
                supports = np.frombuffer(b"".join(keys), dtype=PLACE).astype(np.intp)
                yield supports.reshape(len(block), self.size), np.array(costs)

    def _write(self) -> None:
        """Move what is in memory to the file; interrupted in between, it is there twice at most."""
        with self._on_disk():
            fresh = sorted(self._fresh.items())  # neighbours in the file come together
            self._file.executemany("INSERT OR IGNORE INTO named VALUES (?, ?)", fresh)
            self._fresh.clear()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Say what a full disk is about."""
        try:
            yield
        except self._failure as error:
            raise OSError(f"what was found does not fit on the disk of TMPDIR: {error}") from error
