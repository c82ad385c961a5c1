"""Exported C, compiled by real compilers: the numbers of the eager engine, and code that strict flags accept."""

from __future__ import annotations

import re
import shutil
import subprocess

import exported
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from places import TESTS
from random_cells import made, source

from gatelab import (
    Recurrent,
    cell,
    cells,
    clamp,
    exp,
    maximum,
    minimum,
    relu,
    sigmoid,
    softplus,
    tanh,
)  # fmt: skip
from gatelab.errors import GatelabError
from gatelab.export import export, network_of, to_c
from gatelab.export.c_code import write
from gatelab.export.c_runner import FLAGS, runner
from gatelab.export.c_text import comment, string
from gatelab.export.check import Reference, beginning, check
from gatelab.export.target import Settings

ARM = TESTS / "arm"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.mark.parametrize("name", exported.SAMPLE)
def test_cells(name, tmp_path):
    assert to_c(exported.classifier(name, 2), tmp_path / "c").checked.difference < 1e-5


@pytest.mark.export
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", cells.names())
def test_every_cell(name, layers, tmp_path):
    assert to_c(exported.classifier(name, layers), tmp_path / "c").checked.difference < 1e-5


def test_names_of_the_users_own(tmp_path):
    assert to_c(exported.classifier(exported.own, 2), tmp_path / "c").checked.difference < 1e-5


@pytest.mark.parametrize("kind", exported.KINDS)
def test_kinds_of_models(kind, tmp_path):
    model, whole = exported.kinds()[kind]
    write(whole, tmp_path / "c", Settings())
    assert check(model, whole, runner(whole, tmp_path / "c")).difference < 1e-5


@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_cells(tmp_path_factory, chance):
    done = to_c(exported.classifier(made(source(chance)), 2), tmp_path_factory.mktemp("random") / "c")
    assert done.checked or "depends on rounding" in done.unchecked


def test_int8_of_a_stem(tmp_path):
    model = exported.as_trained(exported.classifier("gru", 1, stem="conv", bidirectional=True, pool="mean+max"))
    assert 1e-5 < to_c(model, tmp_path / "c", int8=True).checked.difference < 0.05
    text = (tmp_path / "c" / "network.c").read_text()
    assert f"int8_t stem0_weight[{9 * exported.D * 64}]" in text


def test_int8_reports_its_error(tmp_path):
    model = exported.classifier("gru", 1)
    done = to_c(model, tmp_path / "c", int8=True)
    assert 1e-5 < done.checked.difference < 0.05
    text = (tmp_path / "c" / "network.c").read_text()
    assert "int8_t layer0_products0" in text
    assert (
        np.abs([int(n) for n in re.search(r"static const int8_t .*?\{(.*?)\}", text, re.S)[1].split(",")]).max() == 127
    )


PROGRAM = """
#include <stdio.h>
#include "network.h"
int main(void)
{
    float x[6 * NETWORK_INPUTS], by_step[NETWORK_OUTPUTS], in_pieces[NETWORK_OUTPUTS];
    network_state a, b;
    for (int i = 0; i < 6 * NETWORK_INPUTS; i++)
        x[i] = (float)(i % 7) / 7.0f;
    network_begin(&a), network_begin(&b);
    for (int t = 0; t < 6; t++)
        network_step(x + t * NETWORK_INPUTS, &a, by_step);
    network_run(x, 2, &b, in_pieces);
    network_run(x + 2 * NETWORK_INPUTS, 4, &b, in_pieces);
    for (int k = 0; k < NETWORK_OUTPUTS; k++)
        printf("%.9g %.9g\\n", (double)by_step[k], (double)in_pieces[k]);
    return 0;
}
"""


