"""Damages to one file of a run, drawn at random: in its bytes, in its JSON, in a safetensors header, or in what it is.

A damage may be forged: the checksums over the file are then computed anew, as somebody would who means harm. What was
stored is then no longer known to the reader, who may only refuse it or use it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DEEP = 100_000  # brackets, one inside the other
_SPARSE = 1 << 40  # bytes of a file that has no content
_LENGTHS = (0, 1, 7, 2**20, 2**31, 2**62, 2**63, 2**64 - 1)
_ABSURD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, -0.5, 1e308, -1e308, 5e-324, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**30,
    10**400, "", "x", "NaN", "Infinity", "a\0b", "\ud800", "x" * 100_000, "../canary/kept.txt", "/etc/passwd",
    "canary_module:make", "rows-000001.safetensors", "../weights.safetensors", [], {}, [[]], [0], [-1, 2], [2**62, 4],
    [2**32, 2**32], [0] * 100_000, {"": 0}, "float64", "object", "S100000000000", "V1000000000000", "int8,int8",
)  # fmt: skip
_DTYPES = ("F64", "F32", "F16", "BF16", "F8_E4M3", "I64", "I8", "U8", "BOOL", "C64", "X", "")
_LITERALS = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"9" * 5000,
    b"[" * _DEEP,
    b'{"a":' * _DEEP,
    b"[" * 500 + b"]" * 500,
    b'{"a":' * 500 + b"0" + b"}" * 500,
    b"[" * _DEEP + b"]" * _DEEP,
    b'"\xff\xfe"',
    b'"\\ud800"',
    b"\0",
)


@dataclass(frozen=True)
class Canary:
    """What a damaged run may lead to: a file, a directory, and a name in it that nothing may be written to."""

    file: Path
    directory: Path
    new: Path


def damage(run: Path, name: str, rng: random.Random, canary: Canary) -> tuple[str, bool]:
    """Damages the file `name` of `run`; returns in words how, and whether checksums were forged."""
    path = run / name
    kinds: list[Callable[[], str]] = [lambda: _change_place(path, rng, canary)]
    kinds += [lambda: _change_bytes(path, rng)] * 3
    if name.endswith((".json", ".jsonl")):
        kinds += [lambda: _change_json(path, rng)] * 4
    if name.endswith(".safetensors"):
        kinds += [lambda: _change_header(path, rng)] * 3
    text = rng.choice(kinds)()
    is_forged = rng.random() < 0.4 and path.is_file() and not path.is_symlink() and _forge(run, path)
    return f"{text}{', forged' if is_forged else ''}", is_forged


def _change_place(path: Path, rng: random.Random, canary: Canary) -> str:
    """Puts something else in the file's place, or in the place of its directory."""
    if rng.random() < 0.2 and path.parent.name != "run":
        path = path.parent
    kind = rng.choice(
        [
            "missing",
            "directory",
            "pipe",
            "link",
            "zero",
            "nowhere",
            "loop",
            "hard link",
            "linked directory",
            "full",
        ]
    )
    content = canary.file.read_bytes() if path.is_dir() else path.read_bytes()
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    match kind:
        case "directory":
            path.mkdir()
        case "full":
            path.mkdir()
            (path / "notes.txt").write_bytes(content)
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(canary.file)
        case "zero":
            path.symlink_to("/dev/zero")
        case "nowhere":
            path.symlink_to(canary.new)
        case "loop":
            path.symlink_to(path.name)
        case "hard link":
            os.link(canary.file, path)
        case "linked directory":
            path.symlink_to(canary.directory)
    return f"{path.name} replaced: {kind}"


def _change_bytes(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice([1, 8, 100, 10_000]))
    kind = rng.choice(
        [
            "bits",
            "bits",
            "truncated",
            "removed",
            "twice",
            "inserted",
            "zeros",
            "empty",
            "random",
            "sparse",
            "appended",
        ]
    )
    match kind:
        case "bits":
            for _ in range(rng.choice([1, 1, 8])):
                if data:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "truncated":
            del data[begin:]
        case "removed":
            del data[begin:end]
        case "twice":
            data[begin:begin] = data[begin:end]
        case "inserted":
            data[begin:begin] = rng.choice(
                [b"\0", b"\xff\xfe", b"\xc3(", b"\n", rng.randbytes(50), *_LITERALS]
            )
        case "zeros":
            data[begin:end] = bytes(end - begin)
        case "empty":
            data.clear()
        case "random":
            data[:] = rng.randbytes(len(data))
        case "appended":
            data += rng.choice(
                [rng.randbytes(50), bytes(4096), bytes(data), b"\n{}\n", b"\n[]\n0\n", *_LITERALS]
            )
    path.write_bytes(data)
    if kind == "sparse":
        os.truncate(path, _SPARSE)
    return f"bytes {kind} at {begin}"


def _change_json(path: Path, rng: random.Random) -> str:
    """Changes one value of a JSON file, or of one line of a file of JSON lines."""
    lines = [path.read_bytes()]
    if path.suffix == ".jsonl":
        lines = lines[0].splitlines()
    number = rng.randrange(len(lines))
    if rng.random() < 0.15:
        lines[number] = rng.choice(_LITERALS)
        text = "replaced"
    else:
        lines[number], text = _changed(json.loads(lines[number]), rng)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"value {number}: {text}"


