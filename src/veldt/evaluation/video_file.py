"""Writes frames to a video for all browsers and players (H.264, 4:2:0, even sizes, index at the front), or to a GIF."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from veldt.errors import UsageError, VeldtError
from veldt.runs.files import explained, free_space, refuse_missing_directory
from veldt.runs.own_files import open_new, refuse_other, remove_file

# Atari's 210 x 160 pixels are very small on today's screens.
_WANTED_HEIGHT = 400
_FINISH_SECONDS = 600

_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"
_H264 = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18")
# By file extension: the filter after scaling, and the encoder's arguments.
_FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    ".mp4": (_EVEN, (*_H264, "-movflags", "+faststart")),
    ".mov": (_EVEN, (*_H264, "-movflags", "+faststart")),
    ".mkv": (_EVEN, _H264),
    # A palette per frame: one palette for all frames would keep the whole episode in RAM.
    ".gif": (
        "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=none",
        ("-c:v", "gif"),
    ),
}


def check_new_video(path: Path) -> None:
    """Raises UsageError if no new video can be written to `path`; called before anything is played."""
    check_video_path(path)
    if os.path.lexists(path):
        raise UsageError(f"--out {path} exists already: name another file, or remove it")
    refuse_missing_directory(path)


def check_video_path(path: Path) -> None:
    """Raises UsageError if the file extension is not that of a supported video format."""
    if path.suffix.lower() not in _FORMATS:
        *most, last = _FORMATS
        raise UsageError(
            f"{path} cannot be a video: its name must end in {', '.join(most)} or {last}, as {path.stem}.mp4 does"
        )
    if path.is_dir():
        raise UsageError(f"{path} cannot be a video: it is a directory; give the name of a file")
    refuse_other(path)


def write_video(frames: Iterable[np.ndarray], path: Path, fps: float) -> Path:
    """Encodes `frames`, uint8 [height, width, 3] each and all of one size, to `path`, in the format given by its
    extension (.mp4, .mov, .mkv or .gif); returns `path`. An existing file is replaced.

    Small frames are enlarged by an integer factor without smoothing, to a height of about 400 pixels. Raises UsageError
    if the video extra is not installed, the extension is another, `path` is a link or there is no frame; VeldtError if
    the encoder fails or the file cannot be written (no file is left).
    """
    path = Path(path)
    check_video_path(path)
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise UsageError("videos need the package imageio-ffmpeg: pip install 'veldt[video]'") from error
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise UsageError(f"there is no frame to write to {path}")
    _check(first, first)
    height, width = first.shape[:2]
    factor = max(1, round(_WANTED_HEIGHT / height))
    after, encoder = _FORMATS[path.suffix.lower()]
    command = [
        get_ffmpeg_exe(), "-y", "-v", "error",
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-",
        # The encoder scales, so that the pipe transfers small frames.
        "-vf", f"scale={width * factor}:{height * factor}:flags=neighbor,{after}", *encoder,
    ]  # fmt: skip
    with explained("the video", path, "record it again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
        os.close(open_new(partial))  # the encoder would follow a link
        try:
            # An absolute path, which is never taken for an option (-x/...) or a protocol (a:b/...).
            _encode([*command, str(partial.absolute())], itertools.chain([first], iterator), first, path)
            partial.replace(path)
        finally:
            remove_file(partial)
    return path


def _encode(command: list[str], frames: Iterable[np.ndarray], first: np.ndarray, path: Path) -> None:
    # Messages go to a file: a pipe without a reader could fill up and block the encoder.
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=messages)
        assert process.stdin is not None
        try:
            try:
                for frame in frames:
                    _check(frame, first)
                    process.stdin.write(np.ascontiguousarray(frame).data)
                process.stdin.close()
            except BrokenPipeError:
                if process.wait(_FINISH_SECONDS) == 0:
                    raise  # the encoder is fine: the broken pipe is in the iterator of frames
            code = process.wait(_FINISH_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code != 0:
            messages.seek(0)
            lines = messages.read().decode(errors="replace").strip().splitlines()
            reason = lines[0] if lines else f"it ended with exit code {code}"
            raise VeldtError(
                f"cannot encode the video {path} ({free_space(path)} free on its disk): {reason}"
            )


def _check(frame: np.ndarray, first: np.ndarray) -> None:
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.shape != first.shape:
        raise UsageError(
            f"a video frame must be uint8 [height, width, 3] and as large as the first, {first.dtype} "
            f"{list(first.shape)}; got {frame.dtype} {list(frame.shape)}"
        )
