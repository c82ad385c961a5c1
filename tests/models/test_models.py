"""Models: input of the head, processing in chunks, and forecasting."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gatelab.models import SequenceClassifier, StepPredictor
from gatelab.models.pooling import POOLS
from gatelab.models.stem import ConvStem

LENGTHS = torch.tensor([7, 3, 5, 1])


def double(model: nn.Module) -> nn.Module:
    return model.double().eval()


@pytest.mark.parametrize("cell", ["gru", "lstm", "agru"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_the_head_gets_the_last_output_of_each_direction(cell, bidirectional, residual, lengths):
    model = double(SequenceClassifier(cell, 3, 5, 4, bidirectional=bidirectional, residual=residual))
    x = torch.randn(4, 7, 3).double()
    output, _ = model.recurrent(x, lengths=lengths)
    ends = [7] * 4 if lengths is None else lengths.tolist()
    for row, end in enumerate(ends):
        features = (
            output[row, end - 1] if not bidirectional else torch.cat([output[row, end - 1, :5], output[row, 0, 5:]])
        )
        expected = model.head[1].weight @ features + model.head[1].bias
        torch.testing.assert_close(model(x, lengths=lengths)[row], expected)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_the_mean_excludes_the_padding(lengths):
    model = double(SequenceClassifier("gru", 3, 5, 4, pool="mean"))
    x = torch.randn(4, 7, 3).double()
    ends = [7] * 4 if lengths is None else lengths.tolist()
    for row, end in enumerate(ends):
        alone = model.recurrent(x[row : row + 1, :end])[0][0].mean(0)
        torch.testing.assert_close(model(x, lengths=lengths)[row], model.head[1](alone))


def test_equals_torch_gru_with_a_linear_layer():
    model = double(SequenceClassifier("gru", 3, 5, 4, num_layers=2, dropout=0.0, head_dropout=0.0))
    module, x = model.recurrent.to_torch(), torch.randn(6, 9, 3).double()
    torch.testing.assert_close(model(x), model.head[1](module(x)[1][-1]))


def test_the_defaults_are_two_layers_with_dropout():
    model = SequenceClassifier("gru", 3, 5, 4)
    assert (model.recurrent.num_layers, model.recurrent.dropout, model.head[0].p) == (2, 0.1, 0.2)
    x = torch.randn(8, 5, 3)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


@pytest.mark.parametrize("kind", [SequenceClassifier, StepPredictor])
def test_initialization_depends_on_the_generator_only(kind):
    model = kind("lstm", 3, 5, 4)
    torch.manual_seed(1)
    model.reset_parameters(torch.Generator().manual_seed(9))
    first = [p.clone() for p in model.parameters()]
    torch.manual_seed(2)
    model.reset_parameters(torch.Generator().manual_seed(9))
    assert all(torch.equal(a, b) for a, b in zip(first, model.parameters(), strict=True))
    bound = 5**-0.5
    weight = model.head[1].weight.detach()
    assert weight.abs().max() <= bound
    assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.4)


def test_a_sequence_can_be_processed_in_chunks():
    model = double(StepPredictor("lstm", 3, 5, 4, num_layers=2))
    x = torch.randn(2, 10, 3).double()
    first, state = model.process(x[:, :4], None)
    second, _ = model.process(x[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), model(x))
    assert model(x).shape == (2, 10, 4)


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "3"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (StepPredictor, {}),
        (SequenceClassifier, {"pool": "last", "residual": True}),
        (SequenceClassifier, {"pool": "mean"}),
    ],
    ids=["predictor", "last", "mean"],
)
def test_steps_of_a_stream_answer_as_the_sequence_so_far_does(kind, options, batch):
    model = kind("lstm", 3, 5, 4, num_layers=2, **options).eval()
    x, state = torch.randn(*batch, 6, 3), None
    with torch.no_grad():
        for t in range(6):
            answer, state = model.step(x[..., t, :], state)
            so_far = x[..., : t + 1, :] if batch else x[None, : t + 1]
            wanted = model(so_far)[:, -1] if kind is StepPredictor else model(so_far)
            torch.testing.assert_close(answer if batch else answer[None], wanted, atol=1e-6, rtol=1e-5)


def test_tokens_step_too():
    model = StepPredictor("gru", 7, 5, 7, embedding_size=3).eval()
    tokens, state = torch.randint(0, 7, (4, 6)), None
    with torch.no_grad():
        for t in range(6):
            scores, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(scores, model(tokens)[:, -1], atol=1e-6, rtol=1e-5)
    with pytest.raises(ValueError, match=r"x has integers of shape \(4, 6\): expected one token for each sequence"):
        model.step(tokens)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_forecast_equals_rerunning_the_growing_window(cell):
    model = double(StepPredictor(cell, 2, 5, 2, num_layers=2))
    x = torch.randn(3, 8, 2).double()
    window, expected = x, []
    for _ in range(6):
        expected.append(model(window)[:, -1:])
        window = torch.cat([window, expected[-1]], 1)
    torch.testing.assert_close(model.predict_future(x, 6), torch.cat(expected, 1).detach())


def test_the_window_is_processed_once_and_training_mode_is_restored():
    model = StepPredictor("gru", 1, 5, 1, head_dropout=0.5)
    lengths = []
    model.recurrent.register_forward_pre_hook(lambda _, arguments: lengths.append(arguments[0].shape[1]))
    x = torch.randn(2, 50, 1)
    once = model.predict_future(x, 4)
    assert lengths == [50, 1, 1, 1]  # a hook is called in every step
    assert model.training
    assert torch.equal(once, model.predict_future(x, 4))  # no dropout in a forecast
    assert not once.requires_grad


def test_invalid_arguments_are_refused():
    for model, why in (
        (StepPredictor("gru", 1, 3, 1, bidirectional=True), "reads 1 features, predicts 1, and reads backwards too"),
        (StepPredictor("gru", 1, 3, 2), "reads 1 features, predicts 2, and reads forwards"),
    ):
        with pytest.raises(ValueError, match=why):
            model.predict_future(torch.randn(1, 4, 1), 2)
    with pytest.raises(ValueError, match="unknown pool 'first'"):
        SequenceClassifier("gru", 3, 5, 4, pool="first")
    with pytest.raises(ValueError, match=r"head_dropout is 1\.5"):
        SequenceClassifier("gru", 3, 5, 4, head_dropout=1.5)
    with pytest.raises(ValueError, match="output_size is 0"):
        StepPredictor("gru", 3, 5, 0)
    model = StepPredictor("gru", 1, 3, 1)
    with pytest.raises(ValueError, match="steps_ahead is 0"):
        model.predict_future(torch.randn(1, 4, 1), 0)


def test_tokens_are_one_hot_vectors_or_embeddings():
    """Against one-hot vectors made by torch, and nn.Embedding."""
    tokens = torch.randint(0, 7, (3, 9))
    one_hot = torch.nn.functional.one_hot(tokens, 7).float()
    for embedding_size in (None, 4):
        model = StepPredictor("gru", 7, 5, 7, embedding_size=embedding_size, engine="eager")
        assert torch.equal(model(tokens), model(one_hot))
        assert model.double()(tokens).dtype == torch.float64
    table = torch.nn.Embedding.from_pretrained(model.input_layer.weight.detach())
    expected = model.head(model.recurrent(table(tokens))[0])
    assert torch.equal(model(tokens), expected)
    model(tokens).sum().backward()
    assert model.input_layer.weight.grad is not None
    with pytest.raises(ValueError, match=r"integers of shape \(3, 9, 7\): expected tokens \(B, T\)"):
        model(one_hot.long())


def test_padding_after_tokens_has_no_effect():
    model = SequenceClassifier("lstm", 7, 5, 2, embedding_size=3, engine="eager").eval()
    tokens, lengths = torch.randint(0, 7, (2, 9)), torch.tensor([9, 4])
    padded = tokens.clone()
    padded[1, 4:] = 255
    assert torch.equal(model(padded, lengths=lengths), model(tokens, lengths=lengths))


def pooled(kind: str, output: torch.Tensor, query: torch.Tensor | None) -> torch.Tensor:
    """Of one sequence (T, F), by its definition."""
    parts = {"last": output[-1], "mean": output.mean(0), "max": output.max(0).values}
    parts["mean+max"] = torch.cat([parts["mean"], parts["max"]])
    if query is not None:
        parts["attention"] = (output @ query).softmax(0) @ output
    return parts[kind]


@pytest.mark.parametrize("kind", POOLS)
def test_pooling_of_a_padded_batch_a_single_sequence_and_a_stream(kind):
    model = double(SequenceClassifier("lstm", 3, 5, 4, pool=kind)).eval()
    if model.pooling.query is not None:
        torch.nn.init.normal_(model.pooling.query)
    x, lengths = torch.randn(4, 7, 3).double(), torch.tensor([7, 3, 1, 5])
    together = model(x, lengths=lengths)
    for row, end in enumerate(lengths.tolist()):
        output = model.recurrent(x[row : row + 1, :end])[0][0]
        expected = model.head[1](pooled(kind, output, model.pooling.query))
        torch.testing.assert_close(together[row], expected)
        torch.testing.assert_close(model(x[row : row + 1, :end])[0], expected)
        state = None
        for t in range(end):
            answer, state = model.step(x[row : row + 1, t], state)
        torch.testing.assert_close(answer[0], expected)


@pytest.mark.parametrize("lengths", [None, [30, 9, 1, 17]], ids=["equal", "unequal"])
def test_the_stem_sees_no_padding(lengths):
    model = double(SequenceClassifier("gru", 3, 5, 4, pool="mean+max", stem="conv", bidirectional=True))
    x, ends = torch.randn(4, 30, 3).double(), torch.tensor(lengths or [30] * 4)
    trained = model.train()(x, lengths=None if lengths is None else ends)  # statistics of a batch
    assert trained.isfinite().all()
    model.eval()
    filled = x.clone()
    filled[torch.arange(30) >= ends.unsqueeze(1)] = torch.nan if lengths else 0.0
    together = model(filled, lengths=ends)
    for row, end in enumerate(ends.tolist()):
        torch.testing.assert_close(model(x[row : row + 1, :end])[0], together[row])
    assert model.inputs(x, ends)[1].tolist() == [-(-end // 4) for end in ends.tolist()]


def test_the_stems_statistics_are_of_the_steps_that_exist():
    """A batch of one sequence twice, once padded: the same running mean as without padding."""
    alone, padded = (SequenceClassifier("gru", 2, 3, 2, stem="conv").train() for _ in range(2))
    padded.load_state_dict(alone.state_dict())
    x = torch.randn(2, 16, 2)
    alone(x)
    padded(torch.cat([x, torch.full((2, 8, 2), 7.0)], 1), lengths=torch.tensor([16, 16]))
    for one, other in zip(alone.stem.norms, padded.stem.norms, strict=True):
        torch.testing.assert_close(one.running_mean, other.running_mean)
        torch.testing.assert_close(one.running_var, other.running_var)


def test_what_a_stem_cannot_do_is_said():
    with pytest.raises(ValueError, match="unknown stem 'pool'"):
        SequenceClassifier("gru", 3, 5, 4, stem="pool")
    with pytest.raises(ValueError, match="a model with a stem cannot step"):
        SequenceClassifier("gru", 3, 5, 4, stem="conv").step(torch.randn(1, 3))


def test_a_single_step_in_a_batch_gets_the_running_statistics():
    """It has none of its own, and torch refuses it."""
    torch.manual_seed(0)
    stem = ConvStem(2)
    x = torch.randn(8, 4, 2)
    stem(x, None)  # whose statistics run on
    before = {name: value.clone() for name, value in stem.named_buffers()}
    one, _ = stem(x[:1, :1], None)
    padded, _ = stem(x[:1], torch.tensor([1]))
    assert all(torch.equal(value, before[name]) for name, value in stem.named_buffers())
    evaluated, _ = stem.eval()(x[:1, :1], None)
    assert torch.equal(one, evaluated)
    torch.testing.assert_close(padded, evaluated)
