"""Config files: read exactly, and all that is wrong said at once with file, line and the nearest right key."""

from __future__ import annotations

import pytest
import yaml

from gatelab import tasks
from gatelab.training import RunSpec, config

WRONG = """\
task: {name: mnist, ordr: pixels}
model:
  cell: gruu
  hiden_size: 3
  dropout: 0.2
training:
  num_epochs: ten
  patience: 0
optimisation:
  learning_rate: 1
optimization:
  learning_rate: -1
  momentum: 0.9
"""


def write(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_the_printed_example_is_every_key_at_its_default(tmp_path):
    spec = config.load(write(tmp_path, config.example()))
    assert spec == RunSpec()
    for section in ("model", "optimization", "training"):
        for name, field in type(getattr(spec, section)).model_fields.items():
            assert f"\n  {name}: " in config.example()
            assert field.description


def test_all_that_is_wrong_is_said_at_once_with_its_line(tmp_path):
    path = write(tmp_path, WRONG)
    with pytest.raises(ValueError, match=r"config\.yaml") as raised:
        config.load(path)
    said = {int(line.split(":")[1]): line for line in str(raised.value).splitlines()}
    assert "did you mean 'order'" in said[1]
    assert "model.cell: unknown cell 'gruu'; did you mean 'gru'" in said[3]
    assert "model.hiden_size: unknown key 'hiden_size'; did you mean 'hidden_size'" in said[4]
    assert "model.dropout: acts between layers and does nothing with num_layers: 1" in said[5]
    assert "training.num_epochs: this is 'ten': expected an integer" in said[7]
    assert "training.patience: this is 0: expected greater than or equal to 1" in said[8]
    assert "unknown key 'optimisation'; did you mean 'optimization'" in said[9]
    assert "optimization.learning_rate: this is -1: expected greater than 0" in said[12]
    assert "optimization.momentum: this is for sgd and rmsprop" in said[13]
    assert len(said) == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {options: {epsilon: 1.0}}", "1: model.options: unknown option of cell 'gru': 'epsilon'"),
        ("model: {freeze: [b.q]}", "1: model.freeze: unknown parameter of cell 'gru'"),
        ("model:\n  gate_bias: {q: 1.0}", "2: model.gate_bias: "),
        ("model: {freeze_at: 0.0}", "1: model.freeze_at: this needs freeze"),
        (
            "task: sine\nmodel: {bidirectional: true}",
            "2: model.bidirectional: a backward direction would see",
        ),
        (
            "task: digits\nmodel: {stem: conv}\ntraining: {record: [gradients]}",
            "3: training.record: the layers after a stem read other steps",
        ),
        ("task: copy\nmodel: {stem: conv}", "2: model.stem: the task 'copy' has a target at every step"),
        ("task: copy\nmodel: {pool: mean}", "2: model.pool: the task 'copy' has a target at every step"),
        ("task: adding\ntraining: {loss: cross_entropy}", "2: training.loss: cross_entropy does not fit"),
        ("task: digits\ntraining: {loss: mse}", "2: training.loss: mse does not fit"),
        (
            "task: adding\ntraining: {monitor: accuracy}",
            "2: training.monitor: the targets of the task 'adding' are",
        ),
        ("optimization: {learning_rate: 0.1, final_learning_rate: 0.2}", "1: optimization.final_learning_rate: "),
        ("training: 7", "1: training: this is 7: expected keys such as num_epochs"),
        ("model: {cell: agru, engine: native}", "1: model.engine: engine 'native' does not support cell 'agru'"),
        ("model:\n  hidden_size: true", "2: model.hidden_size: expected a value of another kind"),
        ("task:\n  name: sine\n  order: rows\n  length: 1", "3: task.order: unknown key 'order'"),
        ("task:\n  name: sine\n  order: rows\n  length: 1", "4: task.length: this is 1: expected greater"),
        ("task: {name: files}", "1: task.path: this has to be given"),
        ("task: files:path=/nowhere.csv", "1: task: there is no file or folder /nowhere.csv"),
        ("{1: 2, foo: 3}", "1: foo: unknown key 'foo'"),
        ("a: &x [*x]", "this is not a config"),
        ("a: \x01", "this is not YAML"),
        ("task: {order: rows}", "1: task: a task needs a name, one of digits, "),
        ("task: 7", "1: task: "),
        ("- a\n- b", "expected keys such as task"),
        ("model: {cell: gru\n", "this is not YAML"),
        ("training:\n  seed: 1\n  seed: 2\n", "3: the key 'seed' is there twice"),
        ("training: {learning_rate: .inf}", "unknown key 'learning_rate'"),
        ("optimization: {learning_rate: .inf}", "optimization.learning_rate: this is inf"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=r"config\.yaml") as raised:
        config.load(write(tmp_path, text))
    assert message in str(raised.value)


def test_nothing_is_invented_and_nothing_hidden(tmp_path):
    """A combination is wrong only if what it involves was right, and one of them does not hide the next."""

    def said(text: str) -> list[str]:
        with pytest.raises(ValueError, match="config") as raised:
            config.load(write(tmp_path, text))
        return [line.split(": ")[1] for line in str(raised.value).splitlines()]

    assert said("optimization: {optimizer: sdg, momentum: 0.9}") == ["optimization.optimizer"]
    assert said("model: {num_layers: two, dropout: 0.2}") == ["model.num_layers"]
    assert said("optimization: {learning_rate: abc, final_learning_rate: 0.01}") == ["optimization.learning_rate"]
    both = said("task: sine\nmodel:\n  dropout: 0.2\n  bidirectional: true\n  pool: mean")
    assert both == ["model.dropout", "model.bidirectional", "model.pool"]


def test_what_the_command_line_says_is_not_blamed_on_the_file(tmp_path):
    path = write(tmp_path, "training:\n  num_epochs: 5\n  seed: x")
    with pytest.raises(ValueError, match="config") as raised:
        config.load(path, {("training", "num_epochs"): 0})
    first, second = str(raised.value).splitlines()
    assert first.startswith("the command line: training.num_epochs: this is 0")
    assert second.startswith(f"{path}:3: training.seed: ")


@pytest.mark.parametrize("name", tasks.names())
def test_the_example_for_every_task(tmp_path, name):
    text = config.example(name)
    for option in tasks.find(name).model_fields:
        assert f"{option}: " in text
    if "path" not in tasks.find(name).model_fields:  # which needs a file
        assert config.load(write(tmp_path, text)).task.name == name


def test_an_empty_file_is_all_defaults_and_changes_are_laid_over(tmp_path):
    spec = config.load(write(tmp_path, ""), {("task",): "sine:length=20", ("training", "seed"): 7})
    assert spec.task.length == 20
    assert spec.training.seed == 7
    assert spec.training.batch_size == 128
    word = config.load(write(tmp_path, "task: sine:length=20"), {("task", "period"): 30})
    assert (word.task.length, word.task.period) == (20, 30)
    nested = config.load(write(tmp_path, "training: {seed: 3, patience: 4}"), {("training", "seed"): 5})
    assert (nested.training.seed, nested.training.patience) == (5, 4)


def test_no_object_is_ever_made_of_a_config(tmp_path):
    path = write(tmp_path, "task: !!python/object/apply:os.system ['touch ran']")
    with pytest.raises(ValueError, match=r"config\.yaml:1: this is not a config: the tag"):
        config.load(path)


def test_a_spec_is_a_document_and_back():
    spec = RunSpec.model_validate(
        {
            "task": {"name": "digits", "order": "pixels", "limit": 100},
            "model": {"cell": "agru", "options": {"epsilon": 0.5, "learnable_epsilon": False}, "freeze": ["b.z"]},
            "optimization": {"schedule": "cosine"},
        }
    )
    document = yaml.safe_load(yaml.safe_dump(spec.document()))
    assert config.parse(document, "here") == spec
    assert document["task"] == {"name": "digits", "order": "pixels", "limit": 100}
