"""Every format that can be trained on can be predicted: the same interpretation, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gatelab
from gatelab import tasks
from gatelab.training import ModelSpec, Run, RunSpec, TrainingSpec, train
from gatelab.use.file_predictions import read

CLASSES = ("a", "b", "c")


def sequences(count: int = 40, seed: int = 0) -> list[tuple[str, np.ndarray]]:
    """Unequal sequences of two features with labels; every number has few digits, so that text is exact."""
    random = np.random.RandomState(seed)
    return [(CLASSES[i % 3], np.round(random.normal(size=(random.randint(4, 9), 2)) + i % 3, 4)) for i in range(count)]


def long_csv(path: Path, **more: bool) -> None:
    """Rows in the order of time over all sequences, so that those of one are not contiguous."""
    rows = [
        (step, f"{i:03}", value, label)
        for i, (label, x) in enumerate(sequences())
        for step, value in enumerate(x.tolist())
    ]
    lines = [
        f"{i},{step},{u},{v},{label},s{int(i) % 8}" for step, i, (u, v), label in sorted(rows, key=lambda row: row[0])
    ]
    path.write_text("id,t,u,v,label,speaker\n" + "\n".join(lines))


def gappy_csv(path: Path) -> None:
    """A long table with missing values, a missing step and a duplicate."""
    lines = []
    for i, (label, x) in enumerate(sequences()):
        for step, (u, v) in enumerate(x.tolist()):
            if not (i % 5 == 0 and step == 2):
                lines.append(f"{i},{step},{u},{'' if i % 7 == 3 and step == 1 else v},{label}")
            if i == 4 and step == 3:
                lines.append(f"{i},{step},{u + 1},{v},{label}")
    path.write_text("id,t,u,v,label\n" + "\n".join(lines))


def wide_csv(path: Path) -> None:
    lines = [
        ",".join([f"g{i}", label, ("train", "val", "test")[i % 3], *map(str, x[:, 0]), *[""] * (8 - len(x))])
        for i, (label, x) in enumerate(sequences())
    ]
    path.write_text("name,label,split," + ",".join(f"t{i}" for i in range(8)) + "\n" + "\n".join(lines))


def archive_tsv(path: Path) -> None:
    path.mkdir()
    for part, seed in (("TRAIN", 0), ("TEST", 1)):
        lines = [
            "\t".join([str(CLASSES.index(label) - 1), *map(str, x[:, 0]), *["NaN"] * (8 - len(x))])
            for label, x in sequences(seed=seed)
        ]
        (path / f"Toy_{part}.tsv").write_text("\n".join(lines) + "\n")


def archive_ts(path: Path) -> None:
    path.mkdir()
    for part, seed in (("TRAIN", 0), ("TEST", 1)):
        head = "@problemName Toy\n@timeStamps false\n@univariate false\n@dimensions 2\n@classLabel true c b a\n@data\n"
        cases = [
            ":".join([*(",".join(map(str, column)) for column in x.T), label]) for label, x in sequences(seed=seed)
        ]
        (path / f"Toy_{part}.ts").write_text("#\n" + head + "\n".join(cases))


def split_folders(path: Path) -> None:
    for i, (label, x) in enumerate(sequences()):
        folder = path / ("Train", "test")[i % 4 == 3] / label
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / f"{i:02}.csv", x, delimiter=",", header="u,v", comments="", fmt="%.4f")


def tokens_npz(path: Path) -> None:
    random = np.random.RandomState(0)
    np.savez(path, X=random.choice([3, 5, 7, 300], (40, 6)), y=np.arange(40) % 2, lengths=random.randint(3, 7, 40))


def tokens_long(path: Path) -> None:
    words = [("the", "cat", "sat"), ("a", "dog", "ran", "home"), ("the", "dog", "sat")]
    lines = [f"{i},{word},{'xy'[i % 2]}" for i in range(30) for word in words[i % 3]]
    path.write_text("id,word,label\n" + "\n".join(lines))


def many_tokens(path: Path) -> None:
    X = np.random.RandomState(0).permutation(np.arange(1200)).reshape(40, 30) % 400
    np.savez(path, X=X, y=np.arange(40) % 2, split=np.array(["train", "dev", "test", "train"] * 10))


def per_step_long(path: Path) -> None:
    lines = [f"{i},{u},{v},{u + v:.4f}" for i, (_, x) in enumerate(sequences()) for u, v in x.tolist()]
    path.write_text("id,u,v,target\n" + "\n".join(lines))


def named_npz(path: Path) -> None:
    random = np.random.RandomState(0)
    X = random.normal(size=(40, 5, 2))
    X[3, 2, 0] = np.nan
    np.savez(path, X=X, y=(np.arange(40) % 3).astype(float), classes=np.array(CLASSES))


FORMATS = {
    "long.csv": (long_csv, "group=speaker"),
    "gaps.csv": (gappy_csv, "fill=interpolate,aggregate=mean"),
    "wide.csv": (wide_csv, ""),
    "Toy": (archive_tsv, ""),
    "ToyTS": (archive_ts, ""),
    "folders": (split_folders, ""),
    "tokens.npz": (tokens_npz, "tokens=true"),
    "tokens.csv": (tokens_long, "tokens=true,columns=word"),
    "many.npz": (many_tokens, "tokens=true"),
    "steps.csv": (per_step_long, ""),
    "named.npz": (named_npz, "fill=previous"),
}


def trained(path: Path, task: object) -> Run:
    spec = RunSpec(
        task=task,
        model=ModelSpec(hidden_size=4, engine="eager"),
        training=TrainingSpec(num_epochs=1, batch_size=32, threads=1),
    )
    return train(spec, path).run


@pytest.mark.parametrize("name", FORMATS)
def test_raw_files_give_the_predictions_of_the_run(tmp_path, name, cli):
    make, options = FORMATS[name]
    make(tmp_path / name)
    text = f"files:path={tmp_path / name}" + (f",{options}" if options else "")
    run, task = trained(tmp_path / "run", text), tasks.get(text)
    model = gatelab.load(run.path)
    data = read(tmp_path / name, model.preparation)
    values, lengths = data.values, data.lengths
    saved = run.predictions()["predictions"]
    test = task.indices[2]
    output = model.output(values[test], None if lengths is None else lengths[test])  # a batch as in the run
    assert len(output) == len(saved)
    for row, expected, end in zip(output, saved, task.content.ends[test], strict=True):
        scored = slice(None) if not task.per_step else slice(int(end))
        assert (row[scored] == expected[scored]).all()
    code, out, err = cli("predict", run.path, tmp_path / name)
    assert code == 0
    titles = out.splitlines()[0].split(",")
    assert ("true" in titles, "predicted" in titles) == (True, True)
    assert ("accuracy" in err) == (task.classes is not None)
    assert "these are not test scores" in err


def test_new_files_need_no_labels(tmp_path, cli):
    long_csv(tmp_path / "long.csv")
    run = trained(tmp_path / "run", f"files:path={tmp_path / 'long.csv'}")
    expected = [line.split(",")[1] for line in cli("predict", run.path, tmp_path / "long.csv")[1].splitlines()]
    lines = [line.split(",") for line in (tmp_path / "long.csv").read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(",".join(cells[:4]) for cells in lines))
    code, out, err = cli("predict", run.path, tmp_path / "new.csv")
    assert (code, [line.split(",")[1] for line in out.splitlines()], err) == (0, expected, "")
    assert [line.split(",")[0] for line in out.splitlines()[1:3]] == ["000", "001"]  # by their ids
    one = [",".join(cells[2:4]) for cells in lines if cells[0] in ("id", "000")]
    (tmp_path / "one.csv").write_text("\n".join(one))
    code, out, _ = cli("predict", run.path, tmp_path / "one.csv")
    assert (code, out.splitlines()[1].split(",")[1]) == (0, expected[1])
    (tmp_path / "bad.csv").write_text("\n".join(",".join(cells[1:]) for cells in lines))
    code, _, err = cli("predict", run.path, tmp_path / "bad.csv")
    assert (code, "has no column 'id', which tells sequences apart as in training; its columns: t" in err) == (2, True)
    (tmp_path / "bad.csv").write_text("\n".join(",".join(cells[:3]) for cells in lines))
    code, _, err = cli("predict", run.path, tmp_path / "bad.csv")
    assert (code, "has no column 'v'" in err) == (2, True)


def test_archive_rows_need_no_labels(tmp_path, cli):
    archive_tsv(tmp_path / "Toy")
    run = trained(tmp_path / "run", f"files:path={tmp_path / 'Toy'}")
    test = tmp_path / "Toy" / "Toy_TEST.tsv"
    code, out, err = cli("predict", run.path, test)
    assert (code, "accuracy" in err, "not test scores" in err) == (0, True, False)
    (tmp_path / "new.tsv").write_text("\n".join(line.partition("\t")[2] for line in test.read_text().splitlines()))
    code, new, err = cli("predict", run.path, tmp_path / "new.tsv")
    assert (code, err) == (0, "")
    assert [row.split(",")[1:3] for row in new.splitlines()] == [row.split(",")[1:3] for row in out.splitlines()]