def _changed(value: Any, rng: random.Random) -> tuple[bytes, str]:
    """Returns JSON text with one or several changes at random places of `value`."""
    texts = []
    literal = None
    for _ in range(rng.choice([1, 1, 1, 3])):
        places = list(_places(value))
        if not places:
            break
        holder, key = rng.choice(places)
        kind = rng.choice(["absurd", "absurd", "absurd", "literal", "gone", "renamed", "swapped"])
        texts.append(f"{key} {kind}")
        match kind:
            case "absurd":
                holder[key] = rng.choice(_ABSURD)
                texts[-1] += f" {repr(holder[key])[:40]}"
            case "literal":
                literal = rng.choice(_LITERALS)
                holder[key] = "literal-here"
                texts[-1] += f" {literal[:20]!r}"
            case "gone":
                del holder[key]
            case "renamed" if isinstance(holder, dict):
                holder[rng.choice(["", "../x", "x" * 1000, "a\0b", "step", "__class__"])] = holder.pop(key)
            case _:
                other, its = rng.choice(places)
                if holder is not other or key != its:
                    holder[key], other[its] = (
                        json.loads(_dumped(other[its])),
                        json.loads(_dumped(holder[key])),
                    )
    text = _dumped(value)
    if literal is not None:
        text = text.replace(b'"literal-here"', literal)
    return text, ", ".join(texts)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    """Yields every (container, key or index) inside `value`."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change_header(path: Path, rng: random.Random) -> str:
    """Changes the header of a safetensors file, or only the length that it states."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if rng.random() < 0.25:
        stated = rng.choice([*_LENGTHS, length - 1, length + 1, len(data), 2 * len(data)])
        path.write_bytes(stated.to_bytes(8, "little") + data[8:])
        return f"header length {stated}"
    header = json.loads(data[8 : 8 + length])
    entry = header[rng.choice([name for name in header if name != "__metadata__"])]
    kind = rng.choice(["shape", "dtype", "offsets", "json"])
    text, what = b"", kind
    match kind:
        case "shape":
            entry["shape"] = rng.choice(
                [[2**62, 4], [2**32, 2**32], [-1], [0], [2**62], [1e308], [1] * 100, [2**31, 0]]
            )
        case "dtype":
            entry["dtype"] = rng.choice(_DTYPES)
        case "offsets":
            entry["data_offsets"] = rng.choice(
                [[0, 2**62], [-8, 8], [8, 0], [0], [2**63, 2**64], ["0", "8"], [0, 0]]
            )
        case "json":
            text, what = _changed(header, rng)
    text = text or _dumped(header)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return f"header {what} {entry if kind != 'json' else ''}"[:200]


def _forge(run: Path, path: Path) -> bool:
    """Computes the checksums over the changed file anew; False where there are none, or they cannot be."""
    try:
        if os.path.getsize(path) > 1 << 30:
            return False
        if path.name == "manifest.json":
            return _sign(path, json.loads(path.read_bytes()))
        if path.name == "starts.safetensors":
            return _sign_starts(path)
        if path.suffix != ".safetensors":
            return False
        digest, size = hashlib.sha256(path.read_bytes()).hexdigest(), os.path.getsize(path)
        if path.name == "model.safetensors":
            return _forge_export(path.with_name("config.json"), digest, size)
        if (manifest := path.with_name("manifest.json")).is_file():
            values = json.loads(manifest.read_bytes())
            values["files"][path.name] = {"sha256": digest, "size": size}
            return _sign(manifest, values)
        for one in run.glob("checkpoints/*/manifest.json"):
            _forge_segment(one, path, digest, size)
        return True
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _forge_export(config: Path, digest: str, size: int) -> bool:
    values = json.loads(config.read_bytes())
    config.write_text(json.dumps(values | {"weights": {"sha256": digest, "size": size}}))
    return True


def _forge_segment(manifest: Path, path: Path, digest: str, size: int) -> None:
    data, values = path.read_bytes(), json.loads(manifest.read_bytes())
    header = hashlib.sha256(data[: 8 + min(int.from_bytes(data[:8], "little"), size)]).hexdigest()
    for segment in values["meta"]["segments"][path.parent.name]:
        if segment["file"] == path.name:
            segment |= {"sha256": digest, "size": size, "header": header}
    _sign(manifest, values)


def _sign(manifest: Path, values: dict[str, Any]) -> bool:
    values.pop("sha256", None)
    checksum = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    manifest.write_text(json.dumps({**values, "sha256": checksum}))
    return True


def _sign_starts(path: Path) -> bool:
    """Signs starts whose arrays the safetensors library can still read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    data = path.read_bytes()
    try:
        arrays = load(data)
    except SafetensorError:
        return False
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    manifest = json.loads(header["__metadata__"]["veldt-starts"])
    manifest.pop("sha256", None)
    manifest = json.loads(_changed(manifest, random.Random(sum(data)))[0])
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    signed = json.dumps({**manifest, "sha256": digest.hexdigest()})
    path.write_bytes(save(arrays, metadata={"veldt-starts": signed}))
    return True
