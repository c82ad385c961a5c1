"""How others run an LSTM over sequences in which episodes start: the state is zero before each such step.

Each is a function of the module, x (B, T, D), the states (1, B, H) and the starts (B, T), and returns (B, T, H). Those
of other libraries are rewritten without the rest of these libraries, and have been compared with them: outputs and
gradients are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

States = tuple[Tensor, Tensor]


def lstm_step_by_step(lstm: nn.LSTM, x: Tensor, states: States, starts: Tensor) -> Tensor:
    """sb3-contrib 2.9.2, RecurrentActorCriticPolicy._process_sequence: the module on one step after another, and on the
    whole sequence where no episode starts.
    """
    if not starts.any():
        return lstm(x, states)[0]
    outputs = []
    for x_t, started in zip(x.split(1, dim=1), starts.float().unbind(1), strict=True):
        keep = (1.0 - started).view(1, -1, 1)
        output, states = lstm(x_t, (keep * states[0], keep * states[1]))
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def episodes_step_by_step(lstm: nn.LSTM, x: Tensor, states: States, starts: Tensor) -> Tensor:
    """The same on the sequences that sb3-contrib's buffer makes for training: cut where episodes start, and padded."""
    episodes = Episodes(starts)
    padded_starts = episodes.pad(starts)
    return episodes.unpad(lstm_step_by_step(lstm, episodes.pad(x), episodes.initial(states), padded_starts))


def packed_episodes(lstm: nn.LSTM, x: Tensor, states: States, starts: Tensor) -> Tensor:
    """TorchRL 0.14.1, LSTMModule by default: episodes are cut, padded and packed, and the module is called once."""
    episodes = Episodes(starts)
    if not starts[:, 1:].any():
        return lstm(x, episodes.initial(states))[0]
    packed = pack_padded_sequence(episodes.pad(x), episodes.lengths, batch_first=True, enforce_sorted=False)
    output, _ = lstm(packed, episodes.initial(states))
    return episodes.unpad(pad_packed_sequence(output, batch_first=True)[0])


def masked_episodes(lstm: nn.LSTM, x: Tensor, states: States, starts: Tensor) -> Tensor:
    """TorchRL 0.14.1, LSTMModule(python_based=True): episodes are cut and padded, the equations are torch operations,
    and a mask holds the states of those that have ended.
    """
    episodes = Episodes(starts)
    h, c = (state[0] for state in episodes.initial(states))
    outputs, cut = [], bool(starts[:, 1:].any())
    for x_t, inside in zip(episodes.pad(x).unbind(1), episodes.inside.unbind(1), strict=True):
        gates = linear(x_t, lstm.weight_ih_l0, lstm.bias_ih_l0) + linear(h, lstm.weight_hh_l0, lstm.bias_hh_l0)
        i, f, g, o = gates.chunk(4, 1)
        new_c = c * f.sigmoid() + i.sigmoid() * g.tanh()
        new_h = o.sigmoid() * new_c.tanh()
        if cut:
            new_h, new_c = torch.where(inside[:, None], new_h, h), torch.where(inside[:, None], new_c, c)
        h, c = new_h, new_c
        outputs.append(h)
    return episodes.unpad(torch.stack(outputs, dim=1))


def cell_step_by_step(lstm: nn.LSTM, x: Tensor, states: States, starts: Tensor) -> Tensor:
    """A loop of `nn.LSTMCell` that multiplies its states by a mask."""
    cell = nn.LSTMCell(lstm.input_size, lstm.hidden_size, device="meta")
    cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh = lstm.all_weights[0]
    h, c = (state[0] for state in states)
    outputs = []
    for x_t, keep in zip(x.unbind(1), (1.0 - starts.float()).unsqueeze(2).unbind(1), strict=True):
        h, c = cell(x_t, (keep * h, keep * c))
        outputs.append(h)
    return torch.stack(outputs, dim=1)


class Episodes:
    """Sequences cut into episodes; those that have started before the first step are cut off there."""

    def __init__(self, starts: Tensor) -> None:  # (B, T)
        first = starts.clone()
        first[:, 0] = True
        self.shape = starts.shape
        self.begins = first.flatten().nonzero().squeeze(1)  # as indices of the steps of all sequences
        self.lengths = self.begins.diff(append=torch.tensor([starts.numel()]))
        self.inside = torch.arange(int(self.lengths.max())) < self.lengths[:, None]  # (episodes, longest)
        self.continued = ~starts.flatten()[self.begins]

    def pad(self, values: Tensor) -> Tensor:
        """(B, T, …) → (episodes, longest, …)"""
        padded = values.new_zeros(*self.inside.shape, *values.shape[2:])
        padded[self.inside] = values.flatten(0, 1)
        return padded

    def unpad(self, values: Tensor) -> Tensor:
        return values[self.inside].unflatten(0, self.shape)

    def initial(self, states: States) -> States:
        """Those of the sequence for an episode that continues, otherwise zeros."""
        sequence = self.begins // self.shape[1]
        h, c = (state[:, sequence] * self.continued[:, None] for state in states)
        return h, c
