"""What is cut out of a log is kept beside it, byte for byte, and safe before it is cut."""

from pathlib import Path

from odradek.storage.recovery.aside import set_aside_tail

from ..log.test_flush import PowerCutFiles


def test_what_is_set_aside_survives_a_power_cut(tmp_path: Path) -> None:
    root, left = tmp_path / "data", tmp_path / "left"
    root.mkdir()
    (root / "0.log").write_bytes(b"a log")
    files = PowerCutFiles()
    file = files.open_log(str(root / "0.log"), 5)
    assert set_aside_tail(files, file, 2, "a test") == 3
    file.close()
    files.cut_power(root, left)
    assert (left / "0.log.2.damaged").read_bytes() == b"log"
