"""Plain text: read exactly, split by position, small in memory, scored in bits, sampled from, used again."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gatelab
from gatelab import tasks
from gatelab.errors import DataError
from gatelab.tasks.text import encode, tokenize
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, train
from gatelab.training.verify import verify
from gatelab.use import sampling

WORDS = ["the", "cat", "saw", "a", "dog", "near", "the", "old", "house", "and", "it", "ran", "to", "us"]


def prose(words: int = 1200, seed: int = 0) -> str:
    """Sentences of random words, with line breaks and a letter that is two bytes long."""
    random = np.random.RandomState(seed)
    chosen = [WORDS[i] for i in random.randint(0, len(WORDS), words)]
    return "".join(f"{word}{'é.' + chr(10) if i % 9 == 8 else ' '}" for i, word in enumerate(chosen))


def text_file(folder: Path, text: str | None = None) -> Path:
    path = folder / "prose.txt"
    path.write_text(prose() if text is None else text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("text")
    spec = RunSpec(
        task=f"text:path={text_file(folder)}",
        model=ModelSpec(hidden_size=24),
        optimization=OptimizationSpec(learning_rate=1e-2),
        training=TrainingSpec(num_epochs=6, batch_size=8, threads=1, bptt=20),
    )
    return train(spec, folder / "run").run


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_the_text_is_read_exactly_and_split_by_position(tmp_path, unit):
    text = prose()
    task = tasks.get("text", path=text_file(tmp_path, text), unit=unit)
    pieces = list(text) if unit == "characters" else [bytes([b]).decode("latin-1") for b in text.encode()]
    expected = [piece if ord(piece) < 128 or unit == "characters" else f"\\x{ord(piece):02x}" for piece in pieces]
    assert task.vocabulary == tuple(sorted(set(expected), key=expected_order(unit)))
    train_end, validation_end = round(0.9 * len(expected)), round(0.95 * len(expected))
    parts = (expected[:train_end], expected[train_end:validation_end], expected[validation_end:])
    for stream, part in zip(task.in_streams().parts, parts, strict=True):
        x, y, _ = stream.first(1)
        assert [task.vocabulary[i] for i in x[0]] == part[:-1]
        assert [task.vocabulary[i] for i in y[0]] == part[1:]
    x, y, _ = task.validation.first(3)  # examples do not overlap
    assert torch.equal(x[1, 1:], y[1, :-1])
    assert [task.vocabulary[i] for i in x[1]] == parts[1][100:200]
    assert task.sizes == tuple((len(part) - 1) // 100 for part in parts)


@pytest.mark.parametrize("length", [10_000, 10_019, 10_020])
def test_the_sizes_are_the_numbers_of_examples_where_the_last_token_has_no_target(tmp_path, length):
    task = tasks.get("text", path=text_file(tmp_path, "abcde" * (length // 5) + "abcde"[: length % 5]))
    assert task.sizes == tuple(map(len, task.load()))


def expected_order(unit: str):
    return (lambda name: int(name[2:], 16) if name.startswith("\\x") else ord(name)) if unit == "bytes" else ord


def test_a_byte_order_mark_is_no_character(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes("\ufeff".encode() + prose().encode())
    assert "\ufeff" not in tasks.get("text", path=path).vocabulary
    assert tokenize(path, "bytes").tokens.size == len(prose().encode()) + 3


def test_many_different_characters(tmp_path):
    text = "".join(chr(0x4E00 + i) for i in np.random.RandomState(0).randint(0, 900, 6000)) + "\U0001f600"
    task = tasks.get("text", path=text_file(tmp_path, text))
    assert task.input_size == len(set(text))
    assert task.content.tokens.dtype == np.int32
    assert "".join(task.vocabulary[i] for i in task.content.tokens) == text
    assert np.array_equal(encode(text, task.vocabulary, "characters"), task.content.tokens)


def test_a_text_of_several_blocks_is_the_same_text(tmp_path, monkeypatch):
    path = text_file(tmp_path)
    whole = tokenize(path, "characters")
    monkeypatch.setattr("gatelab.tasks.text.BLOCK", 100)
    tokens, vocabulary = tokenize(path, "characters")
    assert vocabulary == whole.vocabulary
    np.testing.assert_array_equal(tokens, whole.tokens)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"too short", r"has 9 characters: expected at least 2,0\d\d"),
        (b"a" * 5000, "repeats one character"),
        (b"line\n" + b"caf\xe9 " * 900, "line 2: byte 0xe9 is not UTF-8: .* unit=bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, content, message):
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as raised:
        tasks.get("text", path=path).load()
    assert "t.txt" in str(raised.value)
    with pytest.raises(DataError, match=r"none\.txt does not exist: expected a text file"):
        tasks.get("text", path=tmp_path / "none.txt").load()
    with pytest.raises(DataError, match="is a folder: expected a text file"):
        tasks.get("text", path=tmp_path).load()


def test_memory_stays_near_the_size_of_the_text(tmp_path):
    """Sixteen megabytes of text, in a process of its own; tokens are bytes, examples and streams are views."""
    path = tmp_path / "long.txt"
    path.write_text(prose(1000) * 4000)
    script = (
        "import resource, sys; from gatelab import tasks; task = tasks.get('text', path=sys.argv[1])\n"
        "task.input_size; before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "task.parts, task.in_streams().parts, task.train.first(128)\n"
        "print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    blank = tmp_path / "short.txt"
    blank.write_text(prose(1000))
    small, large = (
        [int(kb) for kb in subprocess.check_output([sys.executable, "-c", script, file], text=True).split()]
        for file in (blank, path)
    )
    size = path.stat().st_size / 1024
    assert size > 16_000
    assert large[1] - small[1] < 5 * size  # the bytes, the decoded text, and the tokens twice
    assert large[1] - large[0] < small[1] - small[0] + 0.5 * size  # beside what any first use of libraries takes


def test_it_is_described_in_words_and_drawn(tmp_path, cli):
    path = text_file(tmp_path)
    code, out, _ = cli("tasks", f"text:path={path}", "--show", tmp_path / "text.png")
    assert code == 0
    for fact in ("bits per character", "-grams in the training text", "␣", "↵", "first 90 % training"):
        assert fact in " ".join(out.split())
    assert (tmp_path / "text.png").stat().st_size > 10_000


def test_a_network_beats_the_frequencies_of_letters(run):
    """Words are random: what there is to learn is how they are spelt."""
    manifest = run.manifest()
    assert manifest.baseline.metric == "bits_per_character"
    assert manifest.test["bits_per_character"] == pytest.approx(manifest.test["loss"] / math.log(2))
    assert manifest.test["bits_per_character"] < 1.6
    assert all(finding.good for finding in verify(run))
    best = min(run.metrics(), key=lambda line: line["validation_loss"])
    assert run.best_epoch() == best["epoch"]  # the loss selects the weights, not the accuracy


def test_the_test_result_is_that_of_the_whole_test_text(run):
    """Against one pass of the model over the text, in one piece."""
    task, model = run.spec().task.with_options(), run.model()
    x, y, _ = task.in_streams().test.first(1)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(x)[0], y[0])
    assert run.manifest().test["loss"] == pytest.approx(float(loss), rel=1e-5)
    scores = run.predictions()["predictions"]
    assert scores.shape == (1, x.shape[1], task.input_size)


def test_another_text_is_scored(run, tmp_path, cli, monkeypatch):
    other = text_file(tmp_path, prose(80, seed=5))
    code, out, err = cli("predict", run.path, other)
    assert code == 0
    rows = [line.rsplit(",", 1) for line in out.splitlines()[1:]]
    bits = -np.log2([float(p) for _, p in rows]).mean()
    assert f"bits per character {bits:.4f}" in err
    model = gatelab.load(run.path)
    text = other.read_text()
    probabilities = model.predict_proba(text)
    true = encode(text, model.preparation.vocabulary, "characters")
    assert bits == pytest.approx(-np.log2(probabilities[np.arange(len(true) - 1), true[1:]]).mean(), rel=1e-4)
    assert model.predict(text).shape == (len(text),)
    assert [len(one) for one in model.predict(["the cat", "a dog "])] == [7, 6]  # spaces are characters
    with monkeypatch.context() as patch:  # in pieces, with the state carried along
        patch.setattr("gatelab.use.text_files.STREAM_STEPS", 7)
        assert f"bits per character {bits:.4f}" in cli("predict", run.path, other)[2]
    other.write_text("ß" + text)
    code, _, err = cli("predict", run.path, other)
    assert code == 2
    assert "'ß' is not in the text that the model was trained on" in err
    assert "prose.txt" in err


def test_samples_are_reproducible_and_follow_the_model(run, cli):
    code, out, _ = cli("sample", run.path, "--length", "3e2", "--prompt", "the cat", "--seed", 3)
    assert code == 0
    assert out.startswith("the cat")
    assert len(out) == 7 + 300 + 1
    model = gatelab.load(run.path)
    assert out == "the cat" + model.sample(300, prompt="the cat", seed=3) + "\n"
    assert model.sample(300, prompt="the cat", seed=4) not in out
    known = [word.strip(".é") for word in model.sample(2000, temperature=0.3).split()[:-1]]
    assert np.mean([word in WORDS for word in known]) > 0.9
    cold = model.sample(50, temperature=0, prompt="a")
    assert cold == model.sample(50, temperature=0, prompt="a", seed=9)
    assert cold == model.sample(50, temperature=1e-12, prompt="a")


def test_a_token_is_drawn_by_the_place_of_the_random_number_in_the_shares():
    scores, places = np.log([0.2, 0.5, 0.3]), (0.0, 0.19, 0.21, 0.69, 0.71, 0.999)
    drawn = [sampling._draw(scores, 1.0, SimpleNamespace(uniform=lambda place=place: place)) for place in places]
    assert drawn == [0, 0, 1, 1, 2, 2]


def test_frequencies_in_samples_are_the_probabilities(run):
    """At temperature 1 the first characters after a prompt are distributed as the model says."""
    model = gatelab.load(run.path)
    p = model.predict_proba("the ")[-1]
    drawn = [model.sample(1, temperature=1.0, prompt="the ", seed=seed) for seed in range(400)]
    shares = np.array([drawn.count(token) for token in model.preparation.vocabulary]) / 400
    assert np.abs(shares - p).max() < 5 * math.sqrt(0.25 / 400)


def test_bytes_are_sampled_as_text(tmp_path, cli):
    spec = RunSpec(
        task=f"text:path={text_file(tmp_path)},unit=bytes",
        model=ModelSpec(hidden_size=8),
        training=TrainingSpec(num_epochs=1, batch_size=8, threads=1),
    )
    outcome = train(spec, tmp_path / "run")
    assert "bits_per_byte" in outcome.test
    code, out, _ = cli("sample", tmp_path / "run", "--prompt", "é", "--temperature", 2)
    assert code == 0
    assert out.startswith("é")
    code, _, err = cli("sample", tmp_path / "run", "--prompt", "\udcff")  # a byte of the command line that is no text
    assert code == 2
    assert r"'\\xff' is not in the text" in err
    code, _, err = cli("sample", tmp_path / "run", "--prompt", "\ud800")
    assert code == 2


def test_a_short_text_is_read_in_few_places_so_that_its_state_is_carried(tmp_path, cli):
    code, out, err = cli("train", "--task", f"text:path={text_file(tmp_path)}", "--hidden-size", 4, "--epochs", 1,
                         "--threads", 1, "--output-dir", tmp_path / "run")  # fmt: skip
    assert code == 0, err
    assert "read in 10 places at once instead of 128" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--length", 0], "length is 0: expected"),
        (["--length", 10**9], "length is 1000000000: expected an integer from 1 to 10,000,000"),
        (["--temperature", -1], "temperature is -1.0: expected"),
        (["--temperature", "nan"], "temperature is nan: expected"),
        (["--prompt", "Ω"], "'Ω' is not in the text that the model was trained on; it has ↵ ␣ . a"),
        (["--seed", -1], "seed is -1: expected"),
    ],
)
def test_what_cannot_be_sampled_is_refused(run, cli, arguments, message):
    code, _, err = cli("sample", run.path, *arguments)
    assert code == 2
    assert message in err


def test_other_models_do_not_write(run, tmp_path, cli):
    spec = RunSpec(task="recall:delay=2,size=50", training=TrainingSpec(num_epochs=1), model=ModelSpec(hidden_size=4))
    train(spec, tmp_path / "recall")
    code, _, err = cli("sample", tmp_path / "recall")
    assert code == 2
    assert "expected one of the task 'text'" in err
    code, _, err = cli("forecast", run.path)
    assert code == 2
    assert "use gatelab sample" in err
    code, _, err = cli("predict", run.path, run.path / "cell.txt", "--proba")
    assert code == 2
    assert "--proba is not for text" in err


def test_it_is_inspected_character_by_character(run):
    from gatelab import analysis

    inspection = analysis.inspect(run.path, sample=1)
    assert len(inspection.reading.words) == 100
    saved = run.predictions()
    second = slice(100, 200)
    assert inspection.predictions.targets[1].tolist() == saved["answers"][0, second].tolist()
    assert inspection.predictions.predicted[1].tolist() == saved["predictions"][0, second].argmax(-1).tolist()
    hits = (saved["predictions"].argmax(-1) == saved["answers"])[0]
    count = len(inspection.predictions.targets) * 100
    assert np.trace(inspection.predictions.confusion) == hits[:count].sum()
