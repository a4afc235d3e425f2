"""`odradek log repair`: dry run, what it does, and that nothing intact is lost."""

import json
import random
import shutil
from pathlib import Path

import pytest

from odradek.protocol.records.batch import HEADER, LENGTH_MIN, crc32c
from odradek.storage.inspect.repair import topic_ids
from tests.seeds import seeds

from .log_files import CONFIG, UnsyncedFileSystem, flip, make_directory, opened, run

Batches = set[tuple[str, bytes]]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_directory(tmp_path_factory.mktemp("pristine") / "data")


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here."""
    monkeypatch.setattr("odradek.cli.log_repair.RealFileSystem", UnsyncedFileSystem)


@pytest.fixture
def directory(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "data"))


def intact(directory: Path) -> Batches:
    """Every batch with a right checksum, looked for at every byte; leader epochs left out."""
    found = set()
    for path in directory.glob("*/*.log"):
        data = path.read_bytes()
        for at in range(len(data) - HEADER.size + 1):
            if data[at + 16] == 2:
                length, crc = HEADER.unpack_from(data, at)[1:5:3]
                end = at + 12 + length
                if length >= LENGTH_MIN and end <= len(data) and crc32c(data[at + 21 : end]) == crc:
                    batch = data[at : at + 12] + data[at + 16 : end]
                    found.add((path.parent.name, batch))
    return found


def repaired(directory: Path) -> list[str]:
    """Repair, and see that it holds: sound, and nothing more to do."""
    done = run("repair", directory, "--apply")
    assert done.exit_code == 0, done.output
    verified = run("verify", directory, "--deep")
    assert verified.exit_code == 0, verified.output
    assert run("repair", directory, "--apply").output == "nothing to repair\n"
    return done.output.splitlines()


def test_nothing_to_do(directory: Path) -> None:
    for arguments in ([], ["--apply"]):
        done = run("repair", directory, *arguments)
        assert (done.exit_code, done.output) == (0, "nothing to repair\n")


def test_dry_run_first(directory: Path) -> None:
    path = directory / "t-0" / f"{0:020d}.log"
    flip(path, 100)
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    done = run("repair", directory)
    assert done.exit_code == 1
    assert f"would: {path}: save " in done.output
    assert "steps; nothing was changed, do it with --apply" in done.output
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_json_lines(directory: Path) -> None:
    path = directory / "t-0" / "partition.metadata"
    path.write_bytes(b"torn")
    step, summary = map(json.loads, run("repair", directory, "--json").output.splitlines())
    assert (step["type"], step["file"], step["applied"]) == ("step", str(path), False)
    assert summary == {
        "type": "summary",
        "directory": str(directory),
        "state": "damaged",
        "steps": 1,
        "applied": False,
    }


def test_batches_behind_damage_become_a_segment(directory: Path) -> None:
    path = directory / "t-0" / f"{0:020d}.log"
    kept = intact(directory)
    shown = [json.loads(line) for line in run("dump", path).output.splitlines()]
    bad = shown[4]
    cut = path.read_bytes()[bad["position"] : bad["position"] + bad["size_bytes"]]
    flip(path, bad["position"] + 70)
    said = repaired(directory)
    end = bad["last_offset"] + 1
    saved = path.with_name(f"{bad['base_offset']:020d}-{end:020d}.damaged")
    assert (
        f"save {len(cut)} bytes at {bad['position']} that are no batch in {saved.name}" in said[0]
    )
    assert len(saved.read_bytes()) == len(cut)
    assert path.stat().st_size == bad["position"]
    assert path.with_name(f"{end:020d}.log").exists()
    assert len(kept - intact(directory)) == 1
    data_dir = opened(directory)
    log = data_dir.logs["t", 0]
    assert data_dir.was_clean and log.log_end_offset == 60
    data_dir.close()
    assert run("verify", directory).exit_code == 0


def test_side_files_are_made_anew(directory: Path) -> None:
    """They are what they were, since nothing was wrong with the batches."""
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    for suffix in (".txnindex", ".snapshot"):
        for path in directory.rglob(f"*{suffix}"):
            flip(path, 12)
    (directory / "t-0" / "leader-epoch-checkpoint").write_bytes(b"torn")
    (directory / "t-1" / "partition.metadata").write_bytes(b"torn")
    repaired(directory)
    assert {p: p.read_bytes() for p in before} == before


def test_indexes_are_made_anew(directory: Path) -> None:
    for path in directory.rglob("*index"):
        if path.suffix in (".index", ".timeindex"):
            path.write_bytes(b"\1" * 24)
    repaired(directory)
    shown = run("dump", directory).output
    assert "time_index_entry" in shown


def test_checkpoints_are_brought_back_to_the_end(directory: Path) -> None:
    name = "recovery-point-offset-checkpoint"
    (directory / "replication-offset-checkpoint").write_bytes(b"0\n2\nt 0 99\nt 1 60\n")
    (directory / name).write_bytes(b"broken")
    repaired(directory)
    assert (directory / "replication-offset-checkpoint").read_bytes() == b"0\n2\nt 0 60\nt 1 60\n"
    assert (directory / name).read_bytes() == b"0\n2\nt 0 60\nt 1 60\n"
    assert (directory / f"{name}.damaged").read_bytes() == b"broken"


def test_a_base_offset_is_corrected(directory: Path) -> None:
    path = directory / "t-0" / f"{0:020d}.log"
    kept, data = intact(directory), path.read_bytes()
    shown = [json.loads(line) for line in run("dump", path).output.splitlines()]
    flip(path, shown[3]["position"] + 5)
    flip(path, shown[6]["position"] + 14)
    said = repaired(directory)
    assert f"write base offset {shown[3]['base_offset']} into the batch" in said[0]
    assert "write leader epoch 0 into the batch" in said[0]
    assert path.read_bytes() == data and intact(directory) == kept


@pytest.mark.parametrize("position", [1, 6, 7])
def test_the_base_offset_of_the_last_batch(directory: Path, position: int) -> None:
    """After a clean stop the recovery point tells where the log ends."""
    path = max((directory / "t-0").glob("*.log"))
    data = path.read_bytes()
    last = [json.loads(line) for line in run("dump", path).output.splitlines()][-1]
    flip(path, last["position"] + position, bit=2)
    repaired(directory)
    assert path.read_bytes() == data


def test_the_base_offset_of_the_first_batch(directory: Path) -> None:
    path = sorted((directory / "t-0").glob("*.log"))[1]
    data = path.read_bytes()
    flip(path, 7, bit=6)
    repaired(directory)
    assert path.read_bytes() == data


def test_what_was_saved_before_stays(directory: Path) -> None:
    """Bytes in the place of the same offsets get the next number."""
    path = directory / "t-0" / f"{0:020d}.log"
    saved = path.with_name(f"{0:020d}-{3:020d}.damaged")
    saved.write_bytes(b"first")
    saved.with_suffix(".2.damaged").write_bytes(b"second")
    flip(path, 100)
    size_bytes = json.loads(run("dump", path).output.splitlines()[0])["size_bytes"]
    data = path.read_bytes()[:size_bytes]
    repaired(directory)
    names = (saved, saved.with_suffix(".2.damaged"), saved.with_suffix(".3.damaged"))
    assert [name.read_bytes() for name in names] == [b"first", b"second", data]


def test_the_topic_id_is_found_beside_what_is_no_partition(directory: Path) -> None:
    names = ["lost+found", "t-0"]
    assert topic_ids(UnsyncedFileSystem(), str(directory), names) == {"t": bytes(range(16))}


def test_a_lost_segment_is_noted(directory: Path) -> None:
    bases = sorted(int(path.stem) for path in (directory / "t-0").glob("*.log"))
    for path in (directory / "t-0").glob(f"{bases[1]:020d}.*"):
        path.unlink()
    said = repaired(directory)
    assert f"note in an empty file that the offsets {bases[1]}..{bases[2] - 1} are lost" in said[0]


def test_what_cannot_be_repaired_is_told(directory: Path) -> None:
    (directory / "meta.properties").write_text("version=9\n")
    done = run("repair", directory, "--apply")
    assert done.exit_code == 1
    assert "damage was found that cannot be repaired" in done.output


def test_one_partition(directory: Path) -> None:
    flip(directory / "t-0" / f"{0:020d}.log", 100)
    flip(directory / "t-1" / f"{0:020d}.log", 100)
    assert run("repair", directory / "t-0", "--apply").exit_code == 0
    assert run("verify", directory / "t-0").exit_code == 0
    assert run("verify", directory).exit_code == 1


def damage(directory: Path, rng: random.Random) -> None:
    """A few faults in the files of partitions and the checkpoints."""
    paths = sorted(p for p in directory.rglob("*") if p.is_file() and p.stat().st_size > 8)
    paths = [p for p in paths if p.name not in ("meta.properties", ".kafka_cleanshutdown")]
    logs = [p for p in paths if p.suffix == ".log"]
    for _ in range(rng.choice([1, 1, 2, 4])):
        path = rng.choice(logs if rng.random() < 0.6 else paths)
        data = bytearray(path.read_bytes())
        at = rng.randrange(max(1, len(data)))
        match rng.choice(["flip", "flip", "zero", "cut", "insert", "delete"]):
            case "flip" if data:
                data[at] ^= 1 << rng.randrange(8)
            case "zero":
                data[at : at + 100] = bytes(len(data[at : at + 100]))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = rng.randbytes(rng.randrange(1, 100))
            case "delete":
                del data[at : at + rng.randrange(1, 100)]
        path.write_bytes(data)


def damaged_and_repaired(pristine: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory = Path(shutil.copytree(pristine, tmp_path / str(seed)))
    if rng.random() < 0.3:
        (directory / ".kafka_cleanshutdown").unlink()
    before = intact(directory)
    damage(directory, rng)
    left = intact(directory)
    repaired(directory)
    # A batch that damage only seems to have made (a garbled base offset) is no batch of ours.
    assert before & left <= intact(directory), f"seed {seed}"
    shutil.rmtree(directory)


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_random_damage(pristine: Path, tmp_path: Path, seed: int) -> None:
    damaged_and_repaired(pristine, tmp_path, seed)


@pytest.mark.soak
def test_much_random_damage(pristine: Path, tmp_path: Path) -> None:
    for seed in range(100, 3100):
        damaged_and_repaired(pristine, tmp_path, seed)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_every_flipped_bit_of_a_batch_is_found(pristine: Path, tmp_path: Path, seed: int) -> None:
    """Of a directory that was stopped cleanly: also in base offset and leader epoch, which no
    checksum covers."""
    directory = Path(shutil.copytree(pristine, tmp_path / "data"))
    rng = random.Random(seed)
    for _ in range(25):
        path = rng.choice(sorted(directory.glob("*/*.log")))
        data = path.read_bytes()
        at, bit = rng.randrange(len(data)), rng.randrange(8)
        flip(path, at, bit)
        assert run("verify", path.parent).exit_code == 1, (path, at, bit)
        path.write_bytes(data)


def test_segments_stay_small(pristine: Path) -> None:
    """The tests above are about several segments."""
    assert len(list(pristine.glob("t-0/*.log"))) >= 3 and CONFIG.segment_bytes < 2000
