"""Learning rates against torch's own schedulers."""

from __future__ import annotations

import pytest
import torch
from torch.optim import SGD, lr_scheduler

from gatelab.training import optimizers
from gatelab.training.optimizers import OPTIMIZERS
from gatelab.training.schedule import Schedule
from gatelab.training.spec import OptimizationSpec

EPOCHS = 12


def theirs(make, scores=None) -> list[float]:
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler, rates = make(optimizer), []
    for epoch in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(*([scores[epoch]] if scores else []))
    return rates


def ours(scores=None, **options) -> list[float]:
    schedule, rates = Schedule(OptimizationSpec(learning_rate=0.5, **options), EPOCHS), []
    for epoch in range(EPOCHS):
        rates.append(schedule.learning_rate(epoch, 3, 10))
        schedule.observe(epoch == 0 or (scores is not None and scores[epoch] > max(scores[:epoch])))
    return rates


def test_cosine_approaches_its_end():
    expected = theirs(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=EPOCHS, eta_min=0.01))
    assert ours(schedule="cosine", final_learning_rate=0.01) == pytest.approx(expected)
    assert 0.01 < ours(schedule="cosine", final_learning_rate=0.01)[-1] < 0.03


def test_step():
    expected = theirs(lambda o: lr_scheduler.StepLR(o, step_size=5, gamma=0.3))
    assert ours(schedule="step", step_epochs=5, step_factor=0.3) == pytest.approx(expected)


def test_plateau():
    scores = [0.1, 0.3, 0.3, 0.2, 0.1, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5]
    expected = theirs(
        lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="max", factor=0.5, patience=1, threshold=0, min_lr=0.1), scores
    )
    options = {"schedule": "plateau", "step_factor": 0.5, "plateau_patience": 2, "final_learning_rate": 0.1}
    # torch waits for one epoch more than it calls patience
    assert ours(scores, **options) == pytest.approx(expected)


def test_warm_up_grows_in_a_line_over_batches():
    schedule = Schedule(OptimizationSpec(learning_rate=1.0, warmup_steps=25), EPOCHS)
    rates = [schedule.learning_rate(i // 10, i % 10, 10) for i in range(40)]
    assert rates[:25] == pytest.approx([(i + 1) / 25 for i in range(25)])
    assert rates[25:] == [1.0] * 15


def test_constant_is():
    assert ours() == [0.5] * EPOCHS


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("epochs", "batches"), [(3, 7), (1, 40), (20, 1)])
def test_one_cycle(epochs, batches, name):
    """Batch by batch, of the learning rate and of momentum."""
    spec, total = OptimizationSpec(schedule="one_cycle", learning_rate=0.5, optimizer=name), epochs * batches
    theirs, ours = (optimizers.optimizer(spec, torch.nn.Linear(1, 1)) for _ in range(2))
    if name in ("sgd", "rmsprop"):
        theirs.defaults["momentum"] = theirs.param_groups[0]["momentum"] = 0.9  # torch wants one to cycle
    scheduler = lr_scheduler.OneCycleLR(theirs, max_lr=0.5, total_steps=total)
    schedule = Schedule(spec, epochs)
    for done in range(total):
        place = done // batches, done % batches, batches
        optimizers.set_pace(ours, schedule.learning_rate(*place), schedule.momentum(*place))
        (group,), (expected,) = ours.param_groups, theirs.param_groups
        for key in ("lr", "betas", "momentum"):
            assert group.get(key) == pytest.approx(expected.get(key)), key
        theirs.step()
        scheduler.step() if done < total - 1 else None


def test_one_cycle_has_its_own_momentum():
    with pytest.raises(ValueError, match="one_cycle has a momentum of its own: leave it out"):
        OptimizationSpec(schedule="one_cycle", optimizer="sgd", momentum=0.5)


def test_other_schedules_leave_momentum_alone():
    optimizer = optimizers.optimizer(OptimizationSpec(optimizer="sgd", momentum=0.5), torch.nn.Linear(1, 1))
    schedule = Schedule(OptimizationSpec(schedule="cosine"), 3)
    optimizers.set_pace(optimizer, 0.1, schedule.momentum(1, 0, 4))
    assert optimizer.param_groups[0]["momentum"] == 0.5
