"""Hostile configs and arguments: every key with values that it cannot have, every way to write those that it can, and
files that are no configs at all.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml
from hostile_cases import MEANING, REFUSED, SAME, SOUND, Answer, Case, Expected, in_record, means, refused

from gatelab import tasks
from gatelab.experiments.config import Design
from gatelab.training.spec import ModelSpec, OptimizationSpec, TrainingSpec

FILE = "config.yaml"
SECTIONS = {"model": ModelSpec, "optimization": OptimizationSpec, "training": TrainingSpec}
# Valid together with every single key that is changed below.
TRAIN = {
    "task": {"name": "digits", "limit": "100"},
    "model": {"cell": "gru", "hidden_size": "6", "num_layers": "2", "engine": "eager", "freeze": "[b.z]"},
    "optimization": {"optimizer": "sgd", "learning_rate": "0.5"},
    "training": {"num_epochs": "1", "batch_size": "32", "threads": "1", "seed": "3"},
}
BENCH = {
    "task": TRAIN["task"],
    "models": {"gru": "{hidden_size: 5}", "lstm": "{hidden_size: 4}"},
    "model": {"engine": "eager"},
    "optimization": TRAIN["optimization"],
    "training": TRAIN["training"],
    "runs": "2",
}
ABLATE = {
    "task": TRAIN["task"],
    "model": {"cell": "gru", "hidden_size": "4", "engine": "eager"},
    "training": TRAIN["training"],
    "arms": {"no_r": "{remove: {r: 1.0}}", "open": "{init: {b.z: 2.0}}"},
    "runs": "1",
}
BASES = {"train": TRAIN, "bench": BENCH, "ablate": ABLATE}
COMMANDS = {name: (name, FILE, "--output-dir", "out") for name in BASES}

LONG = "a" * 10_000
NO_NUMBER = [
    ".nan",
    ".inf",
    "-.inf",
    "1e400",
    "abc",
    "true",
    "yes",
    "[]",
    "[1]",
    "{}",
    "{a: 1}",
    "2024-01-01",
    "1:30",
    "0b11",
    '"\\0"',
    '"1\\n2"',
    "1,5",
    "1 2",
    "!!binary aGk=",
    "!!python/name:os.system x",
    "!!set {1}",
    LONG,
    "'",
    "*unknown",
    "1" * 5000,
    "''",
]
NO_INTEGER = [*NO_NUMBER, "-1", "1.5", "15e-1", "1e300", "1" * 39, "18446744073709551616", "-18446744073709551616"]
NO_TRUTH = ["2", "abc", "[]", "{}", "1.5", ".nan", "null", LONG, '"\\0"', "2024-01-01"]
NO_CHOICE = ["abc", "1", "[]", "{}", "true", "1.5", "null", LONG, '"\\0"', "2024-01-01"]
TWELVE = ["12", "12.0", "1.2e1", "0xc", "0o14", "'12'", "012", "+12", "120E-1", "12 # twelve", "!!int 12", "&a 12"]
QUARTER = ["0.25", ".25", "2.5e-1", "25E-2", "+0.25", "'0.25'", "0.250", "!!float 0.25", "2.5e-01"]
BY_NAME = {
    "gate_bias": (
        [
            "1",
            "abc",
            "[r]",
            "{q: 1}",
            "{r: .nan}",
            "{r: 1e300}",
            "{r: abc}",
            "{r: true}",
            "{r: null}",
            "{r: [1]}",
            "null",
        ],
        {"{r: 1e-1}": {"r": 0.1}, "{r: 1}": {"r": 1.0}},
    ),
    "remove": (
        ["1", "abc", "[r]", "{q: 1}", "{r: .nan}", "{r: 1e300}", "{r: 2}", "{r: true}", "{r: null}", "null"],
        {"{r: 1e0}": {"r": 1.0}},
    ),
    "options": (["1", "abc", "[]", "{epsilon: 1}", "{1: 2}", "null"], {"{}": {}}),
    "freeze": (["1", "abc", "[q]", "[1]", "{a: 1}", "[null]", "[[b.z]]", "null"], {"[b.r, b.z]": ["b.r", "b.z"]}),
    "record": (["1", "abc", "[1]", "{a: 1}", "[null]", "null"], {"gradients": ["gradients"]}),
    "cell": (
        ["1", "abc", "[]", "{}", "null", LONG, '"\\0"', "a.py", "a.py:b", "/:b", ".py:x", "true"],
        {"'gru'": "gru"},
    ),
}
# What is too large, and what is only large.
HUGE = {
    "model.hidden_size": ["1e9", "1e6"],
    "model.num_layers": ["1e9", "1e6"],
    "training.threads": ["1e5", "100000"],
    "model.freeze_at": ["1e300", "-1e39"],
    "runs": ["1e9", "1e5"],
}
LARGE = {"training.batch_size": "1e9", "training.num_epochs": "1e9", "training.patience": "1e9", "model.chrono": "1e9"}
TOO_LARGE_TASKS = {
    "adding": ("length", "size"),
    "copy": ("length", "pause", "size"),
    "recall": ("delay", "size"),
    "agreement": ("gap", "size"),
    "sine": ("duration", "length"),
    "digits": ("noise_pad",),
}


def rendered(config: dict[str, Any]) -> str:
    """The YAML text of sections whose values are YAML texts."""
    lines = []
    for name, value in config.items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {key}: {inner}" for key, inner in value.items())]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines) + "\n"


def with_value(config: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    section, _, name = key.partition(".")
    if not name:
        return {**config, section: value}
    inner = config.get(section)
    return {**config, section: {**(inner if isinstance(inner, dict) else {}), name: value}}


def text_file(text: str | bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / FILE).write_bytes(text.encode() if isinstance(text, str) else text)

    return write


def base(command: str) -> Case:
    return Case("config", command, COMMANDS[command], Expected(SAME), text_file(rendered(BASES[command])))


def config_case(command: str, name: str, text: str | bytes, expected: Expected) -> Case:
    return Case("config", f"{command}: {name}", COMMANDS[command], expected, text_file(text), base(command))


def key_case(command: str, key: str, value: str, expected: Expected) -> Case:
    text = rendered(with_value(BASES[command], key, value))
    return config_case(command, f"{key}: {value[:40]}", text, expected)


def kinds(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *get_args(annotation))


# Keys.


def of_keys() -> Iterator[Case]:
    """Every key of a run, with what it cannot be and what it can."""
    for section, spec in SECTIONS.items():
        for name, field in spec.model_fields.items():
            key, known = f"{section}.{name}", kinds(field.annotation)
            for command in ("train", "bench") if section != "model" else ("train",):
                yield from of_key(command, key, name, known)
    for section in SECTIONS:
        for value in ("null", "[]", "[a, b]", "7", "abc", "true", "2024-01-01", "[[]]"):
            yield key_case("train", section, value, refused(FILE, section))
        for name in ("hiden_size", "1", "null", "true", "~", LONG, '"a\\nb"', "2024-01-01", "'<<'", "é"):
            yield key_case("train", f"{section}.{name}", "1", refused(FILE, section))
    for key, values in HUGE.items():
        for value in values:
            yield key_case(
                "bench" if key == "runs" else "train", key, value, refused(key.rpartition(".")[2].removesuffix("_at"))
            )
    for key, value in LARGE.items():
        yield key_case("train", key, value, means(in_record(key, int(float(value)))))
    yield key_case("bench", "training.seed", str(2**63 - 1), refused(FILE, "seed"))


def of_key(command: str, key: str, name: str, known: tuple[Any, ...]) -> Iterator[Case]:
    no, yes = NO_CHOICE, dict[str, Any]()
    if name in BY_NAME:
        no, yes = BY_NAME[name]
    elif bool in known:
        no, yes = NO_TRUTH, {"true": True, "yes": True, "True": True, "on": True, "false": False}
    elif name in ("bptt", "embedding_size"):  # which do not go with the task of the configs
        no = [*NO_INTEGER, *TWELVE]
    elif int in known:
        no, yes = NO_INTEGER, dict.fromkeys(TWELVE, 12)
    elif float in known:
        no, yes = NO_NUMBER, dict.fromkeys(QUARTER, 0.25)
    if type(None) in known:
        yes = {**yes, "null": None, "~": None}
    elif name not in BY_NAME and bool not in known:
        no = [*no, "null", "~"]
    for value in dict.fromkeys(no):
        yield key_case(command, key, value, refused(FILE, name if value not in ("'", "*unknown") else FILE))
    for value, meaning in yes.items():
        if (command, name) not in (("bench", "seed"), ("bench", "test")):  # which are counted up, and refused
            yield key_case(command, key, value, means(in_record(key, meaning)))


def of_tasks() -> Iterator[Case]:
    """Every option of every task that needs no files."""
    small = {"size": "20", "duration": "400", "limit": "100", "length": "10", "delay": "5", "pause": "3", "gap": "12"}
    for task in tasks.names():
        if task in ("files", "text", "mnist", "fashion_mnist", "cifar10"):
            continue
        fields = tasks.find(task).model_fields
        own = {name: value for name, value in small.items() if name in fields}
        for name, field in fields.items():
            known = kinds(field.annotation)
            no = (
                NO_INTEGER
                if int in known
                else NO_NUMBER
                if float in known
                else NO_TRUTH
                if bool in known
                else NO_CHOICE
            )
            yes: dict[str, Any] = dict.fromkeys(TWELVE, 12) if int in known else {}
            yes |= dict.fromkeys(QUARTER, 0.25) if float in known and name == "noise" else {}
            config = {**TRAIN, "task": {"name": task, **own}}
            if name == "duration":
                yes = {"4e2": 400, "400.0": 400}
            elif (task, name) in (("copy", "symbols"), ("recall", "symbols"), ("agreement", "shortest_gap")):
                yes = {"8e0": 8} if name == "symbols" else {"4e0": 4}
            for value in dict.fromkeys(no):
                if value == "null" and type(None) in known:
                    continue
                text = rendered(with_value(config, f"task.{name}", value))
                words = (FILE, name) if value not in ("'", "*unknown") else (FILE,)
                yield config_case("train", f"{task}.{name}: {value[:40]}", text, refused(*words))
            for value, meaning in yes.items():
                text = rendered(with_value(config, f"task.{name}", value))
                yield config_case("train", f"{task}.{name}: {value}", text, means(option_is(task, name, meaning)))
        for name in TOO_LARGE_TASKS.get(task, ()):
            for value in ("1e9", "2147483647"):
                text = rendered(with_value({**TRAIN, "task": {"name": task, **own}}, f"task.{name}", value))
                yield config_case("train", f"{task}.{name}: {value}", text, refused(name))
    for value in ("null", "[]", "''", "false", "0", "7", "{}", "{order: rows}", "abc", LONG, "[digits]", "{name: [a]}"):
        yield key_case("train", "task", value, refused(FILE, "task"))
    for value in (
        "digits:limit=1e2",
        "'digits: limit=100'",
        "{name: digits, limit: 1e2}",
        "{limit: 100.0, name: digits}",
    ):
        yield key_case("train", "task", value, Expected(SAME))


def option_is(task: str, name: str, value: Any) -> Callable[[Answer], str]:
    """The task has this option; a value that is the default is not in the document."""
    is_default = tasks.find(task).model_fields[name].default == value
    return in_record("task.name", task) if is_default else in_record(f"task.{name}", value)


# Comparisons.


def of_comparisons() -> Iterator[Case]:
    for value in ("null", "[]", "[gru]", "7", "gru", "{}", "{gru: 7}", "{gru: [1]}", "{'': {}}", f"{{{LONG}: {{}}}}"):
        yield key_case("bench", "models", value, refused(FILE, "models"))
    for name in ('"a\\nb"', "../up", "a/b", "-x", "'*'", "'<b>'", '"\\u202e"', "' '", ".hidden", "con:x"):
        yield key_case("bench", "models", f"{{{name}: {{cell: gru}}, lstm: {{}}}}", refused(FILE))
    for value in [*NO_INTEGER, "0", "null"]:
        yield key_case("bench", "runs", value, refused(FILE, "runs" if value not in ("'", "*unknown") else FILE))
    for value in ("2", "2.0", "2e0", "'2'", "0x2"):
        yield key_case("bench", "runs", value, Expected(SAME))
    for name in Design.model_fields:
        if name not in ("runs", "base", "ablation"):
            for value in ("abc", "7", "[1]", "{a: 1}", "null"):
                yield key_case("bench", name, value, refused(FILE, name))
    for value in ("abc", "7", "[]", "{}", "{trials: 9}"):
        yield key_case("bench", "tune", value, refused(FILE, "tune"))
    for value in (
        "7", "abc", "null", "[]", "[1]", "{}", "{log: [1, 2], uniform: [1, 2]}", "{log: 1}", "{log: [1]}",
        "{log: [2, 1]}", "{log: [0, 1]}", "{log: [.nan, 1]}", "{log: [1, .inf]}", "{uniform: [-1, 1]}",
        "{uniform: [1e-3, 1e400]}", "[1e-3, -1]", "[1e-3, abc]", "[1e-3, {}]", "{choices: 7}", "{linear: [1, 2]}",
    ):  # fmt: skip
        yield key_case("bench", "tune", f"{{space: {{learning_rate: {value}}}}}", refused(FILE, "learning_rate"))
    for name in ("seed", "cell", "num_epochs", "threads", "test", "options", "gate_bias", "gate_bias.q", "a.b.c"):
        yield key_case("bench", "tune", f"{{space: {{{name}: [1, 2]}}}}", refused(FILE, "tune"))
    for value in (*NO_INTEGER, "0", "1", "-3", "1e9"):
        yield key_case("bench", "tune", f"{{space: {{learning_rate: [0.1, 0.2]}}, trials: {value}}}", refused(FILE))
    for value in ("abc", "7", "[]", "{}", LONG):
        yield key_case("bench", "base", value, refused(FILE, "base"))
    for value in ("null", "[]", "7", "abc", "{}", "{x: 7}", "{x: [1]}", "{x: {remove: {q: 1}}}", "{x: {remove: 1}}"):
        yield key_case("ablate", "arms", value, refused(FILE, "arms"))
    for value in ("{x: {init: {b.z: 1e300}}}", "{x: {init: {b.z: .nan}}}", "{x: {init: {z: 1}}}", "{x: {init: 1}}"):
        yield key_case("ablate", "arms", value, refused(FILE, "arms"))
    for value in (
        "null",
        "[]",
        "7",
        "{a: 1}",
        "{a: [1]}",
        "{a: [1, 1]}",
        "{init_z: [0, .nan]}",
        "{init_z: [0, 1e300]}",
    ):
        yield key_case("ablate", "factors", value, refused(FILE, "factors"))
    for value in ("null", "[]", "7", "{}", "{a: 7}", "{'a b': {task: sine}}", "{a: {task: nothing}}"):
        yield key_case("bench", "studies", value, refused(FILE))


# Texts.


def laughs(levels: int, merged: bool = False) -> str:
    """Each level has the one before ten times: a few hundred bytes, 10^levels values."""
    lines = ["a0: &a0 {x: 1}" if merged else "a0: &a0 [x, x]"]
    for i in range(1, levels):
        inside = ", ".join([f"*a{i - 1}"] * 10)
        lines.append(f"a{i}: &a{i} {{<<: [{inside}]}}" if merged else f"a{i}: &a{i} [{inside}]")
    return "\n".join(lines) + "\n"


def of_texts() -> Iterator[Case]:
    """Texts that are no config, and the same config in other words."""
    text = rendered(TRAIN)
    no: dict[str, str | bytes] = {
        "billion laughs": laughs(12) + text,
        "billion laughs by merging": laughs(12, merged=True) + text,
        "aliases in a chain": "\n".join(["a0: &a0 [1]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 2000))]),
        "itself": "model: &m {cell: *m}\n",
        "itself merged": "model: &m {<<: *m}\n",
        "deep lists": "task: " + "[" * 50_000,
        "deep closed lists": "task: " + "[" * 5_000 + "]" * 5_000,
        "deep mappings": "task: " + "{a: " * 20_000,
        "deep blocks": "".join(f"{' ' * i}a:\n" for i in range(400)),
        "deep sequences": "- " * 20_000 + "a\n",
        "two documents": f"{text}---\n{text}",
        "a list": "- a\n- b\n",
        "a word": "abc\n",
        "a number": "7\n",
        "a tab": "task:\n\tname: digits\n",
        "a control character": text + "x: \x01\n",
        "NUL": text.encode() + b"\0",
        "latin-1": text.encode() + b"# caf\xe9\n",
        "UTF-16": text.encode("utf-16"),
        "UTF-32": text.encode("utf-32"),
        "bytes": bytes(range(256)) * 8,
        "zeros": bytes(5000),
        "a megabyte": text + "# " + "x" * 1_000_000,
        "many keys": "".join(f"k{i}: {i}\n" for i in range(9000)),
        "many words": "model: {cell: [" + "a," * 60_000 + "]}\n",
        "a long line": f"x: {'y' * 150_000}\n",
        "a key twice": text + "training: {}\n",
        "an inner key twice": text.replace("  seed: 3\n", "  seed: 3\n  seed: 4\n"),
        "a list as a key": "? [a, b]\n: 1\n" + text,
        "a mapping as a key": "{a: 1}: 2\n",
        "an object": "task: !!python/object/apply:os.system [touch ran]\n",
        "an unknown tag": "task: !thing {name: digits}\n",
        "a directive": "%YAML 9.9\n---\ntask: digits\n",
        "an open quote": text + 'x: "abc\n',
        "an anchor twice used wrongly": text + "x: *nothing\n",
        "an unknown key": text + "trainin: {}\n",
        "merged from a list": text + "<<: [1, 2]\n",
    }
    for name, wrong in no.items():
        yield config_case("train", name, wrong, refused(FILE))
        yield config_case("bench", name, wrong, refused(FILE))
    flow = re.sub(r"\n  ", ", ", re.sub(r":\n  ", ": {", text)).replace("\n", "}\n")
    same: dict[str, str | bytes] = {
        "a byte order mark": b"\xef\xbb\xbf" + text.encode(),
        "carriage returns": text.replace("\n", "\r\n"),
        "comments": "# one\n" + text.replace("\n", " # two\n"),
        "a document": f"---\n{text}...\n",
        "a directive": f"%YAML 1.2\n---\n{text}",
        "flow": flow,
        "other order": rendered(dict(reversed(TRAIN.items()))),
        "blank lines": text.replace("\n", "\n\n"),
        "an alias": text.replace("seed: 3", "seed: &s 3")
        .replace("num_epochs: 1", "num_epochs: &e 1")
        .replace("threads: 1", "threads: *e")
        if text.index("num_epochs") < text.index("threads")
        else text,
        "merged": text.replace("training:\n", "training:\n  <<: {seed: 99, batch_size: 32}\n"),
        "quoted keys": re.sub(r"(\w+):", r"'\1':", text),
        "tags": text.replace("hidden_size: 6", "hidden_size: !!int 6").replace("cell: gru", "cell: !!str gru"),
        "no line end": text.rstrip("\n"),
        "spaces": text.replace("\n", "   \n"),
    }
    for name, right in same.items():
        yield config_case("train", name, right, Expected(SAME))


def special(folder: Path, kind: str) -> None:
    path = folder / FILE
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("/dev/zero", "/dev/urandom", "/dev/tty", "nowhere", FILE):
        path.symlink_to(kind)


def of_places() -> Iterator[Case]:
    """Something else in the place of the config."""
    for command in ("train", "bench", "ablate"):
        for kind in ("missing", "directory", "pipe", "/dev/zero", "/dev/urandom", "/dev/tty", "nowhere", FILE):
            write = partial(special, kind=kind)
            yield Case("config", f"{command}: {kind}", COMMANDS[command], refused(FILE), write)
    for path in ("/dev/null", "/dev/zero", "/proc/self/mem", "/", "", "a" * 5000, "a\nb", "\udcff"):
        yield Case("config", f"train: {path[:20]!r}", ("train", path, "--output-dir", "out"), refused())


# Arguments.


def of_arguments() -> Iterator[Case]:
    train = ("train", FILE, "--output-dir", "out")
    write = text_file(rendered(TRAIN))
    numbers = ("nan", "inf", "abc", "1.5", "", "1e300", "-1", "9" * 5000, "1e400", "true", "0x", "１.５")
    for flag, key in (
        ("--hidden-size", "model.hidden_size"),
        ("--layers", "model.num_layers"),
        ("--seed", "training.seed"),
        ("--batch-size", "training.batch_size"),
        ("--epochs", "training.num_epochs"),
        ("--threads", "training.threads"),
    ):
        for value in numbers:
            name = key.rpartition(".")[2]
            word = name if value in ("-1", "1e300") else flag
            yield Case("argument", f"{flag} {value[:20]}", (*train, flag, value), refused(word), write, base("train"))
        for value in ("4", "4e0", "4.0", "+4", "40e-1"):
            yield Case("argument", f"{flag} {value}", (*train, flag, value), means(in_record(key, 4)), write)
    for value in ("100000", "1e9"):
        yield Case("argument", f"--threads {value}", (*train, "--threads", value), refused("threads"), write)
    for value in ("nan", "inf", "abc", "", "-1", "0", "1e400"):
        case = (*train, "--learning-rate", value)
        yield Case("argument", f"--learning-rate {value}", case, refused("learning"), write)
    settings: dict[str, Expected] = {
        "optimization.learning_rate=1e-2": means(in_record("optimization.learning_rate", 0.01)),
        "model.hidden_size=1e1": means(in_record("model.hidden_size", 10)),
        "model.gate_bias={r: 1e-1}": means(in_record("model.gate_bias", {"r": 0.1})),
        "model.gate_bias.r=1e-1": means(in_record("model.gate_bias", {"r": 0.1})),
        "task.limit=5e1": means(in_record("task.limit", 50)),
        **{
            text: refused()
            for text in (
                "",
                "=",
                "=1",
                "model",
                "model=",
                "model=7",
                "model.=1",
                ".=1",
                "..=2",
                "model.hidden_size",
                "model..x=1",
                "model.hidden_size=",
                "model.hidden_size=[",
                f"model.hidden_size={'[' * 5000}",
                "a" * 10_000 + "=1",
                "model.hidden_size=&a [*a]",
                "model.hidden_size=!!python/name:x y",
                "training.seed=1e30",
                "x\ny=1",
                "model.hidden_size=1e9",
                "task=null",
                "task.name=nothing",
                "training=[]",
                "model.cell=7",
            )
        },
    }
    for text, expected in settings.items():
        yield Case("argument", f"--set {text[:40]}", (*train, "--set", text), expected, write, base("train"))
    texts: dict[str, Expected] = {
        "sine:noise=1e-2,duration=1e3": means(in_record("task.duration", 1000)),
        "sine:noise=1e-2,duration=4e2,length=1e1": means(in_record("task.noise", 0.01)),
        "adding:size=2e1,length=1e1": means(in_record("task.length", 10)),
        " digits : limit = 100 ": Expected(SAME),
        "digits:limit=100\n": Expected(SAME),
        **{
            text: refused()
            for text in (
                "",
                ":",
                "digits:",
                ":limit=100",
                "digits:limit",
                "digits:=3",
                "digits:limit=",
                "digits:limit=1,limit=2",
                "sine:length=nan",
                "sine:length=1e9",
                "sine:period=inf",
                "sine:noise=1e400",
                "digits:noise_pad=1e9",
                "files:path=",
                "files:path=.",
                "files:path=/dev/zero",
                "files",
                "files:nothing",
                LONG,
                "digits:a=" + LONG,
                "x\ny",
                "recall:delay=1e12",
                "adding:size=1e12",
                "digits:seed=1e30",
                "digits:limit=1.5",
                "mnist:data_dir=/dev/zero",
                "\udcff",
                "files:path=\udcff.csv",
            )
            if text != "digits:"
        },
    }
    for text, expected in texts.items():
        yield Case("argument", f"--task {text[:40]!r}", (*train, "--task", text), expected, write, base("train"))
        if expected.kind == REFUSED and text not in ("files",):
            described = Expected(SOUND) if text.startswith("mnist") else refused()  # without its data
            yield Case("argument", f"tasks {text[:40]!r}", ("tasks", text), described)
            yield Case("argument", f"config --task {text[:40]!r}", ("config", "--task", text), Expected(SOUND))
    for name in ("file", "a" * 300, "a\0b"[:1], "/proc/x", "/dev/null/x", f"{FILE}/x"):
        made = ("train", FILE, "--output-dir", name)
        expected = Expected(SOUND) if name == "a" else refused()
        yield Case("argument", f"--output-dir {name[:20]}", made, expected, partial(_with_file, write=write))
    for flag, value in (("--jobs", "0"), ("--jobs", "-1"), ("--jobs", "x"), ("--runs", "0"), ("--runs", "1e9")):
        bench = (*COMMANDS["bench"], flag, value)
        yield Case("argument", f"bench {flag} {value}", bench, refused(flag.strip("-")), text_file(rendered(BENCH)))
    for words in (
        ("worker", "out"),
        ("status", "out"),
        ("worker", FILE),
        ("status", "/dev/null"),
        ("worker", "\0"[:0]),
    ):
        yield Case("argument", " ".join(words), words, refused(), text_file(rendered(BENCH)))
    for flag, value in (
        ("--executor", "moon"), ("--executor", ""), ("--time", "5"), ("--partition", "x"), ("--address", "x"),
        ("--cpus-per-run", "0"), ("--sbatch-option", "x"), ("--dry-run", "--quiet"),
    ):  # fmt: skip
        bench = (*COMMANDS["bench"], flag, value)
        yield Case("argument", f"bench {flag} {value}", bench, refused(flag.strip("-")), text_file(rendered(BENCH)))
    for cells in ("", ",", "gru,gru", "nothing", "a.py:b", "gru:gru", LONG, "../x"):
        command = ("bench", "--cells", cells, "--output-dir", "out")
        yield Case("argument", f"bench --cells {cells[:20]}", command, refused())


def _with_file(folder: Path, write: Callable[[Path], None]) -> None:
    write(folder)
    (folder / "file").write_text("here")


# Cells of one's own.

CELL = """from gatelab import cell, sigmoid, tanh