def test_a_program_of_somebody_who_reads_the_header_only(tmp_path):
    """begin, step, and a run in two pieces; also with the flags of microcontroller projects, and from C++."""
    model = exported.as_trained(exported.classifier("lstm", 2, pool="attention"))
    to_c(model, tmp_path, check=False)
    (tmp_path / "main.c").write_text(PROGRAM)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    x = (np.arange(6 * exported.D) % 7 / 7).astype(np.float32).reshape(1, 6, exported.D)
    expected = Reference(model, network_of(model))(x)[0][0]
    subprocess.run(["gcc", "-c", "-O2", "-o", tmp_path / "n.o", tmp_path / "network.c"], check=True)
    for command in (
        ["gcc", *FLAGS, tmp_path / "main.c", tmp_path / "network.c"],
        ["gcc", "-std=c99", "-Ofast", tmp_path / "main.c", tmp_path / "network.c"],
        ["gcc", "-std=c99", "-O3", "-funsafe-math-optimizations", tmp_path / "main.c", tmp_path / "network.c"],
        ["g++", tmp_path / "main.cpp", tmp_path / "n.o"],
    ):
        subprocess.run([*command, "-o", tmp_path / "main", "-lm"], check=True)
        lines = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout.splitlines()
        numbers = np.array([line.split() for line in lines], np.float64)
        assert (numbers[:, 0] == numbers[:, 1]).all()
        np.testing.assert_allclose(numbers[:, 0], expected, atol=1e-6)


def test_what_is_wrong_is_not_left_behind(tmp_path, monkeypatch):
    """The check can fail: with one sign changed in the generated code nothing is written."""
    from gatelab.export import c_functions

    wrong = c_functions._TEXTS | {"sigmoid": c_functions._TEXTS["sigmoid"].replace("exp_parts(-v", "exp_parts(v")}
    monkeypatch.setattr(c_functions, "_TEXTS", wrong)
    with pytest.raises(GatelabError, match="wrong, and was removed"):
        to_c(exported.classifier("gru", 1), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_stem_has_no_state_and_no_step(tmp_path):
    to_c(exported.classifier("gru", 1, stem="conv"), tmp_path, check=False)
    header = (tmp_path / "network.h").read_text()
    assert "void network_run(const float *x, size_t steps, float *work, float *out);" in header
    assert "NETWORK_WORK(steps) ((size_t)(steps) * 128)" in header
    assert "network_state" not in header
    assert "network_step" not in header


@pytest.mark.parametrize("name", ["clockwork_rnn", "phased_lstm", exported.own])
def test_both_directions(name, tmp_path):
    """Also where states have names of the generated function, such as t."""
    to_c(exported.classifier(name, 1, bidirectional=True), tmp_path / "c")


def test_a_name_that_is_a_header_of_c_is_refused(tmp_path):
    with pytest.raises(GatelabError, match=r"stdint\.h is a header of C itself"):
        export(exported.classifier("gru", 1), "c", tmp_path / "c", name="stdint")


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm",
)
@pytest.mark.parametrize("int8", [False, True])
def test_on_a_cortex_m4(tmp_path, int8):
    """The same numbers on an emulated microcontroller, to what 32-bit floats hold."""
    model = exported.classifier("lstm", 2)
    whole = network_of(model)
    to_c(model, tmp_path, check=False, int8=int8)
    x = np.random.default_rng(3).standard_normal((1, 20, exported.D)).astype(np.float32)
    values = ", ".join(f"{value!r}f" for value in x.ravel().tolist())
    (tmp_path / "main.c").write_text(
        f"""
    #include <stdio.h>
    #include "network.h"
    static const float x[] = {{{values}}};
    int main(void)
    {{
        static network_state state;
        float out[NETWORK_OUTPUTS];
        network_begin(&state);
        network_run(x, {x.shape[1]}, &state, out);
        for (int k = 0; k < NETWORK_OUTPUTS; k++)
            printf("%d ", (int)(out[k] * 1e7f));
        return 0;
    }}
    """
    )
    chip = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    files = [ARM / "start.c", tmp_path / "main.c", tmp_path / "network.c"]
    options = ["--specs=rdimon.specs", "-nostartfiles", "-T", ARM / "link.ld"]
    strict = [flag for flag in FLAGS if flag != "-pedantic"]  # start.c casts functions to data
    subprocess.run(["arm-none-eabi-gcc", *strict, *chip, *options, "-o", tmp_path / "a.elf", *files, "-lm"], check=True)
    plain = ["arm-none-eabi-gcc", *FLAGS, "-mcpu=cortex-m4", "-c", "-o", tmp_path / "a.o", tmp_path / "network.c"]
    subprocess.run(plain, check=True)
    machine = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-semihosting", "-kernel", tmp_path / "a.elf"]
    printed = subprocess.run(machine, check=True, capture_output=True, text=True, timeout=600).stdout
    got = np.array([int(number) for number in printed.split()]) / 1e7
    expected = Reference(model, whole)(x)[0][0]
    assert np.abs(got - expected).max() < (0.05 if int8 else 1e-6)


