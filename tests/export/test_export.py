"""What all exports have in common: the JSON form, the command, and trained runs that score the same elsewhere."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import exported
import jsonschema
import numpy as np
import pytest
import torch

from gatelab import Recurrent, cell, cells, floor, learned, sigmoid, tanh
from gatelab.errors import DataError, GatelabError
from gatelab.export import export, json_file, network_of, read_json, to_json, torch_module
from gatelab.export.check import Reference, Runner, beginning, check, in_pieces
from gatelab.export.network import Head, Network
from gatelab.export.numpy_run import NumpyRunner, convolved
from gatelab.export.target import Settings
from gatelab.export.write_export import TARGETS
from gatelab.lang.values import constant
from gatelab.models import StepPredictor
from gatelab.tasks.preparation import Preparation
from gatelab.tasks.scaling import Scaling
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, train

# The JSON form, and NumPy, which runs it.


@pytest.mark.export
@pytest.mark.parametrize("name", cells.names())
def test_every_cell_goes_through_json(name, tmp_path):
    done = to_json(exported.classifier(name, 1), tmp_path / "a.json")
    assert done.checked.difference < 1e-5


@pytest.mark.parametrize("kind", exported.KINDS)
def test_kinds_of_models_go_through_json(kind, tmp_path):
    model, whole = exported.kinds()[kind]
    json_file.write(whole, tmp_path / "a.json", None)
    jsonschema.validate(json.loads((tmp_path / "a.json").read_text()), json_file.schema())
    again = read_json(tmp_path / "a.json")
    assert check(model, again, NumpyRunner(again)).difference < 1e-6
    assert (again.name, again.read, again.carried) == (whole.name, whole.read, whole.carried)


def changed(document: dict, *keys: object, to: object) -> dict:
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    return document


def array(*shape: int) -> dict:
    return {"shape": shape, "float32": base64.b64encode(np.zeros(shape, "<f4")).decode()}


def convolution(channels: int, inputs: int, width: int, stride: int = 2) -> dict:
    return {"weight": array(channels, inputs, width), "bias": array(channels), "stride": stride}


ZEROS = array(8)


@pytest.mark.parametrize(
    ("keys", "to", "message"),
    [
        (("version",), 2, "version"),
        (("hidden_size",), 7, "W.r has the shape"),
        (("layers", 0, "fwd", "vectors", "z", "float32"), "AAAA", "does not fit the shape"),
        (("layers", 0, "fwd", "weights", "W.z"), None, "layers"),
        (("layers", 0), {"bwd": {"weights": {}, "vectors": {}, "scalars": {}}}, "directions bwd"),
        (("layers", 0, "fwd", "scalars"), {"epsilon": 1.0}, "the scalars are epsilon"),
        (("output", "size"), 4, "weight has the shape"),
        (("input", "scaling"), {"mean": [0.0], "deviation": [1.0]}, "1 means: expected 5"),
        (("input", "scaling"), {"mean": [0.0], "deviation": [0.0]}, "deviation"),
        (("cell", "nodes", 0), ["system", "x"], "equations"),
        (("surprise",), 1, "surprise"),
        (("name",), "../a", "name"),
        (("input", "differenced"), 100, "differenced has 100 entries"),
        (("output", "classes"), ["a"], "classes has 1 entries: expected 3"),
        (("input", "columns"), ["a"], "columns has 1 entries: expected 5"),
        (("read",), "median", "read"),
        (("read",), "attention", "query has the shape None: expected \\(8,\\)"),
        (("query",), ZEROS, "query has the shape \\(8,\\): expected None"),
        (("read",), "mean+max", "weight has the shape \\(3, 8\\): expected \\(3, 16\\)"),
        (("stem",), [{"weight": ZEROS, "bias": ZEROS, "stride": 2}], "expected an odd width"),
        (("stem",), [convolution(8, 5, 2)], "expected an odd width"),
        (("stem",), [convolution(8, 4, 3)], "weight has the shape \\(8, 4, 3\\): expected \\(8, 5, 3\\)"),
        (("stem",), [convolution(8, 5, 3, stride=0)], "stride"),
        (("stem",), [convolution(7, 5, 3)], "W.r has the shape \\(8, 5\\): expected \\(8, 7\\)"),
        (("head", "bias", "float32"), base64.b64encode(np.full(3, np.nan, "<f4")).decode(), "NaN or infinite"),
    ],
)
def test_a_file_that_is_wrong_is_refused(keys, to, message, tmp_path):
    document = json_file.document(network_of(exported.classifier("gru", 1)))
    (tmp_path / "a.json").write_text(json.dumps(changed(document, *keys, to=to)))
    with pytest.raises(DataError, match=f"a.json cannot be read.*{message}"):
        read_json(tmp_path / "a.json")


def test_a_stem_has_one_answer_per_sequence(tmp_path):
    document = json_file.document(network_of(StepPredictor("gru", exported.D, exported.H, 2, 1)))
    (tmp_path / "a.json").write_text(json.dumps({**document, "stem": [convolution(5, 5, 3)]}))
    with pytest.raises(DataError, match="there is a stem, and read is steps"):
        read_json(tmp_path / "a.json")


def test_a_file_that_is_not_json_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read as a gatelab network"):
        read_json(tmp_path / "a.json")


# Anything that is not a model.


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(GatelabError, match="a Linear cannot be exported: expected a Recurrent"):
        to_json(torch.nn.Linear(2, 2), tmp_path / "a.json")
    with pytest.raises(GatelabError, match=r"unknown target: 'onx'.*did you mean 'onnx'"):
        export(exported.classifier("gru", 1), "onx", tmp_path / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(GatelabError, match="folder is a folder: expected a file for json"):
        to_json(exported.classifier("gru", 1), tmp_path / "folder")


def test_a_check_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    model = exported.classifier("gru", 1)
    (tmp_path / "a.json").write_text("mine")
    monkeypatch.setattr(NumpyRunner, "_answer", lambda self, read, x: read[:, : exported.K])
    with pytest.raises(GatelabError, match="wrong, and was removed: the answer differs"):
        to_json(model, tmp_path / "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "mine"


# Trained runs.

SERIES = 315 + 0.1 * np.arange(400) + 3 * np.sin(2 * np.pi * np.arange(400) / 12)
RUNS = {  # task → settings of the model
    "digits": {"pool": "mean"},
    "digits:order=pixels,noise_pad=5": {"cell": "agru", "pool": "max"},
    "mnist1d": {"cell": "qrnn", "pool": "attention"},
    "sine": {"cell": "lstm", "num_layers": 2, "residual": True},
    "adding:length=20,size=500": {"bidirectional": True, "stem": "conv"},
    "copy:length=6,pause=5,size=500": {},
    "recall:delay=5,size=500": {"cell": "mgu"},
    "agreement:size=500": {"embedding_size": 6, "stem": "conv", "pool": "attention"},
    "files:path={folder}/series.csv,length=24": {},  # differenced, since it drifts
    "files:path={folder}/unequal.npz": {"cell": "lstm", "stem": "conv", "pool": "mean+max", "bidirectional": True},
    "text:path={folder}/text.txt": {},
}


def trained(task: str, folder, **model) -> Run:
    (folder / "series.csv").write_text("level\n" + "\n".join(f"{value:.3f}" for value in SERIES))
    (folder / "text.txt").write_text("to be or not to be, that is the question.\n" * 60)
    random = np.random.RandomState(0)
    y = random.randint(0, 2, 200)
    X = 1000 + random.standard_normal((200, 12, 2)) * (1 + y[:, None, None])
    np.savez(folder / "unequal.npz", X=X, y=np.array(["calm", "<b>wild</b>"])[y], lengths=random.randint(5, 13, 200))
    spec = RunSpec(
        task=task.format(folder=folder),
        model=ModelSpec(**{"hidden_size": 10, **model}),
        optimization=OptimizationSpec(learning_rate=0.02),
        training=TrainingSpec(num_epochs=2, batch_size=64, threads=1),
    )
    return train(spec, folder / "run").run


def raw(x: np.ndarray, whole: Network, prepared: Preparation) -> np.ndarray:
    """The units of the data, from what a model reads."""
    if whole.tokens:
        return x
    values = x.astype(np.float64)
    if prepared.scaling is not None:  # from the run's own record, not from what is tested
        values = prepared.scaling.undo(values)
    if whole.differenced:
        values = np.cumsum(values, axis=1) + 300
    return values.astype(np.float32)


ELSEWHERE = ("c", "js", "torch", "onnx")


@pytest.mark.parametrize("number", range(len(RUNS)), ids=lambda number: list(RUNS)[number].partition("{")[0])
def test_a_trained_run_scores_the_same_in_two_runtimes(number, tmp_path, cli):
    """On its test set: by NumPy, and by one of the others in turn."""
    scored_elsewhere(list(RUNS)[number], ("json", ELSEWHERE[number % len(ELSEWHERE)]), tmp_path, cli)


@pytest.mark.export
@pytest.mark.parametrize("task", RUNS, ids=lambda task: task.partition("{")[0])
def test_a_trained_run_scores_the_same_in_every_runtime(task, tmp_path, cli):
    scored_elsewhere(task, ELSEWHERE, tmp_path, cli)


def scored_elsewhere(task: str, targets: tuple[str, ...], tmp_path, cli) -> None:
    """Exported by the command, and run in the other runtimes, a run answers as it did."""
    run = trained(task, tmp_path, **RUNS[task])
    whole, saved = network_of(run), run.predictions()
    examples = run.spec().task.test
    x, _, lengths = examples.first(40)
    x, expected = raw(x.numpy(), whole, run.preparation), saved["predictions"][:40]
    if len(saved["predictions"]) == 1 and whole.read == "steps":  # one long sequence
        expected = expected[:, : x.shape[1]]
    for target in targets:
        out = tmp_path / f"out-{target}{TARGETS[target].suffix or ''}"
        code, said, err = cli("export", tmp_path / "run", "--to", target, "--out", out)
        assert code == 0, err
        assert "largest difference" in said
        runner = TARGETS[target].runner(whole, out)
        if lengths is None:
            answers = in_pieces(whole, runner, x, 2 if whole.carried else 1)[0]
        else:
            ends = lengths.numpy()
            rows = [runner(row[None, :end], beginning(whole, 1))[0][0] for row, end in zip(x, ends, strict=True)]
            answers = np.stack(rows)
        if whole.classes is not None:
            np.testing.assert_array_equal(answers.argmax(-1), expected.argmax(-1), err_msg=target)
            np.testing.assert_allclose(answers, expected, atol=1e-4, err_msg=target)
        elif whole.output_scale is not None:
            values = run.preparation.decode(expected, x)
            np.testing.assert_allclose(answers, values, rtol=1e-4, atol=1e-4, err_msg=target)
        else:
            np.testing.assert_allclose(answers, expected, atol=1e-4, err_msg=target)


def test_the_reference_is_the_model(tmp_path):
    """What exports are compared with is what a loaded run predicts."""
    import gatelab

    run = trained("digits", tmp_path)
    x = run.spec().task.test.stored[:5].numpy().astype(np.float32)
    expected = gatelab.load(run.path).predict_proba(x)
    scores = Reference(run.model(), network_of(run))(x)[0]
    np.testing.assert_allclose(torch.tensor(scores).softmax(-1), expected, atol=1e-6)


# Stems and pools.

POOLS = ("last", "mean", "max", "mean+max", "attention")
MODELS = list(itertools.product(POOLS, ("none", "conv"), (False, True)))  # pool, stem, bidirectional
RUNNERS = {  # how a network is written and run; without the exported program of PyTorch, which takes long
    **{name: (target.write, target.runner) for name, target in TARGETS.items()},
    "torch": (lambda whole, path, _: (path.mkdir(), torch_module.write_module(whole, path)), torch_module.run_module),
}
SAMPLED = {("attention", "none", False), ("mean+max", "conv", True), ("max", "none", True), ("last", "conv", False)}


def runner_of(whole: Network, target: str, folder: Path) -> Runner:
    if target == "keras":
        os.environ.setdefault("KERAS_BACKEND", "torch")
        pytest.importorskip("keras", reason="Keras is not installed: pip install 'gatelab[keras]'")
    if (program := {"c": "gcc", "js": "node"}.get(target)) and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    write, runner = RUNNERS[target]
    write(whole, folder / f"a{TARGETS[target].suffix or ''}", Settings())
    return runner(whole, folder / f"a{TARGETS[target].suffix or ''}")


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")  # of Keras
@pytest.mark.parametrize(
    ("target", "pool", "stem", "bidirectional"),
    [
        pytest.param(
            target,
            *model,
            marks=() if target == "json" or (model in SAMPLED and target != "keras") else pytest.mark.export,
        )
        for target, model in itertools.product(TARGETS, MODELS)
    ],
)
def test_sequences_of_unequal_length_one_by_one(target, pool, stem, bidirectional, tmp_path):
    """As the model answers to all of them in one padded batch, whose padding is not a number."""
    options = {"pool": pool, "stem": stem, "bidirectional": bidirectional, "residual": True}
    model = exported.as_trained(exported.classifier("gru", 2, **options))
    whole, lengths = network_of(model), [1, 2, 3, 4, 5, 9, 17, 31, 32]
    x = np.random.default_rng(5).standard_normal((len(lengths), max(lengths), exported.D)).astype(np.float32)
    for row, length in zip(x, lengths, strict=True):
        row[length:] = np.nan
    expected = model.double()(torch.from_numpy(x).double(), lengths=lengths).detach().numpy()
    run = runner_of(whole, target, tmp_path)
    rows = zip(x, lengths, strict=True)
    answers = np.concatenate([run(row[None, :length], beginning(whole, 1))[0] for row, length in rows])
    assert np.abs(answers - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")  # of Keras
@pytest.mark.parametrize("target", [t if t != "keras" else pytest.param(t, marks=pytest.mark.export) for t in TARGETS])
def test_scores_of_attention_beyond_the_range_of_exp(target, tmp_path):
    """Also in the first step, where the carried score of zero must not count."""
    model = exported.classifier("gru", 1, pool="attention").double()
    x = np.random.default_rng(6).standard_normal((3, 40, exported.D)).astype(np.float32)
    with torch.no_grad():
        output, _ = model.recurrent(torch.from_numpy(x).double())
        model.pooling.query.copy_(-6000 * output[0].mean(0))
        scores = output @ model.pooling.query
    assert scores[0].max() < -100  # all of one sequence are far below zero
    assert scores.max() > 100
    whole = network_of(model)
    expected = Reference(model, whole)(x)[0]
    run = runner_of(whole, target, tmp_path)
    for pieces in (1, 40):
        answers, _ = in_pieces(whole, run, x, pieces)
        assert np.abs(answers - expected).max() < 1e-3 * np.abs(expected).max()  # of scores in 32 bits


def test_batch_normalization_is_part_of_the_convolutions():
    model = exported.as_trained(exported.classifier("gru", 1, stem="conv")).double()
    x = torch.randn(3, 23, exported.D, dtype=torch.float64)
    values = x.numpy()
    for folded in network_of(model).stem:
        values = convolved(folded, values)
    expected = model.stem(x, None)[0].detach().numpy()
    assert values.shape == expected.shape == (3, 6, 64)
    np.testing.assert_allclose(values, expected, atol=1e-6)


# The check can fail.


class Wrong:
    """A runner that changes what another one answers."""

    def __init__(self, network: Network, change) -> None:
        self.run, self.change = NumpyRunner(network), change

    def __call__(self, x, carried):
        return self.change(*self.run(x, carried))


def test_a_cost_of_rounding_below_the_largest_excuses_no_more_than_itself(monkeypatch):
    model = exported.classifier("gru", 1)
    network = network_of(model)

    def costs(model, network, x, expected):
        return dict.fromkeys(expected.differences(expected.answer, expected.final), 2e-5)

    monkeypatch.setattr("gatelab.export.check._amplified", costs)
    with pytest.raises(GatelabError, match=r"expected at most 2\.0e-05") as raised:
        check(model, network, Wrong(network, lambda answer, carried: (answer * 1.0001, carried)))
    assert type(raised.value) is GatelabError  # and not one about a model that depends on rounding


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answer, carried: (answer * np.nan, carried), "not finite"),
        (lambda answer, carried: (answer + np.inf, carried), "not finite"),
        (lambda answer, carried: (answer * 1.0001, carried), "the answer differs by 3.8e-05 of its largest value"),
        (lambda answer, carried: (answer[:, :2], carried), "has the shape"),
        (lambda answer, carried: (answer, {n: v * 0 for n, v in carried.items()}), "the state h differs"),
    ],
)
def test_a_wrong_answer_is_noticed(change, message):
    model = exported.classifier("gru", 1)
    whole = network_of(model)
    with pytest.raises(GatelabError, match=message):
        check(model, whole, Wrong(whole, change))


def test_a_head_is_seen_beside_a_large_mean_of_the_targets():
    model, whole = exported.kinds()["scaled"]
    far = replace(whole, output_scale=Scaling(np.full(exported.K, 1e5), np.ones(exported.K)))
    check(model, far, NumpyRunner(far))
    silent = replace(far, head=Head(np.zeros_like(far.head.weight), far.head.bias))
    with pytest.raises(GatelabError, match="the answer differs"):
        check(model, far, NumpyRunner(silent))


def test_a_state_that_is_lost_between_calls_is_noticed():
    model = Recurrent("gru", exported.D, exported.H, batch_first=True)
    whole = network_of(model)
    run = NumpyRunner(whole)
    with pytest.raises(GatelabError, match=r"the answer differs by .*T = 2"):
        check(model, whole, lambda x, carried: run(x, beginning(whole, len(x))))


def test_a_state_that_is_lost_between_calls_of_a_fixed_length_is_noticed():
    model = Recurrent("gru", exported.D, exported.H, batch_first=True)
    whole = network_of(model)
    run = NumpyRunner(whole)
    assert check(model, whole, run, chunk=4).difference < 1e-6
    with pytest.raises(GatelabError, match=r"the answer differs by .*T = 12"):
        check(model, whole, lambda x, carried: run(x, beginning(whole, len(x))), chunk=4)


def test_the_largest_difference_is_reported_wherever_it_is():
    model = exported.classifier("gru", 1)
    whole = network_of(model)
    run = NumpyRunner(whole)

    def off_at_first(x, carried):
        answer, carried = run(x, carried)
        return answer * (1 + 5e-6 * (x.shape[1] == 1)), carried

    assert check(model, whole, run).difference < 1e-6 < check(model, whole, off_at_first).difference


@cell
def chaotic(x, h, W):
    """Doubles every difference from step to step."""
    return 1 - 1.99 * h * h + 0.001 * W.n(x)


@cell(given={"b.c": constant(0.7)})
def beside_a_threshold(x, h, W, b):
    """10 · 0.7 is below 7 if 0.7 alone is rounded to 32 bits, and 7 if the product is, too."""
    return 0.5 * tanh(W.n(x)) + floor(10 * (b.c + 0 * h))


@pytest.mark.parametrize("own", [chaotic, beside_a_threshold], ids=str)
def test_a_model_that_depends_on_rounding_is_exported_and_said_to_be_unchecked(own, tmp_path):
    done = export(Recurrent(own, 3, 8), "c", tmp_path / "c")
    assert done.checked is None
    assert "the model itself depends on rounding: in 32-bit floats it computes something else" in done.unchecked
    assert "of its largest value, T = 50" in done.unchecked
    assert (tmp_path / "c" / "network.c").is_file()


def test_an_export_of_a_model_that_depends_on_rounding_can_still_be_wrong():
    model = Recurrent(chaotic, 3, 8, batch_first=True)
    whole = network_of(model)
    with pytest.raises(GatelabError, match=r"the answer differs by 1.0e-03 of its largest value.*T = 1"):
        check(model, whole, Wrong(whole, lambda answer, carried: (answer * 1.001, carried)))


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = exported.classifier("gru", 1)
    model.head[-1].bias.data[0] = float("nan")
    for target in TARGETS:
        with pytest.raises(GatelabError, match="a weight is NaN or infinite"):
            export(model, target, tmp_path / target)
    assert list(tmp_path.iterdir()) == []


def test_every_weight_has_to_be_finite():
    options = {"embedding_size": 4, "stem": "conv", "pool": "attention"}
    for name, _ in exported.classifier("gru", 1, **options).named_parameters():
        model = exported.classifier("gru", 1, **options)
        dict(model.named_parameters())[name].data.view(-1)[0] = float("nan")
        with pytest.raises(GatelabError, match="a weight is NaN or infinite"):
            network_of(model)


# From JSON to the others.


def test_a_json_file_is_exported_further(tmp_path, cli):
    to_json(exported.classifier("agru", 2), tmp_path / "a.json")
    code, said, err = cli("export", tmp_path / "a.json", "--to", "c", "--out", tmp_path / "c", "--name", "again")
    assert code == 0, err
    assert "checked in gcc: largest difference" in said
    assert (tmp_path / "c" / "again.c").is_file()


# Names that meet.


@cell
def alike(x, h, next_h, W, U, b, *, alpha=learned(0.3), α=learned(0.7)):
    é = sigmoid(W.é(x) + U.é(h) + b.é * b.é)
    è = tanh(W.è(x) + U.è(next_h) + b.è * b.é)
    return alpha * é * h + (1 - é) * è, α * next_h + h * è


@pytest.mark.parametrize("target", ["c", "js", "torch", "onnx", "json"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    "own", [alike, exported.own, exported.prefixed, exported.two_masks, exported.slope_of_its_own], ids=str
)
def test_names_that_are_alike(own, bidirectional, target, tmp_path):
    model = exported.classifier(own, 1, bidirectional=bidirectional)
    assert export(model, target, tmp_path / "out").checked.difference < 1e-5


def test_names_of_columns_cannot_leave_a_comment(tmp_path):
    hostile = ("*\\", "\\*", "*/ int pwned; /*", "??/\n#error", "a\nb")
    model = exported.classifier("gru", 1)
    whole = replace(network_of(model), columns=hostile, classes=("*/", '"', "??/"))
    for target in ("c", "js", "torch", "onnx"):
        chosen = TARGETS[target]
        out = tmp_path / f"network{chosen.suffix or ''}" if chosen.suffix else tmp_path / target
        chosen.write(whole, out, Settings())
        check(model, whole, chosen.runner(whole, out))
    assert "pwned; /*" not in (tmp_path / "c" / "network.h").read_text()


# The command.


def test_files_of_others_are_not_replaced(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "network.h").write_text("mine")
    with pytest.raises(GatelabError, match=r"network.h was not written by gatelab: choose another --out or --name"):
        export(exported.classifier("gru", 1), "c", tmp_path / "c")
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["network.h"]
    export(exported.classifier("gru", 1), "c", tmp_path / "own", with_check=False)
    export(exported.classifier("gru", 1), "c", tmp_path / "own", with_check=False)  # its own are
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GatelabError, match="pipe is a pipe or device: expected a file for json"):
        to_json(exported.classifier("gru", 1), tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "own" / "new.json")
    to_json(exported.classifier("gru", 1), tmp_path / "link")
    assert (tmp_path / "own" / "new.json").is_file()


def test_the_command_says_what_it_wrote_and_found(tmp_path, cli):
    trained("digits", tmp_path)
    out = tmp_path / "c"
    code, said, _ = cli("export", tmp_path / "run", "--to", "c", "--out", out, "--name", "digit-reader", "--no-check")
    assert code == 0
    assert {path.name for path in out.iterdir()} == {"digit_reader.h", "digit_reader.c"}
    assert "not checked: not asked for" in said
    assert '"7",' in (out / "digit_reader.c").read_text()
    code, _, err = cli("export", tmp_path / "run", "--to", "json", "--out", tmp_path / "a.json", "--int8")
    assert code == 2
    assert "--int8 is not for json: expected it with --to c" in err
    code, _, err = cli("export", tmp_path, "--to", "json", "--out", tmp_path / "a.json")
    assert code == 2
    assert "is not a run directory" in err


def test_without_the_runtime_the_export_is_written_and_said_to_be_unchecked(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    done = export(exported.classifier("gru", 1), "c", tmp_path / "c")
    assert done.checked is None
    assert "gcc is not installed" in done.unchecked
    assert (tmp_path / "c" / "network.c").is_file()
