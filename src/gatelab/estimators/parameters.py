"""The parameters that classifiers and regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gatelab.estimators import defaults
from gatelab.lang import Cell


class NetworkParameters(BaseEstimator):  # type: ignore[misc]
    """Parameters of the network and its training, stored as they are; a fit checks them."""

    label_smoothing: float = 0.0  # a parameter of classifiers alone

    def __init__(
        self,
        cell: str | Cell = defaults.CELL,
        *,
        hidden_size: int = defaults.HIDDEN_SIZE,
        num_layers: int = defaults.NUM_LAYERS,
        bidirectional: bool = defaults.BIDIRECTIONAL,
        pool: str = defaults.POOL,
        stem: str = defaults.STEM,
        dropout: float = defaults.DROPOUT,
        head_dropout: float = defaults.HEAD_DROPOUT,
        cell_options: dict[str, Any] | None = None,
        optimizer: str = defaults.OPTIMIZER,
        learning_rate: float = defaults.LEARNING_RATE,
        weight_decay: float = defaults.WEIGHT_DECAY,
        schedule: str = defaults.SCHEDULE,
        clip_norm: float | None = defaults.CLIP_NORM,
        batch_size: int = defaults.BATCH_SIZE,
        max_epochs: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = defaults.VALIDATION_FRACTION,
        n_iter_no_change: int = defaults.N_ITER_NO_CHANGE,
        channels_first: bool = False,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.cell = cell
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.pool = pool
        self.stem = stem
        self.dropout = dropout
        self.head_dropout = head_dropout
        self.cell_options = cell_options
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.channels_first = channels_first
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