@cell
def mine(x, h, W, U, b):
    z = sigmoid(W.z(x) + U.z(h) + b.z)
    return z * h + (1 - z) * tanh(W.n(x) + U.n(h) + b.n)
"""


def of_cells() -> Iterator[Case]:
    texts: dict[str, str | bytes] = {
        "empty": "",
        "a syntax error": "def f(:\n",
        "an error": "1 / 0\n",
        "an exit": "raise SystemExit(0)\n",
        "a quit": "import sys; sys.exit()\n",
        "NUL": b"x = 1\0\n",
        "latin-1": b"x = '\xe9'\n",
        "UTF-16": CELL.encode("utf-16"),
        "bytes": bytes(range(256)),
        "large": "# " + "x" * 2_000_000,
        "deep": "x = " + "(" * 5000 + ")" * 5000,
        "deep lists": "x = " + "[" * 100_000,
        "recursion": "def f(): return f()\nf()\n",
        "no cell": "mine = 7\n",
        "no parameters": CELL.replace("x, h, W, U, b", ""),
        "no return": CELL.partition("    return")[0],
        "a branch": CELL.replace("    return", "    if z > 0: return h\n    return"),
        "a loop": CELL.replace("    return", "    for i in z: pass\n    return"),
        "a big number": CELL.replace("(1 - z)", "(1e400 - z)"),
        "a string": CELL.replace("(1 - z)", "('1' - z)"),
        "memory": "x = [0] * 10**12\n",
        "a base exception": "class E(BaseException): pass\nraise E('no')\n",
        "another name": CELL.replace("def mine", "def other"),
    }
    for name, text in texts.items():
        yield cell_case(name, text, refused("cell.py"))
    yield cell_case("as it is", CELL, Expected(SAME))
    yield cell_case("carriage returns", CELL.replace("\n", "\r\n"), Expected(SAME))
    for kind in ("directory", "pipe", "/dev/zero", "nowhere", "missing"):
        write = partial(_special_cell, kind=kind)
        yield Case("cell", kind, ("cells", "cell.py:mine"), refused("cell.py"), write)
        yield Case("cell", f"train: {kind}", ("train", "--cell", "cell.py:mine"), refused("cell.py"), write)
    for name in ("", ":", "gru:", ".py", "x.py", "x.py:", "/dev/zero:x", "gru\n", LONG, "cell.py:", "\udcff.py:x", "1"):
        yield Case("cell", f"cells {name[:20]!r}", ("cells", name), refused())


def cell_case(name: str, text: str | bytes, expected: Expected) -> Case:
    def write(folder: Path, content: str | bytes = text) -> None:
        (folder / "cell.py").write_bytes(content.encode() if isinstance(content, str) else content)

    command = ("cells", "cell.py:mine")
    original = Case("cell", "", command, Expected(SAME), partial(write, content=CELL))
    return Case("cell", name, command, expected, write, original)


def _special_cell(folder: Path, kind: str) -> None:
    special(folder, kind)
    if (folder / FILE).is_symlink() or (folder / FILE).exists():
        (folder / FILE).rename(folder / "cell.py")


# By chance.


def by_chance(chance: random.Random) -> Case:
    """A config with some of its characters changed: refused, or every value is what the text says."""
    command = chance.choice(["train", "train", "bench", "ablate"])
    text = rendered(BASES[command])
    for _ in range(chance.choice([1, 1, 2, 4])):
        text = chance.choice((_typo, _typo, _double_line, _drop_line, _indent, _swap, _insert))(text, chance)
    return config_case(command, f"by chance {text[:60]!r}…", text, Expected(SOUND, (), partial(unlike, text)))


def _typo(text: str, chance: random.Random) -> str:
    i = chance.randrange(len(text))
    return text[:i] + chance.choice("0123456789.eE-+:,{}[]&*!#|>'\"%@`~ \n\tabcxyz_é\u2028\x7f") + text[i + 1 :]


def _insert(text: str, chance: random.Random) -> str:
    i = chance.randrange(len(text))
    return (
        text[:i]
        + chance.choice(["{", "[", "\n", ": ", "- ", "'", '"', "<<: ", "&a ", "*a", "!!int ", "1e9", "-", "0"])
        + text[i:]
    )


def _lines(text: str, chance: random.Random) -> tuple[list[str], int]:
    lines = text.splitlines(keepends=True)
    return lines, chance.randrange(len(lines))


def _double_line(text: str, chance: random.Random) -> str:
    lines, i = _lines(text, chance)
    return "".join([*lines[: i + 1], lines[i], *lines[i + 1 :]])


def _drop_line(text: str, chance: random.Random) -> str:
    lines, i = _lines(text, chance)
    return "".join(lines[:i] + lines[i + 1 :]) or "\n"


def _indent(text: str, chance: random.Random) -> str:
    lines, i = _lines(text, chance)
    return "".join([*lines[:i], chance.choice(["  ", " ", "\t"]) + lines[i], *lines[i + 1 :]])


def _swap(text: str, chance: random.Random) -> str:
    lines, i = _lines(text, chance)
    j = chance.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return "".join(lines)


def unlike(text: str, answer: Answer) -> str:
    """How the specs differ from what PyYAML reads, an independent reader but for its numbers."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return f"PyYAML does not read it: {error}"
    specs = answer.record.get("specs", {})
    if not specs:
        return "no training began"
    for section in ("optimization", "training"):
        for name, value in ((content or {}).get(section) or {}).items():
            for spec in specs.values():
                if name != "seed" and not alike(spec[section].get(name), value):
                    return f"{section}.{name} was read as {spec[section].get(name)!r}, and is {value!r}"
    if "models" not in (content or {}) and "arms" not in (content or {}):
        for name, value in ((content or {}).get("model") or {}).items():
            for spec in specs.values():
                if not alike(spec["model"].get(name), value):
                    return f"model.{name} was read as {spec['model'].get(name)!r}, and is {value!r}"
    return ""


def alike(read: Any, value: Any) -> bool:
    if isinstance(value, str) and isinstance(read, (int, float)):
        try:
            return float(value) == read
        except ValueError:
            return False
    if isinstance(value, int) and isinstance(read, int) and value != read:
        return str(read) == oct(value)[2:]  # YAML 1.1 reads 012 as octal
    return bool(read == value)


CATALOGUE = (of_keys, of_tasks, of_comparisons, of_texts, of_places, of_arguments, of_cells)
__all__ = ["CATALOGUE", "MEANING", "by_chance"]
