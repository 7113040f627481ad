"""Every release of Opacus that runs, against the denominators of the notes; both modes; faults in one line.

`make test` runs three releases, `make test-all` all 26; each is installed from the package index unless it is in the cache, and
skipped with the reason where neither can be.
"""

from __future__ import annotations

import io
import math
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'noisymean[audit]'")

from noisymean.errors import InvalidInput
from noisymean.paper.photographs import Network
from noisymean.targets import device
from noisymean.targets.opacus_releases import install
from noisymean.targets.opacus_releases.client import Session, WorkerFault
from noisymean.targets.opacus_releases.releases import VERSIONS, Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.setup import AtRate, Configured, Mode, Reduction, Setup, Shuffled, ThroughLoader
from noisymean.targets.opacus_releases.sources import Rows, Structured
from noisymean.targets.processes import wire
from noisymean.targets.protocol import Neighbour

FIXTURES = Path(__file__).parents[1] / "fixtures"
EVERY_TIME = ("0.13.0", "0.15.0", "1.6.0")
RELEASES = [version if version in EVERY_TIME else pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS]

N, RATE = 7, Fraction(7, 10)
SIZES = {Neighbour.SMALLER: N, Neighbour.LARGER: N + 1}


def session(version: str, records: list[np.ndarray], **settings: object) -> Session:
    """A session of that release; skipped with the reason where it cannot be had."""
    try:
        if not install.is_installed(Release(version)):
            install.installed(Release(version))
    except install.InstallFailed as fault:
        pytest.skip(str(fault))
    names = {one.name for one in fields(Configured)}
    options = {name: settings.pop(name) for name in names if name in settings}
    defaults = {
        "release": Configured(version=version, **options),  # type: ignore[arg-type]
        "dataset_size": N,
        "source": Rows(N + 1),
        "sampling": AtRate(RATE),
        "noise_multiplier": 0.0,
        "max_grad_norm": 10.0,
    }
    return Session(Setup(**{**defaults, **settings}), records)  # type: ignore[arg-type]


def unit_vectors() -> list[np.ndarray]:
    return [np.eye(N + 1, dtype=np.float32)]


