"""The record of a run for the registry of deployments of differential privacy.

Its fields are those of github.com/opendp/deployments-registry-data, `schemas/deployments-schema.yaml`, at commit 3e9c812a924c of
2026-07-15; what we write of them is in `schemas/registry/deployment.json`. The registry asks for things that no account knows,
who published the model and when for instance: they are given, or marked to be filled in, never made up. The registry shows its
texts as Markdown, so no sentence of ours has a character that Markdown would take for its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from importlib.resources import files
from typing import Any, final

from noisymean.accounts import Account
from noisymean.errors import InvalidInput
from noisymean.outward import at_most
from noisymean.statement import limits
from noisymean.statement.numbers import guaranteed
from noisymean.statement.sentences import Topic

TO_DO = "TO BE FILLED IN"
MODELS = ("Central", "Local", "Shuffle", "Federated")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Enough digits for a machine, rounded up.
_DIGITS = ".6g"


def _is_a_date(text: str) -> bool:
    """Of the calendar, and written as the registry wants it."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return bool(_DATE.fullmatch(text))


@final
@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What the registry asks for and no account knows; None is marked to be filled in."""

    name: str | None = None
    curator: str | None = None
    description: str | None = None
    intended_use: str | None = None
    region: str | None = None
    published: str | None = None
    model: str | None = None
    author: str | None = None

    def __post_init__(self) -> None:
        if self.published is not None and not _is_a_date(self.published):
            raise InvalidInput("published", self.published, "a date written YYYY-MM-DD", "e.g. 2026-01-31")
        if self.model is not None and self.model not in MODELS:
            raise InvalidInput("model", self.model, f"one of {', '.join(MODELS)}", "who applies the noise")

    @property
    def missing(self) -> list[str]:
        """What is left to be filled in."""
        return [one.name for one in fields(self) if getattr(self, one.name) is None]


def registry_schema() -> dict[str, Any]:
    """What a record may be, as a JSON Schema (draft 2020-12).

    >>> registry_schema()["required"]
    ['url_slug', 'status', 'tier', 'deployment']
    """
    found: dict[str, Any] = json.loads(
        files("noisymean").joinpath("schemas", "registry", "deployment.json").read_text(encoding="utf-8")
    )
    return found


def _slug(deployment: Deployment) -> str:
    """As the registry makes it, of what it needs all three."""
    if deployment.name is None or deployment.curator is None or deployment.published is None:
        return "to-be-filled-in"
    parts = (deployment.name, deployment.curator, deployment.published.partition("-")[0])
    return "_".join(re.sub(r"\W+", "_", one.lower()) for one in parts).replace("_", "-")


def registry_record(
    answer: Account, said: Mapping[Topic, str], unit: str, deployment: Deployment, version: str
) -> dict[str, object]:
    """The record as plain data. Its parameters are the guarantee, never the claim; without a guarantee there are none."""
    return {
        "url_slug": _slug(deployment),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": deployment.name or TO_DO,
                "data_curators": [deployment.curator or TO_DO],
                "description": deployment.description or TO_DO,
                "intended_use": deployment.intended_use or TO_DO,
                "data_product_type": "Machine learning model",
                "data_product_region": deployment.region or TO_DO,
                "publication_date": deployment.published or TO_DO,
            },
            "dp_variant": {**_variant(answer), "unprotected_quantities": said[Topic.PUBLIC]},
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": said[Topic.UNIT],
                **_parameters(answer),
                "privacy_parameters_details": _together(
                    said, Topic.CLAIM, Topic.GUARANTEE, Topic.GAUSSIAN, Topic.REMEDY
                ),
            },
            **({} if deployment.model is None else {"deployment_model": {"model_name": deployment.model}}),
            "accounting": {
                "post_processing": "All that is computed from the noisy steps, such as the final model, is post-processing.",
                "composition": (
                    f"The privacy losses of all steps ({answer.steps:,}) are composed numerically, as adaptive composition, for"
                    " one unit throughout; bounds are rounded to their own side."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": limits.tuning(),
                "mechanisms": said[Topic.TRAINING],
            },
            "administrative": {
                "registry_authors": [deployment.author or TO_DO],
                "notes": "\n".join(
                    [_together(said, Topic.NOTES, Topic.COVERS, Topic.GROUNDS), f"Computed by noisymean {version}."]
                ),
            },
        },
    }


def _variant(answer: Account) -> dict[str, object]:
    return {} if guaranteed(answer) is None else {"variant_name": "Approximate DP"}


def _parameters(answer: Account) -> dict[str, object]:
    found = guaranteed(answer)
    if found is None:
        return {}
    sound = float(at_most(found, _DIGITS))
    given = answer.claimed.delta if answer.asked_delta else answer.claimed.epsilon
    pair = (sound, given) if answer.asked_delta else (given, sound)
    return {"privacy_parameters": dict(zip(("epsilon", "delta"), pair, strict=True))}


def _together(said: Mapping[Topic, str], *topics: Topic) -> str:
    return "\n".join(said[topic] for topic in topics if topic in said)
