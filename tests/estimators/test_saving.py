"""Directories that are saved completely or not at all: killed at any moment, the same command does it again."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from gatelab import disk
from gatelab.disk import refuse_place, whole_file, whole_folder
from gatelab.errors import GatelabError
from gatelab.sklearn import RecurrentClassifier, RecurrentForecaster

X, Y = np.random.RandomState(0).normal(size=(8, 6)), np.arange(8) % 2
SEQUENCES = {"hidden_size": 4, "max_epochs": 1, "stem": "none"}
SERIES = {"hidden_size": 4, "num_networks": 1, "num_steps": 1, "window": 4, "transform": "difference", "log": False}


def fitted(kind: str, seed: int = 0) -> RecurrentClassifier | RecurrentForecaster:
    if kind == "classifier":
        return RecurrentClassifier(**SEQUENCES, random_state=seed).fit(X, Y)
    return RecurrentForecaster(**SERIES, random_state=seed).fit(np.sin(np.arange(40.0)), fh=[1])


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# Folders.


def write(path: Path, **files: str) -> None:
    with whole_folder(path, "last", ("a", "last")) as made:
        (made / "in").mkdir()
        for name, text in files.items():
            (made / name).write_text(text)
        (made / "in" / "b").write_text("b")


def test_a_folder_is_there_when_it_is_complete(tmp_path, monkeypatch):
    moved, rename = [], os.rename

    def recorded(source, target):
        moved.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "rename", recorded)
    write(tmp_path / "new" / "kept", z="z", last="1", a="2")
    assert moved == ["a", "in", "z", "last"]
    assert names(tmp_path / "new" / "kept") == ["a", "in", "last", "z"]
    write(tmp_path / "new" / "kept", z="other", last="1", a="2")  # the same, as far as it is material
    assert (tmp_path / "new" / "kept" / "z").read_text() == "z"
    for more in ({"last": "1", "a": "3"}, {"last": "2", "a": "2"}):
        with pytest.raises(GatelabError, match=r"kept exists and is not empty: choose a new directory"):
            write(tmp_path / "new" / "kept", **more)
    assert names(tmp_path / "new" / "kept") == ["a", "in", "last", "z"]


@pytest.mark.parametrize("is_there", [False, True])
def test_what_fails_leaves_nothing(tmp_path, is_there):
    path = tmp_path / "kept"
    if is_there:
        path.mkdir()

    def interrupted():
        with whole_folder(path, "last", ()) as made:
            (made / "a").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == (["kept"] if is_there else [])
    assert not is_there or not names(path)


def test_a_place_with_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept" / ".gatelab-tmp-report.html.abc").write_text("another process is writing it")
    for name in ("kept", "file", "link"):
        with pytest.raises(GatelabError, match=f"{name} exists and is not empty: choose a new directory"):
            refuse_place(tmp_path / name)
        with pytest.raises(GatelabError, match="exists and is not empty"):
            write(tmp_path / name, a="1", last="2")
    assert names(tmp_path / "kept") == [".gatelab-tmp-report.html.abc", "mine"]


def test_an_unfinished_folder_takes_back_what_it_lists_and_nothing_outside(tmp_path):
    """The list may be forged."""
    for name in ("outside", "kept/mine", "kept/moved/file", "kept/.gatelab-tmp-folder-1/last"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "kept" / ".gatelab-tmp-folder-1" / disk.MOVED).write_text('["../outside", "moved", 3, "last"]')
    disk.clear_folders(tmp_path / "kept")
    assert names(tmp_path) == ["kept", "outside"]
    assert names(tmp_path / "kept") == ["mine"]
    (tmp_path / "kept" / ".gatelab-tmp-folder-2").mkdir()
    (tmp_path / "kept" / ".gatelab-tmp-folder-2" / disk.MOVED).write_text('["mine", "last"]')  # all was moved
    disk.clear_folders(tmp_path / "kept")
    assert names(tmp_path / "kept") == ["mine"]


# Estimators, killed at each operation on a file: the child exits there, and the parent saves once more.

KILLED = """
import os, pickle, shutil, sys
from pathlib import Path

FILES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "tempfile.mkdtemp", "tempfile.mkstemp")
os.fsync = lambda handle: None  # a process that is killed loses nothing that it has written


def until(moment, place, action):
    done = 0

    def count(event, arguments):
        nonlocal done
        done += event in FILES and place in str(arguments[0])
        if done == moment:
            os._exit(9)

    sys.addaudithook(count)
    action()
    os._exit(0)


def at_every_moment(place, action, again):
    action()
    whole = tree(place)
    shutil.rmtree(place)
    moment, code = 0, 9
    while code == 9:
        moment += 1
        if not (child := os.fork()):
            until(moment, place, action)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        again()
        assert tree(place) == whole, (moment, sorted(tree(place)), sorted(whole))
        shutil.rmtree(place)
    assert code == 0
    action()
    print(moment)


