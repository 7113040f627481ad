"""flwr: central noise with fixed clipping on the server, around FedAvg, on replies that are handed over."""

from __future__ import annotations

import logging
from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore import privacy_accounting as accounting
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from noisymean.targets.libraries.inside import way
from noisymean.targets.libraries.inside.way import Rows, Setting

logging.getLogger("flwr").setLevel(logging.CRITICAL)
# a message says of which run it is, as the server's process is told when it starts
TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


def _reply(number: int, vector: NDArray[Any], examples: int) -> Message:
    """What a client sends back after a round: its parameters, and how many examples it has seen."""
    asked = Message(RecordDict(), dst_node_id=number + 1, message_type="train")
    metrics = MetricRecord({"num-examples": examples})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(vector)}), "metrics": metrics}), reply_to=asked)


@final
class FixedClipping:
    """The strategy with a declared number of clients; a client's update is its record.

    A client has one example, or up to `most_examples`: as many as its axis says, so that it is the same in every round.
    """

    def __init__(self, num_sampled_clients: int, most_examples: int = 1) -> None:
        self.declared, self.most_examples = num_sampled_clients, most_examples

    def begin(self, setting: Setting) -> None:
        """The strategy at this noise and bound, its model zero."""
        np.random.seed(setting.seed % 2**32)  # noqa: NPY002 - the generator that the library asks
        self.strategy = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(), setting.noise_multiplier, setting.max_grad_norm, self.declared
        )
        self.strategy.current_arrays = ArrayRecord({"w": Array(np.zeros(setting.dimension))})

    def step(self, rows: Rows) -> NDArray[Any]:
        """What the model is after a round from zero."""
        counts = (1 + int(np.argmax(np.abs(row))) % self.most_examples for row in rows)
        replies = [
            _reply(number, row.astype(np.float64), count)
            for number, (row, count) in enumerate(zip(rows, counts, strict=True))
        ]
        arrays, _ = self.strategy.aggregate_train(1, replies)
        if arrays is None:
            # its server then keeps the model that it has
            return np.zeros(rows.shape[1])
        (released,) = arrays.to_numpy_ndarrays()
        return np.asarray(released)


def said() -> dict[str, float]:
    """What its accountant says without amplification, which is all that the strategy takes."""
    relation, method = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, accounting.SamplingMethod.NO_AMPLIFICATION
    accountant = RdpAccountant(accounting.PrivacyConfig(way.DELTA, way.RECORDS, relation, method))
    accountant.compose(accounting.GaussianPrivacyEvent(way.NOISE, way.BATCH, way.RECORDS), way.STEPS)
    DifferentialPrivacyServerSideFixedClipping(FedAvg(), way.NOISE, 1.0, way.BATCH, accountant=accountant)
    return {"RdpAccountant": float(accountant.get_epsilon(way.DELTA))}