def expected_denominator(version: str, size: int, batch: int, poisson: bool = True) -> float:
    """The table of docs/implementations.md, written out again: |B|, N q, or the floor of N q."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if major >= 1:
        return math.floor(size * RATE)
    if minor >= 14 and poisson:
        return float(size * RATE)
    return batch


def check_denominators(rows: np.ndarray, version: str, size: int, poisson: bool = True) -> None:
    """Without noise and clipping, record i of the batch shows 1/denominator in coordinate i."""
    assert rows.shape[1] == N + 1
    assert not rows[:, size:].any()
    sizes = (rows > 0).sum(1)
    for row, batch in zip(rows, sizes, strict=True):
        if batch:
            np.testing.assert_allclose(
                row[row > 0], 1 / expected_denominator(version, size, int(batch), poisson), rtol=1e-6
            )
    # Poisson sampling at the rate: five standard errors
    assert abs(sizes.mean() - size * float(RATE)) < 5 * math.sqrt(size * 0.21 / len(rows))
    assert len(set(sizes.tolist())) > 3


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("version", RELEASES)
def test_denominators(version: str, mode: Mode) -> None:
    runs = session(version, unit_vectors(), mode=mode)
    for neighbour, size in SIZES.items():
        check_denominators(runs.release(neighbour, 1, 300), version, size)


@pytest.mark.parametrize("version", ["0.15.0", pytest.param("0.14.0", marks=pytest.mark.slow)])
def test_without_its_poisson_flag_it_divides_by_the_batch(version: str) -> None:
    runs = session(version, unit_vectors(), poisson=False)
    check_denominators(runs.release(Neighbour.LARGER, 1, 300), version, N + 1, poisson=False)


@pytest.mark.parametrize("version", RELEASES)
def test_sum_divides_by_nothing(version: str) -> None:
    """But for 0.9.0 and 0.9.1, which divide the gradients by |B| and the noise by nothing."""
    rows = session(version, unit_vectors(), reduction=Reduction.SUM).release(Neighbour.LARGER, 1, 100)
    for row in rows:
        batch = int((row > 0).sum())
        np.testing.assert_allclose(row[row > 0], 1 / batch if version in ("0.9.0", "0.9.1") else 1.0, rtol=1e-6)


@pytest.mark.parametrize("version", RELEASES)
def test_noise_has_the_scale_of_the_bound_over_the_denominator(version: str) -> None:
    """Zero gradients, sigma = 2, C = 3: what is left is N(0, (6/denominator)^2), and noise comes with empty batches too."""
    runs = session(
        version, [], source=Structured(4000, 0.0, 0.0), noise_multiplier=2.0, max_grad_norm=3.0, dataset_size=2,
        sampling=AtRate(Fraction(1, 2)),
    )  # fmt: skip
    rows = runs.release(Neighbour.LARGER, 5, 60)
    era = Release(version).era
    found = 6.0 / rows.std(1)
    possible = {Era.MAKE_PRIVATE: [1.0], Era.POISSON_FLAG: [1.5]}.get(era, [1.0, 2.0, 3.0])
    nearest = np.array(possible)[np.abs(found[:, None] - np.array(possible)).argmin(1)]
    # 4000 numbers give their scale to 1.1 %; six of those
    np.testing.assert_allclose(found, nearest, rtol=0.067)
    assert set(nearest.tolist()) == set(possible)


@pytest.mark.parametrize("version", RELEASES)
def test_clipping_and_reproducibility(version: str) -> None:
    """Rows of norm 1 and 1/8 at C = 1/2: scaled by C/(norm + 1e-6), and untouched. A seed gives its bits again."""
    rows = np.eye(N + 1, dtype=np.float32)
    rows[::2] /= 8
    runs = session(version, [rows], max_grad_norm=0.5, reduction=Reduction.SUM)
    first, again, other = (runs.release(Neighbour.LARGER, seed, 50) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    if version not in ("0.9.0", "0.9.1"):
        expected = np.where(np.arange(N + 1) % 2, 0.5 / (1 + 1e-6), 0.125)
        np.testing.assert_allclose(first, np.where(first > 0, expected, 0.0), rtol=1e-6)


def images(count: int) -> list[np.ndarray]:
    with np.load(FIXTURES / "mnist.npz", allow_pickle=False) as file:
        return [file["pixels"][:count], file["labels"][:count]]


@pytest.mark.parametrize("version", RELEASES)
def test_replay_and_full_agree_number_by_number(version: str) -> None:
    """From the same seed both modes draw the same batches and the same noise: only rounding is left between them."""
    settings = {"source": Network("cnn-grey"), "dataset_size": 4, "noise_multiplier": 0.01, "max_grad_norm": 0.1}
    replay, full = (session(version, images(5), mode=mode, **settings) for mode in Mode)
    for neighbour in Neighbour:
        left, right = (runs.release(neighbour, 7, 10) for runs in (replay, full))
        # noise of 1e-3 a coordinate; the largest part of a clipped gradient is a hundred times the tolerance
        np.testing.assert_allclose(left, right, atol=2e-6)
        assert left.std() > 1e-4


OPTIONS = [
    ("1.6.0", {"grad_sample": GradSample.FUNCTORCH}),
    ("1.6.0", {"grad_sample": GradSample.GHOST}),
    ("1.6.0", {"clipping": Clipping.PER_LAYER}),
    pytest.param("1.6.0", {"grad_sample": GradSample.EXPANDED_WEIGHTS}, marks=pytest.mark.slow),
    pytest.param("1.5.4", {"grad_sample": GradSample.GHOST}, marks=pytest.mark.slow),
    pytest.param("1.2.0", {"grad_sample": GradSample.FUNCTORCH}, marks=pytest.mark.slow),
    ("0.15.0", {"clipping": Clipping.PER_LAYER}),
]


@pytest.mark.parametrize(("version", "options"), OPTIONS)
def test_options_release_the_clipped_gradients_over_the_same_denominator(
    version: str, options: dict[str, object]
) -> None:
    """Almost no noise: every release is a batch's sum of the clipped gradients over the denominator."""
    runs = session(
        version, images(5), source=Network("cnn-grey"), dataset_size=4, noise_multiplier=1e-4, max_grad_norm=0.1,
        mode=Mode.FULL, **options,
    )  # fmt: skip
    gradients = runs.gradients(5)
    assert (np.linalg.norm(gradients, axis=1) <= 0.1 + 1e-7).all()
    rows = runs.release(Neighbour.LARGER, 2, 12)
    members = np.linalg.lstsq(gradients.T, rows.T, rcond=None)[0].T * (3.0 if version.startswith("1.") else 3.5)
    np.testing.assert_allclose(members, np.round(members), atol=5e-3)
    assert set(np.round(members).ravel().tolist()) == {0.0, 1.0}


