"""A statement as a value: the account it is made of, the unit, mu-GDP, and its sentences in every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, final

from noisymean.accounts import Account
from noisymean.checks import of_kind, switch
from noisymean.errors import InvalidInput
from noisymean.gdp import GaussianDP, gaussian_dp
from noisymean.outward import at_most
from noisymean.report import account_words
from noisymean.results import Lines, Result
from noisymean.statement import numbers, sentences
from noisymean.statement.registry import Deployment, registry_record
from noisymean.statement.sentences import Topic
from noisymean.statement.yaml_text import yaml_text
from noisymean.words import capital
from noisymean.written import exactly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What a record is unless somebody says so.
DEFAULT_UNIT = "one record"
# Sentences that make a paragraph together.
_PARAGRAPHS = (
    (Topic.TRAINING, Topic.UNIT),
    (Topic.CLAIM, Topic.GUARANTEE, Topic.GAUSSIAN),
    (Topic.REMEDY,),
    (Topic.PUBLIC, Topic.NOTES),
    (Topic.COVERS, Topic.GROUNDS),
)


class Format(Enum):
    """How a statement is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    YAML = "yaml"


@final
@dataclass(frozen=True)
class Statement(Result):
    """What may be published about a run. `gaussian` is None where mu-GDP was not asked for."""

    account: Account
    unit: str
    unit_told: bool
    gaussian: GaussianDP | None
    deployment: Deployment
    version: str

    @cached_property
    def sentences(self) -> dict[Topic, str]:
        """Each by what it is about."""
        return sentences.all_sentences(self.account, self.gaussian, self.unit, unit_told=self.unit_told)

    @property
    def paragraphs(self) -> list[str]:
        """The sentences in the order in which they are read; the last paragraph says by what they were computed."""
        said = self.sentences
        joined = [" ".join(said[topic] for topic in group if topic in said) for group in _PARAGRAPHS]
        made = [one for one in joined if one]
        return [*made[:-1], f"{made[-1]} Computed by noisymean {self.version}."]

    @property
    def registry(self) -> dict[str, object]:
        """The record of the registry of deployments."""
        return registry_record(self.account, self.sentences, self.unit, self.deployment, self.version)

    def written(self, how: Format) -> str:
        """The statement as a file of that format, with its last newline."""
        match how:
            case Format.TEXT:
                return "\n\n".join(self.paragraphs) + "\n"
            case Format.MARKDOWN:
                return self.markdown()
            case Format.YAML:
                return yaml_text(self.registry)

    def text(self) -> str:
        """Paragraphs of plain text."""
        return self.written(Format.TEXT)

    def yaml(self) -> str:
        """The record of the registry of deployments, in YAML."""
        return self.written(Format.YAML)

    def markdown(self) -> str:
        """A section of a model card: a table, then the paragraphs."""
        rows = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in self.rows())
        body = "\n\n".join(map(_escaped, self.paragraphs))
        return f"## Privacy\n\n| | |\n|---|---|\n{rows}\n\n{body}\n"

    def rows(self) -> list[tuple[str, str]]:
        """What is said, item by item."""
        answer = self.account
        symbol, given = numbers.symbol(answer), numbers.given(answer)
        each = answer.segments
        doubt = "" if answer.verdict == "holds" else " (not a guarantee)"
        found = [
            ("Privacy unit", self.unit if self.unit_told else f"{self.unit} (assumed)"),
            ("Neighbouring datasets", f"one record {answer.change}"),
            ("Batches", "; ".join(dict.fromkeys(map(sentences.drawn, each)))),
            ("Denominator", "; ".join(dict.fromkeys(map(sentences.denominator, each)))),
            ("Noisy steps", f"{answer.steps:,}"),
            (f"Claimed {symbol} at {given}{doubt}", numbers.claimed_number(answer)),
            (f"Certainly lost, {symbol} at {given}, at least", numbers.leaked_number(answer)),
            (f"Guaranteed {symbol} at {given}, at most", numbers.guaranteed_number(answer)),
        ]
        if self.gaussian is not None and self.gaussian.mu is not None and self.gaussian.regret is not None:
            slack = f" (up to {exactly(self.gaussian.slack)})" if self.gaussian.slack else ""
            found += [
                ("Gaussian DP, μ", f"{numbers.number(self.gaussian.mu, at_most)}{slack}"),
                ("Regret of μ, at most", numbers.number(self.gaussian.regret, at_most, ".2g")),
            ]
        return [*found, ("Verdict on the claim", capital(account_words.spoken(answer)))]

    # --- as every answer -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """Plain data, as `statement --json` prints it."""
        answer = self.account
        return {
            "unit": {"value": self.unit, "told": self.unit_told},
            "verdict": answer.verdict,
            "account": {**answer.to_dict(), "version": self.version},
            "gaussian": None if self.gaussian is None else self.gaussian.to_dict(),
            "sentences": {topic.value: text for topic, text in self.sentences.items()},
            "text": self.text(),
            "markdown": self.markdown(),
            "registry": self.registry,
            "to_be_filled_in": self.deployment.missing,
            "version": self.version,
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """A row for each item."""
        names, values = zip(*self.rows(), strict=True)
        return {"item": list(names), "value": list(values)}

    def lines(self) -> Lines:
        """The items, and the paragraphs below."""
        return Lines("Privacy statement", ("item", "value"), self.rows(), self.paragraphs)

    def plot(self) -> Figure:
        """The figure of the account."""
        return self.account.plot()


def _escaped(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return "".join(f"\\{one}" if one in "\\`*_[]<>|#$~&" else one for one in text)


def _cell(text: str) -> str:
    return _escaped(text.replace("\n", " "))


def statement(
    answer: Account,
    *,
    unit: str | None = None,
    gaussian: bool = True,
    deployment: Deployment | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Statement:
    """What a paper or a model card may say of the run that was accounted for.

    `unit` is what one record stands for, `one record` unless it is said. mu-GDP with its regret takes some dozens of accounts;
    leave it out with `gaussian=False`. `deployment` has what the registry of deployments asks for besides.

    >>> import noisymean as nm
    >>> answer = nm.account(nm.SGM(sample_rate=1, noise_multiplier=10), steps=100, delta=1e-5)
    >>> print(nm.statement(answer, unit="one photograph").sentences["claim"])
    The training is (ε, δ)-differentially private with ε = 4.378 at δ = 10⁻⁵, for batches drawn by Poisson sampling and one \
record added or removed, if it ran as it is described here.
    """
    of_kind("answer", answer, Account, "an account", "what noisymean.account gives")
    switch("gaussian", gaussian)
    if unit is not None and not of_kind("unit", unit, str, "a text").strip():
        raise InvalidInput("unit", repr(unit), "what one record stands for", 'e.g. "one patient"')
    # the package itself, which imports this module
    from noisymean import __version__

    return Statement(
        account=answer,
        unit=DEFAULT_UNIT if unit is None else " ".join(unit.split()),
        unit_told=unit is not None,
        gaussian=gaussian_dp(answer, progress) if gaussian else None,
        deployment=Deployment()
        if deployment is None
        else of_kind("deployment", deployment, Deployment, "a Deployment"),
        version=__version__,
    )