@cell
def each_operation(x, a, c, d, e, f, g, i, j, k, m, W):
    """A state for each operation on the same value, and for powers."""
    v = W.v(x)
    return (
        relu(v), maximum(v, 0.3), maximum(0.3, v), minimum(v, 0.3), minimum(0.3, v), clamp(v, -1, 1), sigmoid(v),
        tanh(v), softplus(v) + exp(v), (1.5 + abs(v)) ** -2 + v**3,
    )  # fmt: skip


def test_not_a_number_stays_not_a_number(tmp_path):
    layers = Recurrent(each_operation, 2, 3, batch_first=True)
    whole = network_of(layers)
    assert to_c(layers, tmp_path / "c").checked.difference < 1e-6
    run = runner(whole, tmp_path / "c")
    for value, expected in ((np.nan, True), (0.5, False)):
        _, carried = run(np.full((1, 1, 2), value, np.float32), beginning(whole, 1))
        assert {name: np.isnan(state).all() for name, state in carried.items()} == dict.fromkeys(carried, expected)


def test_no_steps_leave_the_answer_and_the_state_as_they_are(tmp_path):
    model = exported.classifier("gru", 1)
    whole = network_of(model)
    to_c(model, tmp_path / "c", check=False)
    run = runner(whole, tmp_path / "c")._run
    state, out = np.full(whole.hidden_size, 0.25, np.float32), np.full(exported.K, 7, np.float32)
    run(None, 0, state.ctypes.data, out.ctypes.data)
    assert set(out) == {7.0}
    assert set(state) == {0.25}


TOKENS = """
#include "network.h"
int main(void)
{
    const int x[] = {0, SIZE, -1};
    network_state state;
    float out[NETWORK_OUTPUTS];
    network_begin(&state);
    network_run(x, 3, &state, out);
    return 0;
}
"""


def test_tokens_that_are_not_in_the_vocabulary_are_not_looked_up(tmp_path):
    _, whole = exported.kinds()["embedding"]
    write(whole, tmp_path / "c", Settings())
    (tmp_path / "c" / "main.c").write_text(TOKENS.replace("SIZE", str(whole.input_size)))
    stops = ("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error")  # where an array is read beyond its end
    files = [str(tmp_path / "c" / name) for name in ("main.c", "network.c")]
    subprocess.run(["gcc", *FLAGS, *stops, "-o", str(tmp_path / "said"), *files, "-lm"], check=True)
    subprocess.run([str(tmp_path / "said")], check=True)


def test_a_comment_has_no_trigraphs():
    assert "??" not in comment("what??/ and ???) again")


def test_a_string_is_the_same_text_in_c(tmp_path):
    text = 'café au lait, décaféiné, é1, 0\t"\\n", what??/'
    (tmp_path / "said.c").write_text(f"#include <stdio.h>\nint main(void) {{ return puts({string(text)}) < 0; }}\n")
    subprocess.run(["gcc", *FLAGS, "-o", str(tmp_path / "said"), str(tmp_path / "said.c")], check=True)
    assert subprocess.run([str(tmp_path / "said")], capture_output=True, check=True).stdout.decode() == f"{text}\n"