def test_adaptive_clipping_adds_its_inflated_noise() -> None:
    """(sigma^-2 - (2 sigma_u)^-2)^(-1/2) with sigma = 8, sigma_u = 5 (Andrew et al. 2021), over floor(2 * 1/2)."""
    from noisymean.targets.opacus_releases.setup import Adaptive

    runs = session(
        "1.6.0", [], source=Structured(4000, 0.0, 0.0), noise_multiplier=8.0, max_grad_norm=1.0, dataset_size=2,
        sampling=AtRate(Fraction(1, 2)), clipping=Clipping.ADAPTIVE, adaptive=Adaptive(unclipped_num_std=5.0),
    )  # fmt: skip
    expected = (8.0**-2 - 10.0**-2) ** -0.5
    np.testing.assert_allclose(runs.release(Neighbour.SMALLER, 1, 20).std(1), expected, rtol=0.067)


def test_through_make_private_rate_and_denominator_follow_the_loader() -> None:
    """N = 10, b = 5: L = 2, q = 1/2, 5. One more record: L = 3, q = 1/3, int(11/3) = 3."""
    runs = session("1.6.0", [np.eye(11, dtype=np.float32)], source=Rows(11), dataset_size=10, sampling=ThroughLoader(5))
    for neighbour, size, rate, denominator in ((Neighbour.SMALLER, 10, 1 / 2, 5), (Neighbour.LARGER, 11, 1 / 3, 3)):
        rows = runs.release(neighbour, 1, 400)
        np.testing.assert_allclose(rows[rows > 0], 1 / denominator, rtol=1e-6)
        mean = (rows > 0).sum(1).mean()
        assert abs(mean - size * rate) < 5 * math.sqrt(size * rate * (1 - rate) / 400)


def test_a_shuffled_loader_has_batches_of_one_size() -> None:
    rows = session("1.6.0", unit_vectors(), sampling=Shuffled(3)).release(Neighbour.SMALLER, 1, 60)
    # N = 7, b = 3: L = 3, and still int(7/3) = 2 to divide by
    np.testing.assert_allclose(rows[rows > 0], 1 / 2, rtol=1e-6)
    assert set((rows > 0).sum(1).tolist()) == {3, 1}


def test_a_raising_release_is_one_line() -> None:
    runs = session("1.6.0", unit_vectors())
    with pytest.raises(WorkerFault, match=r"opacus==1\.6\.0: KeyError") as fault:
        runs.worker.ask({"do": "release", "session": runs.number, "neighbour": "D"})
    assert "\n" not in str(fault.value)
    assert runs.release(Neighbour.SMALLER, 1, 2).shape == (2, N + 1)


def test_a_worker_that_ends_is_replaced() -> None:
    runs = session("1.6.0", unit_vectors())
    expected = runs.release(Neighbour.SMALLER, 1, 5).copy()
    runs.worker.process.kill()
    with pytest.raises(WorkerFault, match="its process ended"):
        runs.release(Neighbour.SMALLER, 1, 5)
    assert not runs.usable
    np.testing.assert_array_equal(session("1.6.0", unit_vectors()).release(Neighbour.SMALLER, 1, 5), expected)


# ---- without a worker ----


def test_there_are_26_releases() -> None:
    assert len(VERSIONS) == len(set(VERSIONS)) == 26
    assert sorted(VERSIONS, key=lambda version: Release(version).number) == list(VERSIONS)
    with pytest.raises(InvalidInput, match=r"0\.9\.0 to 1\.6\.0"):
        Release("2.0.0")


