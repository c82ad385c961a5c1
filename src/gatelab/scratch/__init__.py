"""A GRU from scratch in NumPy, written to be read.

    gru.py     the forward pass, and backpropagation through time with the formula beside each derivative
    network.py the GRU with a linear layer on its last state, and the mean squared error
    adam.py    the optimizer, and gradient clipping
    sine.py    windows of a noisy sine wave
    train.py   the training loop

`python -m gatelab.scratch` trains it on the wave and plots the results. It does not use torch.
`pytest tests/test_scratch.py` checks every derivative against finite differences.
"""
