"""NCSN++ as DP-FETA and PrivImage use it: a U-Net that is told the noise level and the label.

Each resolution has two residual blocks, one of the resolutions has attention, and a residual block halves the picture
(on the way up: doubles it); skips are concatenated. Weights start uniform with variance scale / fan_avg; layers that end
a branch start at almost zero, so that a branch of the untrained network adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

EMBEDDING = 32
HIDDEN = 4 * EMBEDDING
LABELS = 10
NO_LABEL = LABELS
ALMOST_ZERO = 1e-10
ATTENTION = 0.1
_HALF = math.sqrt(0.5)


def _scaled(layer: nn.Conv2d | nn.Linear, scale: float = 1.0) -> nn.Module:
    """Uniform weights of variance scale / ((fan_in + fan_out) / 2), biases zero."""
    area = math.prod(layer.weight.shape[2:])
    fan_average = area * (layer.weight.shape[0] + layer.weight.shape[1]) / 2
    bound = math.sqrt(3.0 * scale / fan_average)
    nn.init.uniform_(layer.weight, -bound, bound)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def _conv(inputs: int, outputs: int, size: int = 3, scale: float = 1.0) -> nn.Module:
    return _scaled(nn.Conv2d(inputs, outputs, size, padding=size // 2), scale)


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(min(channels // 4, 32), channels, eps=1e-6)


class Residual(nn.Module):
    """(skip(x) + h) / sqrt 2, where h sees the embedding between its two convolutions; `resample` changes the size of both."""

    def __init__(self, inputs: int, outputs: int, resample: nn.Module | None = None) -> None:
        super().__init__()
        self.resample = resample or nn.Identity()
        self.first_norm = _norm(inputs)
        self.first = _conv(inputs, outputs)
        self.embedded = _scaled(nn.Linear(HIDDEN, outputs))
        self.second_norm = _norm(outputs)
        self.second = _conv(outputs, outputs, scale=ALMOST_ZERO)
        straight = inputs == outputs and resample is None
        self.skip = nn.Identity() if straight else _conv(inputs, outputs, size=1)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        h = self.resample(functional.silu(self.first_norm(x)))
        h = self.first(h) + self.embedded(functional.silu(embedding))[:, :, None, None]
        h = self.second(functional.silu(self.second_norm(h)))
        mixed: Tensor = (self.skip(self.resample(x)) + h) * _HALF
        return mixed


class Attention(nn.Module):
    """(x + h) / sqrt 2, where h attends over all pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.query, self.key, self.value = (_scaled(nn.Linear(channels, channels), ATTENTION) for _ in range(3))
        self.out = _scaled(nn.Linear(channels, channels), ALMOST_ZERO)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        scores = self.query(pixels) @ self.key(pixels).transpose(1, 2) / math.sqrt(channels)
        h = self.out(torch.softmax(scores, dim=-1) @ self.value(pixels))
        mixed: Tensor = (x + h.transpose(1, 2).reshape(batch, channels, height, width)) * _HALF
        return mixed


def sinusoids(level: Tensor) -> Tensor:
    """[sin, cos] of the noise level at 16 frequencies from 1 to 1/10000."""
    half = EMBEDDING // 2
    frequencies = torch.exp(
        -math.log(10_000.0) / (half - 1) * torch.arange(half, device=level.device, dtype=level.dtype)
    )
    angles = level[:, None] * frequencies[None, :]
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)


class UNet(nn.Module):
    """F(x, noise level, label); `widths` are multiples of `base`, one for each resolution."""

    def __init__(
        self, *, channels: int, side: int, widths: Sequence[int], attention_at: int, base: int = 32, blocks: int = 2
    ) -> None:
        super().__init__()
        self.labels = nn.Embedding(LABELS + 1, EMBEDDING)
        self.embed = nn.Sequential(_scaled(nn.Linear(EMBEDDING, HIDDEN)), nn.SiLU(), _scaled(nn.Linear(HIDDEN, HIDDEN)))
        self.enter = _conv(channels, base)
        # channels and side of the picture at each resolution
        levels = [(base * times, side >> level) for level, times in enumerate(widths)]

        # what the way down leaves for the way up, in channels
        skips, width = [base], base
        self.down = nn.ModuleList()
        for level, (wide, size) in enumerate(levels):
            if level != 0:
                self.down.append(nn.ModuleList([Residual(width, width, nn.AvgPool2d(2))]))
                skips.append(width)
            for _ in range(blocks):
                step = [Residual(width, wide), *([Attention(wide)] if size == attention_at else [])]
                self.down.append(nn.ModuleList(step))
                width = wide
                skips.append(width)

        self.middle = nn.ModuleList([Residual(width, width), Attention(width), Residual(width, width)])

        self.up = nn.ModuleList()
        for level, (wide, size) in reversed(list(enumerate(levels))):
            stage = nn.ModuleList()
            for _ in range(blocks + 1):
                stage.append(Residual(width + skips.pop(), wide))
                width = wide
            self.up.append(stage)
            after = nn.ModuleList([Attention(width)] if size == attention_at else [])
            if level != 0:
                after.append(Residual(width, width, nn.Upsample(scale_factor=2.0)))
            self.up.append(after)

        self.leave_norm = _norm(width)
        self.leave = _conv(width, channels, scale=ALMOST_ZERO)

    def forward(self, x: Tensor, level: Tensor, label: Tensor) -> Tensor:
        embedding = self.embed(sinusoids(level) + self.labels(label))
        h = self.enter(x)
        skips = [h]
        for step in self.down:
            h = _through(step, h, embedding)
            skips.append(h)
        h = _through(self.middle, h, embedding)
        for stage, after in zip(self.up[::2], self.up[1::2], strict=True):
            for block in stage:  # type: ignore[attr-defined]
                h = block(torch.cat([h, skips.pop()], dim=1), embedding)
            h = _through(after, h, embedding)
        out: Tensor = self.leave(functional.silu(self.leave_norm(h)))
        return out


def _through(blocks: nn.Module, h: Tensor, embedding: Tensor) -> Tensor:
    for block in blocks:  # type: ignore[attr-defined]
        h = block(h) if isinstance(block, Attention) else block(h, embedding)
    return h
