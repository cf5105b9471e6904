"""A video is an H.264 file of even size that plays; what cannot be a video is refused and leaves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from veldt.errors import UsageError, VeldtError
from veldt.evaluation.video_file import write_video

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


def frames(count: int, height: int, width: int) -> Iterator[np.ndarray]:
    for index in range(count):
        frame = np.zeros((height, width, 3), np.uint8)
        frame[:, : 1 + index * width // count] = (200, 80, 40)
        yield frame


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(210, 160, (320, 420)), (401, 33, (34, 402)), (84, 84, (420, 420)), (600, 400, (400, 600))],
)
def test_the_video_plays_enlarged_and_even(
    tmp_path: Path, height: int, width: int, expected: tuple[int, int]
) -> None:
    path = write_video(frames(6, height, width), tmp_path / "videos" / "episode.mp4", fps=15)
    reader = imageio_ffmpeg.read_frames(path)
    information = next(reader)
    images = list(reader)
    assert (information["codec"], information["pix_fmt"].split("(")[0]) == ("h264", "yuv420p")
    assert (information["size"], information["fps"], len(images)) == (expected, 15.0, 6)
    last = np.frombuffer(images[-1], np.uint8).reshape(expected[1], expected[0], 3)
    np.testing.assert_allclose(last[expected[1] // 2, expected[0] // 2], (200, 80, 40), atol=12)
    assert [file.name for file in path.parent.iterdir()] == ["episode.mp4"]


@pytest.mark.parametrize(
    ("name", "codec", "begin"),
    [
        ("a.mkv", "h264", b"\x1aE\xdf\xa3"),
        ("a.mov", "h264", b"\0\0\0\x14ftypqt"),
        ("a.GIF", "gif", b"GIF89a"),
    ],
)
def test_the_ending_of_the_name_decides_the_format(
    tmp_path: Path, name: str, codec: str, begin: bytes
) -> None:
    path = write_video(frames(6, 210, 160), tmp_path / name, fps=15)
    assert path.read_bytes().startswith(begin)
    reader = imageio_ffmpeg.read_frames(path)
    information = next(reader)
    images = list(reader)
    assert (information["codec"].strip(","), information["size"], len(images)) == (codec, (320, 420), 6)
    last = np.frombuffer(images[-1], np.uint8).reshape(420, 320, 3)
    np.testing.assert_allclose(last[210, 160], (200, 80, 40), atol=12)


@pytest.mark.parametrize("name", ["episode.txt", "episode", "episode.mp4.zip"])
def test_a_name_that_is_no_video_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        UsageError, match=rf"{name} cannot be a video: .*\.mp4, \.mov, \.mkv or \.gif, as episode"
    ):
        write_video(frames(1, 4, 4), tmp_path / name, fps=30)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "videos.mp4").mkdir()
    with pytest.raises(UsageError, match="it is a directory"):
        write_video(frames(1, 4, 4), tmp_path / "videos.mp4", fps=30)


@pytest.mark.parametrize(
    "bad",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((8, 4, 3), np.uint8)],
    ids=["grey", "float", "size"],
)
def test_a_frame_that_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path, bad: np.ndarray) -> None:
    with pytest.raises(UsageError, match="a video frame must be uint8"):
        write_video([np.zeros((4, 4, 3), np.uint8), bad], tmp_path / "episode.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []


def test_no_frames_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no frame"):
        write_video([], tmp_path / "episode.mp4", fps=30)


def test_a_failure_while_playing_is_passed_on_and_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[np.ndarray]:
        yield np.zeros((4, 4, 3), np.uint8)
        raise RuntimeError("the episode broke")

    with pytest.raises(RuntimeError, match="the episode broke"):
        write_video(broken(), tmp_path / "episode.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UsageError, match=r"pip install 'veldt\[video\]'"):
        write_video(frames(1, 4, 4), tmp_path / "episode.mp4", fps=30)


@pytest.mark.parametrize("small_disk", ["mounted"], indirect=True)
def test_a_full_disk_is_an_error_not_a_broken_video(
    small_disk: Callable[[int], AbstractContextManager[Path]],
) -> None:
    noise = np.random.default_rng(0)
    with small_disk(65536) as place:
        with pytest.raises(VeldtError, match=r"episode\.mp4 .*free.*No space left"):
            write_video(
                (noise.integers(0, 256, (200, 200, 3), np.uint8) for _ in range(20)),
                place / "episode.mp4",
                fps=30,
            )
        assert list(place.iterdir()) == []
