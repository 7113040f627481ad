"""Wheels as small as can be, with the checksums that a package would know of them."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from noisymean.targets.wheels import pins


def wheel_of(title: str, files: Mapping[str, str | bytes], unlisted: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a wheel, with its own true list of checksums; `unlisted` is in it and not on the list."""
    name, _, version = title.partition("==")
    about = f"{name}-{version}.dist-info"
    content = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    content[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    content[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    listed = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items()]
    content[f"{about}/RECORD"] = "".join([*listed, f"{about}/RECORD,,\n"]).encode()
    content |= {path: text.encode() for path, text in (unlisted or {}).items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def file_of(title: str) -> str:
    name, _, version = title.partition("==")
    return f"{name}-{version}-py3-none-any.whl"


def know(
    monkeypatch: pytest.MonkeyPatch,
    wheels: Mapping[str, bytes],
    environments: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Have the package know these wheels, by NAME==VERSION, and no others."""
    known = {title: {file_of(title): hashlib.sha256(content).hexdigest()} for title, content in wheels.items()}
    monkeypatch.setattr(pins, "_pinned", lambda: {"wheels": known, "environments": environments or {}})


class Pip:
    """Stands for pip: it downloads what it was given, whatever that is."""

    def __init__(
        self, wheels: Mapping[str, bytes], answer: str | None = None, fault: BaseException | None = None
    ) -> None:
        self.wheels, self.answer, self.fault = wheels, answer, fault
        self.asked: list[tuple[str, ...]] = []
        self.required: list[str] = []

    def __call__(self, what: str, packages: Sequence[str], *options: str, alone: bool = True) -> str | None:
        assert (what, packages, alone, options[0]) == ("download", [], True, "--require-hashes")
        self.asked.append(options)
        self.required += Path(options[options.index("--requirement") + 1]).read_text().splitlines()
        into = Path(options[options.index("--dest") + 1])
        for title, content in self.wheels.items():
            (into / file_of(title)).write_bytes(content if self.fault is None else content[: len(content) // 2])
        if self.fault is not None:
            raise self.fault
        return self.answer
