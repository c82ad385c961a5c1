"""The GRU by hand, in NumPy, to be read.

    gru.py     forward through time, and back-propagation through time with each derivative beside its formula
    network.py the GRU with a linear layer on its last state, and the mean squared error
    adam.py    the optimiser, and clipping
    sine.py    a noisy wave cut into windows
    train.py   the training loop

`python -m gatelab.scratch` trains it on the wave and draws what it learned. There is no torch in here.
`pytest tests/test_scratch.py` checks every derivative against finite differences.
"""
