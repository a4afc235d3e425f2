"""Damage to any file of a data directory: it starts, and answers as before or not at all.

The counts are those of `make test`, and larger in `make soak`.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from odradek.storage.log.txn_index import TXN_ENTRY
from tests.seeds import seeds

from .damage_cases import KEY, START, Specimen, answers_of, batches_in, damage

SIDE_FILES: Final = (
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
)
EPOCH: Final = slice(12, 16)  # of a batch: the broker's, outside the checksum


@pytest.fixture(scope="module", params=[True, False], ids=["clean", "killed"])
def specimen(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Specimen:
    return Specimen(tmp_path_factory.mktemp("specimen") / "data", clean=request.param)


def damage_side_files(specimen: Specimen, suffix: str, rounds: range) -> None:
    """Damage one file of this kind at a time; everything is answered as before."""
    specimen.restore()
    names = specimen.named(suffix)
    if not names:
        assert suffix in (".kafka_cleanshutdown", ".snapshot")
        return
    for number in rounds:
        chance = random.Random(f"{suffix} {number}")
        name = chance.choice(names)
        path = specimen.path / name
        kind = damage(path, chance)
        size_bytes = path.stat().st_size if path.exists() else 0
        data_dir = specimen.open()
        log, expected = data_dir.logs[KEY], specimen.expected
        answers = answers_of(log)
        what = f"round {number}: {kind} of {path.name}"
        if suffix.startswith("log-start") and log.log_start_offset != START:
            # One number is as good as another: what lies below is hidden, and nothing is lost.
            shown = {o: d for o, d in expected.fetches.items() if o >= log.log_start_offset}
            expected = replace(expected, fetches=shown, times=answers.times)
            expected = replace(expected, aborted=answers.aborted, epochs=answers.epochs)
        is_shorter = size_bytes < len(specimen.files[name]) and size_bytes % TXN_ENTRY.size == 0
        if suffix == ".txnindex" and is_shorter:
            # As if it had never been longer; only a scan of the segment could tell.
            expected = replace(expected, aborted=answers.aborted)
        assert answers == expected, what
        assert not any(segment.damaged for segment in log.segments), what
        data_dir.abandon()
        specimen.restore()


@pytest.mark.parametrize("suffix", SIDE_FILES)
def test_damaged_side_files_change_no_answer(specimen: Specimen, suffix: str) -> None:
    damage_side_files(specimen, suffix, seeds(2, 50))


@pytest.mark.soak
@pytest.mark.parametrize("suffix", SIDE_FILES)
def test_side_files_damaged_a_thousand_times(specimen: Specimen, suffix: str) -> None:
    damage_side_files(specimen, suffix, range(10_000, 10_500))


def flip_bits(specimen: Specimen, rounds: range, *, look: Callable[[Specimen], None]) -> None:
    """Flip one bit of a segment at a time."""
    names = specimen.named(".log")
    weights = [len(specimen.files[name]) for name in names]
    for number in rounds:
        chance = random.Random(number)
        (name,) = chance.choices(names, weights)
        data = bytearray(specimen.files[name])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (specimen.path / name).write_bytes(data)
        try:
            look(specimen)
        except AssertionError as error:
            raise AssertionError(f"round {number} in {name}") from error
        specimen.restore()


def unchecked(path: Path) -> Specimen:
    """Killed, small, and to be scanned as a whole."""
    specimen = Specimen(path / "data", clean=False, batches=20)
    name = Path("recovery-point-offset-checkpoint")
    del specimen.files[name]
    (specimen.path / name).unlink()
    return specimen


def serves_only_what_was_written(specimen: Specimen) -> None:
    """After a scan: every batch has its checksum, its offset and its bytes."""
    data_dir = specimen.open()
    served = batches_in(data_dir.logs[KEY])
    assert served.keys() <= specimen.batches.keys()
    for base_offset, batch in served.items():
        expected = bytearray(specimen.batches[base_offset])
        expected[EPOCH] = batch[EPOCH]
        assert batch == expected
    aside = sum(p.stat().st_size for p in specimen.path.rglob("*.damaged"))
    lost = sum(map(len, specimen.batches.values())) - sum(map(len, served.values()))
    assert lost <= aside + max(map(len, specimen.batches.values()))
    data_dir.abandon()


def test_flipped_bits_are_never_served_after_a_scan(tmp_path: Path) -> None:
    flip_bits(unchecked(tmp_path), seeds(15, 200), look=serves_only_what_was_written)


@pytest.mark.soak
@pytest.mark.timeout(600)  # a minute of the processor, and more on a busy machine
def test_ten_thousand_flipped_bits(tmp_path: Path) -> None:
    flip_bits(unchecked(tmp_path), range(50_000, 60_000), look=serves_only_what_was_written)