def tree(place):
    return {str(file.relative_to(place)): file.is_file() and file.read_bytes() for file in Path(place).rglob("*")}
"""

SAVED = (
    KILLED
    + """
_, given, place = sys.argv
model = pickle.loads(Path(given).read_bytes())
at_every_moment(place, lambda: model.save(place), lambda: model.save(place))
"""
)

FITTED = (
    KILLED
    + """
from gatelab.disk import clear_folders, refuse_place, write_text
from gatelab.fitting import file_task, forecasts, series_fit

_, given, place = sys.argv
settings = {(name,): value for name, value in eval(given).items()}
plan = series_fit.plan(
    file_task.read(Path(place).parent / "series.csv", "v", {}),
    horizon=2, cell=None, epochs=None, seed=0, threads=None, changes=settings,
)
fit = series_fit.fit_whole(series_fit.run_backtest(plan))


def save():
    forecasts.save(fit, Path(place), lambda made: write_text(made / "report.html", "."))


def again():
    clear_folders(Path(place))
    if not forecasts.is_done(plan, Path(place)):
        refuse_place(Path(place))
        save()


at_every_moment(place, save, again)
assert forecasts.is_done(plan, Path(place))
"""
)


def test_files_of_its_own_may_be_in_a_folder_before(tmp_path):
    (tmp_path / "own").write_text("before")
    with pytest.raises(GatelabError, match="exists and is not empty"):
        refuse_place(tmp_path)
    refuse_place(tmp_path, ["own"])
    with whole_folder(tmp_path, "last", (), ["own"]) as made:
        (made / "own").write_text("after")
        (made / "last").write_text("")
    assert (tmp_path / "own").read_text() == "after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "own"]


@pytest.mark.parametrize("kind", ["classifier", "forecaster"])
def test_killed_at_any_moment_an_estimator_is_saved_by_the_same_command(kind, tmp_path, forks):
    model = fitted(kind)
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    done = forks.run(SAVED, str(tmp_path / "model"), str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3 * 8  # files
    assert type(model).load(tmp_path / "kept").get_params() == model.get_params()


def test_killed_at_any_moment_a_fit_to_a_series_is_saved_by_the_same_command(tmp_path, forks):
    (tmp_path / "series.csv").write_text("v\n" + "\n".join(f"{np.sin(i):.3f}" for i in range(40)))
    done = forks.run(FITTED, repr(SERIES), str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3 * 10
    assert len(RecurrentForecaster.load(tmp_path / "kept").predict()) == 2


def test_a_model_that_is_fitted_again_is_saved_where_it_is(tmp_path):
    """A script that was killed just after saving fits and saves once more."""
    for kind in ("classifier", "forecaster"):
        for _ in range(2):
            fitted(kind).save(tmp_path / kind)
        with pytest.raises(GatelabError, match="exists and is not empty"):
            fitted(kind, 1).save(tmp_path / kind)


# Out of space.


@pytest.mark.parametrize("length", [10, 10**6])
def test_an_error_of_the_disk_names_the_file(tmp_path, length):
    """It comes when the file is written, or when what was written is brought to the disk."""
    path = tmp_path / "kept.txt"

    def write_on_a_full_disk():
        with whole_file(path) as file:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, file.fileno())
            os.close(full)
            file.write(b"x" * length)

    with pytest.raises(OSError, match=r"\[Errno 28\] No space left on device: '/.*/kept.txt'") as caught:
        write_on_a_full_disk()
    assert (caught.value.errno, caught.value.filename) == (28, str(path))
    assert not names(tmp_path)


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(OSError, match=r"no number: /.*/kept$"), whole_file(tmp_path / "kept"):
        raise OSError("no number")
    with pytest.raises(FileNotFoundError, match=r"absent'$"), whole_file(tmp_path / "kept") as file:
        file.write((tmp_path / "absent").read_bytes())
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"/file'$"), whole_file(tmp_path / "file" / "kept"):
        pass


@pytest.mark.parametrize("kind", ["classifier", "forecaster"])
def test_a_full_disk_is_named_by_save_and_leaves_nothing(kind, tmp_path, forks):
    (tmp_path / "model").write_bytes(pickle.dumps(fitted(kind)))
    script = """
import pickle, resource, signal, sys
from pathlib import Path
_, given, place = sys.argv
model = pickle.loads(Path(given).read_bytes())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    model.save(place)
except OSError as error:
    print(error.filename)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert not Path(place).exists()
model.save(place)
"""
    done = forks.run(script, str(tmp_path / "model"), str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).name in ("manifest.json", "model.json", "best.safetensors")
