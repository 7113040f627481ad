"""Claimed, leaked and guaranteed as curves beside the loss, while a model trains with Opacus.

values         what is written down of an inspection: a number only where one is known
writers        who writes it down: TensorBoard, Weights & Biases, a Trainer of Hugging Face, a function of yours
pace           at which steps: an account takes time, so at few
logger         PrivacyLogger: one call after each step of any loop
hugging_face   PrivacyCallback: the same for a Trainer; imports transformers, and nothing else here does
"""

from noisymean.integrations.callbacks.logger import PrivacyLogger, PrivacyNotLogged
from noisymean.integrations.callbacks.pace import Doubling, Every

__all__ = ["Doubling", "Every", "PrivacyLogger", "PrivacyNotLogged"]
