"""flwr: central noise with fixed clipping on the server, around FedAvg, on replies that are handed over."""

from __future__ import annotations

import logging
from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore import privacy_accounting as accounting
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
from numpy.typing import NDArray

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting

logging.getLogger("flwr").setLevel(logging.CRITICAL)


def _reply(number: int, vector: NDArray[Any]) -> Message:
    """What a client sends back after a round: its parameters, and one example."""
    asked = Message(RecordDict(), dst_node_id=number + 1, message_type="train")
    content = RecordDict({"arrays": ArrayRecord({"w": Array(vector)}), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=asked)


@final
class FixedClipping:
    """The strategy with a declared number of clients; a client's update is its record."""

    def __init__(self, num_sampled_clients: int) -> None:
        self.declared = num_sampled_clients

    def begin(self, setting: Setting) -> None:
        """The strategy at this noise and bound, its model zero."""
        np.random.seed(setting.seed % 2**32)  # noqa: NPY002 - the generator that the library asks
        self.strategy = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(), setting.noise_multiplier, setting.max_grad_norm, self.declared
        )
        self.strategy.current_arrays = ArrayRecord({"w": Array(np.zeros(setting.dimension))})

    def step(self, rows: Rows) -> NDArray[Any]:
        """What the model is after a round from zero."""
        replies = [_reply(number, row.astype(np.float64)) for number, row in enumerate(rows)]
        arrays, _ = self.strategy.aggregate_train(1, replies)
        if arrays is None:
            return np.full(rows.shape[1], np.nan)
        (released,) = arrays.to_numpy_ndarrays()
        return np.asarray(released)


def said() -> dict[str, float | str]:
    """What its accountant says as the strategy takes it: without amplification; and whether it takes one that is told Poisson."""
    relation = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    event = accounting.GaussianPrivacyEvent(way.NOISE, way.BATCH, way.RECORDS)
    found: dict[str, float | str] = {}
    for method in (accounting.SamplingMethod.NO_AMPLIFICATION, accounting.SamplingMethod.POISSON):
        accountant = RdpAccountant(accounting.PrivacyConfig(way.DELTA, way.RECORDS, relation, method))
        accountant.compose(event, way.STEPS)
        name = f"RdpAccountant, {method.value}"
        found[name] = float(accountant.get_epsilon(way.DELTA))
        try:
            DifferentialPrivacyServerSideFixedClipping(FedAvg(), way.NOISE, 1.0, way.BATCH, accountant=accountant)
        except ValueError as refused:
            found[f"{name}, given to the strategy"] = str(refused)
    return found