@pytest.mark.parametrize(
    "sampling", [AtRate(Fraction(1, 3)), ThroughLoader(2), Shuffled(2)], ids=["rate", "loader", "shuffled"]
)
@pytest.mark.parametrize("source", [Rows(3), Network("cnn-grey", draws=2), Structured(5, 0.0, 1.0)])
def test_a_setup_survives_its_journey(sampling: object, source: object) -> None:
    setup = Setup(
        release=Configured(version="1.6.0"), dataset_size=4, source=source, sampling=sampling, noise_multiplier=1.0, max_grad_norm=0.1,  # type: ignore[arg-type]
    )  # fmt: skip
    stream = io.BytesIO()
    wire.send(stream, setup.to_json())
    stream.seek(0)
    received = wire.receive(stream)
    assert received is not None
    assert Setup.from_json(received) == setup
    assert wire.receive(stream) is None


def test_truncated_and_endless_frames_end_the_conversation() -> None:
    assert wire.receive(io.BytesIO(b"\0\0")) is None
    assert wire.receive(io.BytesIO(b"\0\0\0\x09{}")) is None
    assert wire.receive(io.BytesIO(b"\xff\xff\xff\xff{}")) is None


def test_memory_is_used_again_only_when_nobody_holds_it() -> None:
    lender, borrower = wire.Lender(), wire.Borrower()
    first, described = lender.lend((2, 3))
    theirs = borrower.borrow(described)
    lender.unlink()
    assert not Path(described["path"]).exists()
    theirs[...] = 7.0
    np.testing.assert_array_equal(first, 7.0)
    view = first[1:]
    del first
    _, second = lender.lend((2, 3))
    assert second["path"] != described["path"]
    np.testing.assert_array_equal(view, 7.0)
    del view
    third, again = lender.lend((1, 3))
    assert again["path"] == described["path"]
    borrower.borrow(again)[...] = 2.0
    np.testing.assert_array_equal(third, 2.0)
    lender.unlink()


def test_an_index_out_of_reach_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYMEAN_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(install.InstallFailed, match=r"opacus==0\.13\.0") as fault:
        install.installed(Release("0.13.0"))
    assert "\n" not in str(fault.value)
    assert [path.name for path in (tmp_path / "wheels").iterdir()] == [".opacus==0.13.0.lock"]


class TestDevice:
    """There is no accelerator to count on here: torch's `meta` device refuses, as one does, to mix with the processor's memory."""

    @pytest.mark.parametrize("sampling", [AtRate(RATE), ThroughLoader(2)])
    @pytest.mark.parametrize(
        ("source", "mode"),
        [(Rows(N + 1), Mode.REPLAY), (Rows(N + 1), Mode.FULL), (Structured(30, 0.0, 1.0), Mode.REPLAY)],
    )
    # what Opacus and torch remark on every run
    @pytest.mark.filterwarnings("ignore")
    def test_everything_is_on_the_device(self, sampling: Any, source: Any, mode: Mode) -> None:
        import torch

        from noisymean.targets.opacus_releases.worker import Server

        setup = Setup(
            release=Configured(version=install.installed_version(), mode=mode, device="meta"),
            dataset_size=N,
            source=source,
            sampling=sampling,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )

        class Lent:
            def borrow(self, array: np.ndarray) -> np.ndarray:
                return array

        records = [np.eye(N + 1, dtype=np.float32)] if isinstance(source, Rows) else []
        server = Server({"setup": setup.to_json(), "arrays": records, "threads": 1}, Lent())  # type: ignore[arg-type]
        sink = torch.empty(8, source.dimension, device="meta")
        for neighbour in Neighbour:
            driver = server._driver(neighbour.value)
            driver.run(1, sink)
            assert driver.recorder.taken == len(sink)
            assert {parameter.grad.device.type for parameter in driver.parameters} == {"meta"}

    def test_auto_without_an_accelerator(self) -> None:
        import torch

        assert device.resolved("auto") == ("cuda" if torch.cuda.is_available() else "cpu")

    def test_one_line_where_there_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device, "_has_accelerator", lambda: False)
        with pytest.raises(InvalidInput, match=r"device='cuda'.*torch sees no accelerator"):
            device.resolved("cuda")
        with pytest.raises(InvalidInput, match="one of auto, cpu, cuda"):
            device.resolved("gpu")
