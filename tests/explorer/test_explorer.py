"""The explorer in a real browser: its numbers are those of the eager engine, and everything in it can be used."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from browser import LIMIT, VIEWS, refuse_clipped
from places import ROOT

from gatelab import analysis, cells
from gatelab.analysis.clamping import agreement, clamped, opposite
from gatelab.engine.unroll import unroll
from gatelab.explorer import EXHIBITS, explorer, write_explorer, write_gallery
from gatelab.explorer.write_page import PARTS
from gatelab.export import network_of
from gatelab.export.javascript import script
from gatelab.models import SequenceClassifier
from gatelab.training import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec, train

TOLERANCE = 1e-5
OWN_CELL = """
from gatelab import cell, learned, sigmoid, tanh


@cell
def leaky(x, h, W, U, b, *, rate=learned(0.5)):
    k = sigmoid(W.k(x) + b.k)
    n = tanh(W.n(x) + U.n(k * h))
    return k * h + rate * (1 - k) * n
"""
HOSTILE = "<script>document.title = 'injected'</script>"
RUNS = {
    "rows": ("digits:limit=200", {"hidden_size": 10}),
    "pixels": ("digits:order=permuted,limit=50,noise_pad=6", {"cell": "mgu", "hidden_size": 6, "pool": "mean"}),
    "tokens": ("agreement:size=1500,gap=5,shortest_gap=3", {"hidden_size": 8, "num_epochs": 8}),
    "recall": ("recall:delay=4,size=200,symbols=3", {"cell": "peephole_lstm", "hidden_size": 6, "embedding_size": 4}),
    "sine": ("sine:duration=300,length=20", {"cell": "lstm", "hidden_size": 5, "num_layers": 2}),
    "adding": ("adding:length=7,size=100", {"cell": "rnn", "hidden_size": 12}),
    "copy": (
        "copy:length=2,pause=2,symbols=9,size=50",
        {"cell": "agru", "hidden_size": 4, "bidirectional": True, "num_layers": 2, "residual": True},
    ),
    "files": ("files:path={folder}/signals.npz", {"cell": "{folder}/own.py:leaky", "hidden_size": 5}),
    "both": ("digits:limit=50", {"cell": "layer_norm_gru", "hidden_size": 5, "bidirectional": True}),
    "series": ("files:path={folder}/series.csv,length=8,difference=true", {"cell": "tau_gru", "hidden_size": 4}),
    "text": ("text:path={folder}/text.txt", {"cell": "lif", "hidden_size": 8}),
    "exprnn": ("digits:limit=50", {"cell": "exprnn", "hidden_size": 8}),
    "units": ("files:path={folder}/units.npz", {"hidden_size": 4}),
    "mnist1d": ("mnist1d", {"cell": "mingru", "hidden_size": 4}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trained when they are first asked for."""
    folder, there = tmp_path_factory.mktemp("runs"), {}
    random = np.random.RandomState(0)
    labels = np.array([HOSTILE, "b & c", '"d"'])[np.arange(60) % 3]
    np.savez(folder / "signals.npz", X=random.standard_normal((60, 9, 2)), y=labels)
    sizes = np.array([1, 1e5])  # columns in different units
    np.savez(folder / "units.npz", X=sizes * random.standard_normal((60, 9, 2)), y=random.standard_normal(60))
    (folder / "own.py").write_text(OWN_CELL)
    walk = random.standard_normal((200, 2)).cumsum(0)
    (folder / "series.csv").write_text("a,b\n" + "\n".join(f"{a:.4f},{b:.4f}" for a, b in walk) + "\n")
    (folder / "text.txt").write_text("the cat sat on the mat. a cat ran.\n" * 120)

    def run(name: str) -> Path:
        if name not in there:
            task, model = RUNS[name]
            model = {key: value.format(folder=folder) if key == "cell" else value for key, value in model.items()}
            epochs = model.pop("num_epochs", 1)
            spec = RunSpec(
                task=task.format(folder=folder),
                model=ModelSpec(engine="eager", **model),
                optimization=OptimizationSpec(learning_rate=0.02),
                training=TrainingSpec(num_epochs=epochs, batch_size=32, threads=1),
            )
            there[name] = train(spec, folder / name).run.path
        return there[name]

    return run


@pytest.fixture(scope="module")
def pages(runs, tmp_path_factory):
    folder, there = tmp_path_factory.mktemp("pages"), {}

    def page(*names: str) -> Path:
        if names not in there:
            there[names] = write_explorer([runs(name) for name in names], folder / f"{'_'.join(names)}.html")
        return there[names]

    return page


@pytest.fixture
def view(chromium, pages):
    """Opens an explorer; errors of its script and requests of any kind are errors of the test."""
    contexts, problems = [], []

    def opened(*names, width=1280, scheme="light", link="", path=None, **options):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **{"reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(LIMIT)
        contexts.append(context)
        shown = context.new_page()
        address = (path or pages(*names)).as_uri()

        def only_the_page(route):
            if route.request.url.partition("#")[0] != address:
                problems.append(f"request: {route.request.url}")
                route.abort()
            else:
                route.continue_()

        shown.route("**/*", only_the_page)
        shown.on("pageerror", lambda error: problems.append(str(error)))
        shown.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        shown.goto(address + (f"#{quote(link)}" if link else ""))
        settle(shown)
        return shown

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def settle(view) -> None:
    """Wait until everything is drawn."""
    view.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def later(view, seconds: float) -> None:
    """Wait for so long by the page's own clock, and until what is due then is drawn: what plays would have moved."""
    view.evaluate(
        """async (milliseconds) => {
          const began = performance.now();
          while (performance.now() - began < milliseconds) await new Promise(requestAnimationFrame); }""",
        1000 * seconds,
    )
    settle(view)


def link_of(view) -> str:
    """The address of the page once it has what the page shows."""
    view.wait_for_function(
        """() => {
          const kept = location.hash && JSON.parse(decodeURIComponent(location.hash.slice(1)));
          const shown = explorer.values();
          return kept && ["t", "sort", "clamps", "views", "units", "from"].every(
            (key) => JSON.stringify(kept[key]) === JSON.stringify(shown[key])); }"""
    )
    return view.url


def values(view) -> dict:
    settle(view)
    return view.evaluate("() => explorer.values()")


def situation(**parts) -> str:
    """The hash of a link."""
    view = {"layer": 0, "direction": "fwd", "front": "h", "show": "clamped"}
    kept = {"example": 0, "t": 0, "sort": "unit", "of": None, "clamps": [], "from": 0, "views": [view], "units": [[]]}
    return json.dumps({**kept, **parts})


# The numbers.


def eager(path: Path, x: np.ndarray) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """The answer of the eager engine to a raw sequence, in the units of the data, and every gate and state."""
    subject = analysis.load(path)
    prepared = subject.run.preparation
    if prepared.kind == "image" and prepared.scaling is not None:  # noise is part of the input here
        encoded = torch.from_numpy((x - prepared.scaling.mean[0]) / prepared.scaling.deviation[0])
    else:
        encoded = prepared.encode(x[None])[0]
    batch = encoded[None] if prepared.kind == "tokens" else encoded[None].double()
    with torch.no_grad():
        features, ends = subject.model.inputs(batch, None)
        unrolled = unroll(subject.recurrent, features, ends, watch=True)
        output = subject.model.answer(unrolled.output, unrolled.state, ends)[0].numpy()
    answer = output if prepared.classes is not None else prepared.decode(output, x if prepared.per_step else x[-1])
    layers = []
    for index, history in enumerate(unrolled.histories):
        states = {
            name: torch.stack([after[i][0] for after in history.states[1:]])
            for i, name in enumerate(subject.cell.states)
        }
        every = {**{name: gate[:, 0] for name, gate in history.gates.items()}, **states}
        backwards = index % len(subject.recurrent.directions) == 1
        layers.append({name: (v.flip(0) if backwards else v).numpy() for name, v in every.items()})
    return answer, layers


def close(got, expected) -> None:
    expected = np.asarray(expected, np.float64)
    np.testing.assert_allclose(
        np.reshape(got, expected.shape), expected, atol=TOLERANCE * max(1, np.abs(expected).max())
    )


@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_are_those_of_the_eager_engine(name, runs, view):
    shown = values(view(name))
    prepared = analysis.load(runs(name)).run.preparation
    x = np.array(shown["x"]) if prepared.kind != "tokens" else np.array(shown["x"], np.int64)
    answer, layers = eager(runs(name), x if prepared.kind == "tokens" else x.reshape(-1, prepared.input_size))
    (ran,) = shown["runs"]
    close(ran["untouched"]["answers" if prepared.per_step else "answer"], answer)
    assert len(ran["untouched"]["layers"]) == len(layers)
    for got, expected in zip(ran["untouched"]["layers"], layers, strict=True):
        assert got["values"].keys() == expected.keys()
        for value, array in expected.items():
            close(got["values"][value], array)


def test_there_are_ten_cells_and_every_kind_of_task(runs):
    loaded = [analysis.load(runs(name)).run for name in RUNS]
    assert len({run.cell.cell.name for run in loaded}) >= 10
    assert "leaky" in {run.cell.cell.name for run in loaded}
    kinds = {(run.preparation.kind, run.preparation.order, run.preparation.per_step) for run in loaded}
    assert {kind for kind, _, _ in kinds} == {"image", "tokens", "numbers"}
    assert {per_step for _, _, per_step in kinds} == {True, False}
    assert {"rows", "permuted"} <= {order for _, order, _ in kinds}


def test_derivatives_are_those_of_autograd(runs, view):
    shown = values(view("tokens"))
    subject, ran = analysis.load(runs("tokens")), shown["runs"][0]
    one_hot = torch.eye(len(subject.task.vocabulary), dtype=torch.float64)[shown["x"]].requires_grad_()
    state = unroll(subject.recurrent, one_hot[None], None)
    score = subject.model.answer(state.output, state.state, None)[0, ran["gradient"]["of"]]
    (expected,) = torch.autograd.grad(score, one_hot)
    close(ran["gradient"]["x"], expected)


def lags(sizes) -> tuple[int, int]:
    """The number of last steps that have half and 99 % of a sum."""
    shares = np.cumsum(sizes[::-1]) / sum(sizes)
    return tuple(int(np.argmax(shares >= share * (1 - 1e-12))) + 1 for share in (0.5, 0.99))


def test_how_far_back_the_answer_depends_counts_columns_in_their_deviations(view):
    page = view("units")  # one column is 100,000 times as large as the other
    data = json.loads(page.locator("#data").text_content())
    deviations, found = np.array(data["runs"][0]["deviations"]), []
    for number, t in itertools.product(range(len(data["task"]["examples"])), (8, 5)):
        page.evaluate("(link) => { location.hash = link }", quote(situation(example=number, t=t)))
        page.wait_for_function(f"() => explorer.values().example === {number} && explorer.values().t === {t}")
        derivatives = np.reshape(values(page)["runs"][0]["gradient"]["x"], (9, 2))[: t + 1]
        half, most = lags(np.linalg.norm(derivatives * deviations, axis=1))
        said = page.locator(".memory p").first.text_content()
        steps = [
            1 if word == "last step" else int(word.split()[1]) for word in re.findall(r"last (?:step\b|\d+)", said)
        ]
        assert steps == [half, most]
        found.append((half, most) != lags(np.linalg.norm(derivatives, axis=1)))
    assert any(found)


def test_only_scored_steps_are_right_or_wrong(pages, view, tmp_path):
    page = pages("sine").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    data["task"]["scored"] = [2, 5]
    changed = page.replace(
        re.search(r'id="data">(.*?)</script>', page, re.S)[1], json.dumps(data).replace("<", "\\u003c")
    )
    (tmp_path / "scored.html").write_text(changed)
    shown, scored = view(path=tmp_path / "scored.html"), []
    for t in range(7):
        shown.evaluate("(link) => { location.hash = link }", quote(situation(t=t)))
        shown.wait_for_function(f"() => explorer.values().t === {t}")
        settle(shown)
        scored.append("not scored" not in shown.locator(".answer").first.text_content())
    assert scored == [2 <= t < 5 for t in range(7)]


def test_a_target_of_several_columns_is_that_of_its_step(view):
    page = view("series")
    target = json.loads(page.locator("#data").text_content())["task"]["examples"][0]["target"]
    for t in (0, 3):
        page.evaluate("(link) => { location.hash = link }", quote(situation(t=t)))
        page.wait_for_function(f"() => explorer.values().t === {t}")
        settle(page)
        said = page.locator(".answer").first.text_content().replace("−", "-")
        shown = [float(number) for number in re.findall(r"target (-?[\d.]+)", said)]
        assert shown == pytest.approx(target[2 * t : 2 * t + 2], rel=0.01)


def test_the_error_of_a_number_is_what_was_predicted_minus_the_target(view):
    page = view("adding")
    page.keyboard.press("End")
    settle(page)
    said = page.locator(".answer").first.text_content().replace("−", "-")
    predicted, target, error = (
        float(re.search(pattern, said)[1])
        for pattern in (r"(-?[\d.]+) predicted", r"target (-?[\d.]+)", r"error (-?[\d.]+)")
    )
    assert error == pytest.approx(predicted - target, abs=0.02)
    assert abs(error) > 0.05


def test_of_many_classes_the_likeliest_are_shown(view):
    page = view("text")
    shares = [float(share) for share in page.locator(".answer .class .share").all_text_contents()]
    assert len(shares) == 10
    assert shares == sorted(shares, reverse=True)
    assert "best" in page.locator(".answer .class").first.get_attribute("class")


def test_a_token_is_coloured_by_its_effect_against_that_of_all_tokens(view):
    page = view("tokens")
    settle(page)
    x, gradient = values(page)["x"], values(page)["runs"][0]["gradient"]["x"]
    rows = np.reshape(gradient, (len(x), -1))
    itself = rows[np.arange(len(x)), x]
    effects = itself - rows.mean(1)
    pixels = page.evaluate(
        """(count) => {
          const canvas = document.querySelector('canvas[aria-label^="the input:"]');
          const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
          const context = copy.getContext("2d", { willReadFrequently: true });
          context.drawImage(canvas, 0, 0);
          return Array.from({ length: count }, (_, t) =>
            Array.from(context.getImageData((t + 0.5) * (canvas.width / count), 2, 1, 1).data));
        }""",
        len(x),
    )
    # The darker, the larger; red and blue have different signs.
    colours = np.array([np.sign(red - blue) * (3 * 255 - red - green - blue) for red, green, blue, _ in pixels])
    by_colour = np.argsort(colours * np.sign(colours @ effects))
    assert by_colour.tolist() == np.argsort(effects).tolist() != np.argsort(itself).tolist()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_their_colours(scheme, view):
    page = view("tokens", scheme=scheme)
    drawn = page.evaluate(
        """async () => {
          const { fillRect, fillText } = CanvasRenderingContext2D.prototype, drawn = [];
          let ground = "";
          CanvasRenderingContext2D.prototype.fillRect = function (...given) {
            ground = this.fillStyle;
            fillRect.apply(this, given);
          };
          CanvasRenderingContext2D.prototype.fillText = function (...given) {
            if (this.canvas.ariaLabel?.startsWith("the input:")) drawn.push([ground, this.fillStyle]);
            fillText.apply(this, given);
          };
          document.querySelector('button[aria-label="next example"]').click();
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          return drawn; }"""
    )
    assert len(drawn) > 5

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        return float(
            np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
        )

    for colours in drawn:
        dark, light = sorted(map(luminance, colours))
        assert (light + 0.05) / (dark + 0.05) > 3


# Test examples.


def test_examples_with_several_answers_say_how_many_are_right(runs, view):
    page = view("copy")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#examples option')].every((o) => /right|wrong/.test(o.textContent))"
    )
    task, shares = json.loads(page.locator("#data").text_content())["task"], []
    scored = slice(*task["scored"])
    assert scored.start < 0  # counted from the end
    for example, mark in zip(task["examples"], page.locator("#examples option").all_text_contents(), strict=True):
        answer, _ = eager(runs("copy"), np.array(example["x"], np.int64))
        right = (answer.argmax(-1) == example["target"])[scored]
        shares.append(right.mean())
        assert mark.endswith(" – right" if right.all() else f" – {int(100 * right.sum() // len(right))} % right")
    assert any(shares)


def test_examples_are_right_and_wrong_and_can_be_stepped_through(view):
    page = view("rows")
    page.wait_for_function("() => /right/.test(document.querySelector('#examples').textContent)")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#examples option')].every((o) => /right|wrong/.test(o.textContent))"
    )
    marks = page.locator("#examples option").all_text_contents()
    assert any("right" in mark for mark in marks)
    assert any("wrong" in mark for mark in marks)
    before = values(page)
    page.get_by_label("next example").click()
    after = values(page)
    assert (before["example"], after["example"]) == (0, 1)
    assert before["x"] != after["x"]
    page.get_by_role("button", name="Undo", exact=True).click()
    assert values(page)["x"] == before["x"]


def test_an_example_that_was_changed_can_be_chosen_again(view):
    page = view("rows")
    before, chosen = values(page)["x"], page.get_by_label("test example")
    page.get_by_role("button", name="Clear", exact=True).click()
    settle(page)
    assert chosen.evaluate("(select) => select.selectedOptions[0].textContent") == "your own input"
    chosen.select_option("0")
    assert values(page)["x"] == before
    assert "your own input" not in chosen.text_content()


# Your own input.


@pytest.mark.parametrize("name", ["rows", "pixels"])
def test_drawing_changes_the_answer(name, view):
    page = view(name)
    page.get_by_role("button", name="Clear", exact=True).click()
    empty = values(page)
    pixels = 64 if name == "pixels" else len(empty["x"])
    assert not any(empty["x"][:pixels])
    box = page.locator("canvas.image").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 0.15 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 0.85 * box["height"], steps=6)
    page.mouse.up()
    drawn = values(page)
    assert sum(value > 0 for value in drawn["x"][:pixels]) >= 6
    assert drawn["x"][pixels:] == empty["x"][pixels:]  # the noise after an image stays
    assert drawn["isOwn"]
    assert drawn["runs"][0]["untouched"]["answer"] != empty["runs"][0]["untouched"]["answer"]
    page.get_by_role("button", name="Erase").click()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.up()
    assert sum(values(page)["x"][:pixels]) < sum(drawn["x"][:pixels])


def test_fingers_and_keys(view):
    page = view("rows", width=400, has_touch=True)
    strip = page.locator(".map.front .plot")
    strip.tap(position={"x": strip.bounding_box()["width"] * 0.3, "y": 5})
    assert values(page)["t"] == 2
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("canvas.image").tap()
    assert any(values(page)["x"])
    assert values(page)["t"] == 7
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("canvas.image").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert sum(value > 0 for value in values(page)["x"]) == 1


def drag(page, place, start, end) -> None:
    """Move a finger over an element, from one share of its width and height to another."""
    page.locator(place).evaluate("(element) => element.scrollIntoView({ block: 'center' })")
    settle(page)
    box, touch = page.locator(place).bounding_box(), page.context.new_cdp_session(page)
    for i in range(9):
        share = [a + (b - a) * i / 8 for a, b in zip(start, end, strict=True)]
        point = {"x": box["x"] + share[0] * box["width"], "y": box["y"] + share[1] * box["height"]}
        kind = "touchMove" if i else "touchStart"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        settle(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_draws_scrubs_brushes_and_drags_points(view):
    page = view("rows", width=400, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Clear", exact=True).tap()
    drag(page, "canvas.image", (0.5, 0.1), (0.5, 0.9))
    assert sum(value > 0 for value in values(page)["x"]) >= 6
    drag(page, ".map.front .plot", (0.1, 0.5), (0.7, 0.5))
    assert values(page)["t"] == 5
    assert values(page)["units"] == [[]]
    drag(page, ".map.front .margin", (0.5, 0.35), (0.5, 0.75))
    assert values(page)["units"][0] == sorted(values(page)["runs"][0]["order"][3:8])
    before = page.evaluate("scrollY")
    drag(page, ".map.front .plot", (0.5, 0.9), (0.5, 0.1))  # which scrolls the page
    assert len(values(page)["units"][0]) == 5
    page.wait_for_function("(before) => scrollY !== before", arg=before)
    series = view("sine", width=400, has_touch=True, is_mobile=True)
    before = values(series)["x"]
    drag(series, ".editor .plot", (0.2, 0.2), (0.8, 0.8))
    changed = [t for t, (a, b) in enumerate(zip(before, values(series)["x"], strict=True)) if a != b]
    assert changed == list(range(4, 17))


def test_a_pixel_that_is_drawn_is_where_the_permutation_puts_it(view):
    page = view("pixels")
    order = json.loads(page.locator("#data").text_content())["task"]["image"]["order"]
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("canvas.image").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    middle = 8 * 4 + 4
    assert order[middle] != order.index(middle)
    assert [i for i, value in enumerate(values(page)["x"][:64]) if value] == [order.index(middle)]


def test_keys_in_an_image_are_said(view):
    page = view("rows")
    page.locator("canvas.image").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"row 5, column 6: \d+ of 16", page.locator("#editor [role=status]").text_content())


def test_a_sentence_is_typed_from_the_vocabulary(view):
    page = view("tokens")
    field = page.locator("#editor textarea")
    field.fill("the cats that saw the dog")
    vocabulary = json.loads(page.locator("#data").text_content())["task"]["vocabulary"]
    assert [vocabulary[int(token)] for token in values(page)["x"]] == ["the", "cats", "that", "saw", "the", "dog"]
    field.fill("the cats that xyz the dog")
    assert "“xyz” is not in the vocabulary." in page.locator("#editor .problem").text_content()
    field.fill("")
    assert page.locator("#editor .problem").text_content() == "The sequence is empty."
    field.fill("the fa")
    offered = page.locator(".suggestions button").all_text_contents()
    assert offered == ["farmer", "farmers"]
    page.locator(".suggestions button").nth(1).click()
    assert field.input_value() == "the farmers "
    assert len(values(page)["x"]) == 2
    page.get_by_role("button", name="Undo", exact=True).click()
    assert len(values(page)["x"]) == 1
    page.get_by_role("button", name="Undo", exact=True).click()
    assert not values(page)["isOwn"]
    assert page.get_by_role("button", name="Undo", exact=True).is_disabled()


def test_characters_are_typed_without_spaces(view):
    page = view("recall")
    page.locator("#editor textarea").fill("Babc?")
    assert len(values(page)["x"]) == 5
    page.locator(".suggestions button").first.click()
    assert len(values(page)["x"]) == 6


def test_points_are_dragged_and_numbers_are_pasted(view):
    page = view("sine")
    before = values(page)
    box = page.locator(".editor .plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30, steps=3)
    page.mouse.up()
    after = values(page)
    moved = [t for t, (a, b) in enumerate(zip(before["x"], after["x"], strict=True)) if a != b]
    assert moved == [10, 11, 12]
    assert after["runs"][0]["untouched"]["answer"] != before["runs"][0]["untouched"]["answer"]
    page.get_by_text("Paste numbers").click()
    page.get_by_label("numbers of your own series").fill("1, 0.5\n-1 0.25")
    page.get_by_role("button", name="Use these numbers").click()
    assert values(page)["x"] == [1, 0.5, -1, 0.25]
    page.get_by_label("numbers of your own series").fill("1, x")
    page.get_by_role("button", name="Use these numbers").click()
    assert "“x” is not a number." in page.locator("#editor").text_content()
    page.locator(".editor .plot").focus()
    page.keyboard.press("ArrowUp")
    assert values(page)["x"][3] > 0.25


def test_what_is_typed_at_once_replaces_the_numbers_of_the_example(view):
    page = view("sine")
    page.evaluate(
        """() => {
          document.querySelector("#editor summary").click();
          const field = document.querySelector("#editor textarea");
          field.focus();
          field.select(); }"""
    )
    settle(page)
    page.keyboard.insert_text("−1 2")  # with a typographic minus sign
    page.get_by_role("button", name="Use these numbers").click()
    assert values(page)["x"] == [-1, 2]


UNFIT_NUMBERS = {
    "1 2 3": "3 numbers: expected 2 for each step.",
    "1 2\n3\n4 5 6": "Line 2 has 1 number: expected 2.",
    "1,,3": "There is no number between two commas.",
    "1 NaN": "“NaN” is not a number.",
    "1 1e400": "“1e400” is not a number.",
    " ": "There are no numbers.",
    "1 " * 50000: "25000 steps: expected at most 20000.",
}


def test_numbers_with_several_columns(view):
    page = view("files")
    page.get_by_text("Paste numbers").click()
    untouched = values(page)["x"]
    for text, problem in UNFIT_NUMBERS.items():
        page.get_by_label("numbers of your own series").fill(text)
        page.get_by_role("button", name="Use these numbers").click()
        assert page.locator("#editor .problem").text_content() == problem
        assert values(page)["x"] == untouched
    page.get_by_label("column to drag").select_option(index=1)
    before = values(page)["x"]
    box = page.locator(".editor .plot").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + 20)
    changed = [i for i, (a, b) in enumerate(zip(before, values(page)["x"], strict=True)) if a != b]
    assert changed == [1]


def test_columns_in_different_units_are_dragged_on_their_own_scales(view):
    page = view("units")
    box = page.locator(".editor .plot").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + 20)
    assert 0.5 < values(page)["x"][0] < 6
    page.get_by_label("column to drag").select_option(index=1)
    page.mouse.click(box["x"] + 2, box["y"] + 20)
    assert 5e4 < values(page)["x"][1] < 6e5


def test_a_differenced_series_has_its_level(runs, view):
    rows = np.loadtxt(runs("series").parent / "series.csv", delimiter=",", skiprows=1)
    examples = json.loads(view("series").locator("#data").text_content())["task"]["examples"]
    for example in examples:
        first = round(0.85 * 200) + int(example["name"].removeprefix("test example "))
        close(example["x"], rows[first : first + 8])
        close(example["target"], rows[first + 1 : first + 9])


# Time.


def test_time_is_scrubbed_with_mouse_keys_and_slider(view):
    page = view("rows")
    assert values(page)["t"] == 7
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert values(page)["t"] == 1
    box = page.locator(".map.front .plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.65, box["y"] + 5, steps=4)
    page.mouse.up()
    assert values(page)["t"] == 5
    page.locator("#slider").focus()
    page.keyboard.press("ArrowLeft")
    assert values(page)["t"] == 4
    assert page.locator("#step").text_content() == "5 of 8 steps read"
    assert "if the input ended here" in page.locator(".answer").text_content()


def test_playing_ends_at_the_last_step_and_can_be_paused(view):
    page = view("rows", reduced_motion="no-preference")  # it plays once by itself
    page.wait_for_function("() => explorer.values().t === 7")
    page.wait_for_function("() => document.querySelector('#play').getAttribute('aria-label') === 'Play'")
    stopped = page.wait_for_function(  # in the frame that shows a step between; again if there was none
        """() => {
          const { t } = explorer.values(), button = document.querySelector("#play");
          if ((t > 0 && t < 7) || button.getAttribute("aria-label") === "Play") button.click();
          return t < 7 ? t : 0; }"""
    ).json_value()
    later(page, 0.6)  # a step takes a quarter of a second
    assert values(page)["t"] == stopped < 7


def test_playing_at_the_last_step_begins_again(view):
    page = view("rows")
    page.keyboard.press("End")
    assert values(page)["t"] == 7
    page.locator("#play").click()
    assert values(page)["t"] < 7


def test_a_new_input_ends_playing(view):
    page = view("tokens", reduced_motion="no-preference")
    for use in (
        lambda: page.get_by_label("next example").click(),
        lambda: page.locator("#editor textarea").fill("the cats that saw the dog"),
        lambda: page.get_by_role("button", name="Undo", exact=True).click(),
    ):
        page.evaluate(
            "() => { const play = document.querySelector('#play'); play.textContent === '▶' && play.click() }"
        )
        use()
        assert page.locator("#play").get_attribute("aria-label") == "Play"
    shown = values(page)
    later(page, 0.3)
    assert values(page)["t"] == shown["t"]


# The legend.


def test_pointing_at_a_term_lights_up_its_values(view):
    page = view("rows")
    page.locator("math [data-name=r]").first.hover()
    assert page.locator(".map.lit").count() == 1
    assert "gate r" in page.locator(".map.lit button").get_attribute("aria-label")
    assert "r, a gate: at step 8 from" in page.locator("#term-0").text_content()
    page.locator("math [data-name='U.z']").first.hover()
    assert "U.z: 10 × 10 learned numbers" in page.locator("#term-0").text_content()
    assert page.locator("#weight-0").is_visible()
    page.locator("math [data-name=x]").first.hover()
    assert "x, the input: at step 8 from" in page.locator("#term-0").text_content()
    assert page.locator(".inputs .strip.lit").count() == 1
    page.locator("math [data-name='b.z']").first.hover()
    assert page.locator("#weight-0").is_visible()
    page.locator("math [data-name=h]").first.click()
    assert values(page)["views"][0]["front"] == "h"
    page.locator("math [data-name=n]").first.focus()
    page.keyboard.press("Enter")
    assert values(page)["views"][0]["front"] == "n"
    assert "n" in page.locator(".map.front button").text_content()
    tops = [page.locator(".maps .strip").nth(i).bounding_box()["y"] for i in range(4)]
    assert page.locator(".map.front").bounding_box()["y"] == min(tops)


def test_a_hyperparameter_says_its_value(runs, view):
    page = view("files")
    page.locator("math [data-name=rate]").first.hover()
    rate = analysis.load(runs("files")).hyperparameters["rate"]
    assert page.locator("#term-0").text_content() == f"rate, a hyperparameter of the cell: {rate:.3g}"


def test_units_are_sorted(runs, view):
    page = view("rows")
    order = lambda: values(page)["runs"][0]["order"]  # noqa: E731
    page.get_by_label("sort units by").select_option("unit")
    assert order() == list(range(10))
    page.get_by_label("sort units by").select_option("constant")
    subject = analysis.load(runs("rows"))
    constants = analysis.time_constants(
        subject.cell, analysis.traces(subject, subject.probe()), subject.hyperparameters
    )
    assert order() == np.argsort(-constants["z"], kind="stable").tolist()
    page.get_by_label("sort units by").select_option("influence")
    x = torch.tensor(values(page)["x"]).reshape(1, 8, 8)
    scale = subject.run.preparation.scaling
    history = unroll(subject.recurrent, ((x - scale.mean[0]) / scale.deviation[0]).double(), None)
    score = subject.model.answer(history.output, history.state, None)[0].max()
    found = torch.autograd.grad(score, [states[0] for states in history.histories[0].states[1:]])
    assert order() == torch.stack(found).abs().sum((0, 1)).argsort(descending=True).tolist()


# Interventions.


def test_a_clamp_flips_the_verb_where_the_analysis_says_so(runs, view):
    subject = analysis.load(runs("tokens"))
    ranked, page = agreement(subject).ranked, view("tokens")
    examples = json.loads(page.locator("#data").text_content())["task"]["examples"]
    outcomes = set()
    for index in (0, 2, 4):
        tokens = torch.tensor(examples[index]["x"])[None]
        assert torch.equal(opposite(subject.task, tokens)[0], torch.tensor(examples[examples[index]["pair"]]["x"]))
        lengths = torch.tensor([tokens.shape[1]])
        donor, _ = subject.history(opposite(subject.task, tokens), lengths)
        for count in (1, 2, 4, 8):
            units = ranked[:count]
            expected = int(clamped(subject, tokens, lengths, donor.states, units)[0])
            clamp = {"run": 0, "layer": 0, "direction": "fwd", "value": "h", "units": units.tolist(), "from": 1}
            to = {"example": examples[index]["pair"]}
            link = situation(example=index, clamps=[{**clamp, "to": to}])
            page.evaluate("(link) => { location.hash = link }", quote(link))
            page.wait_for_function(
                f"() => explorer.values().example === {index} && explorer.values().clamps[0].units.length === {count}"
            )
            ran = values(page)["runs"][0]
            assert int(np.argmax(ran["current"]["answer"])) == expected
            outcomes.add(expected != int(np.argmax(ran["untouched"]["answer"])))
    assert outcomes == {False, True}  # some flip, some do not


def test_clamps_are_set_with_a_pointer_listed_undone_and_seen_beside_the_untouched_answer(view):
    page = view("tokens")
    page.locator(".maps").get_by_label("state h: bring its map to the front").click()
    settle(page)
    box = page.locator(".map.front .plot").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] * 0.3 / 8)
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] * 2.5 / 8)
    chosen, order = values(page)["units"][0], values(page)["runs"][0]["order"]
    assert chosen == sorted([order[0], order[2]])
    margin = page.locator(".map.front .margin").bounding_box()
    page.mouse.move(margin["x"] + 9, margin["y"] + 2)
    page.mouse.down()
    page.mouse.move(margin["x"] + 9, margin["y"] + margin["height"] * 3.5 / 8, steps=5)
    page.mouse.up()
    assert values(page)["units"][0] == sorted(order[:4])
    page.get_by_label("first step").fill("2")
    page.get_by_label("first step").press("Enter")
    page.get_by_label("clamp to the values in the example").click()
    (clamp,) = values(page)["clamps"]
    place = {"run": 0, "layer": 0, "direction": "fwd", "value": "h"}
    assert clamp == {**place, "units": sorted(order[:4]), "from": 1, "to": {"example": 1}}
    assert "from step 2 on: the value in" in page.locator(".clamps").text_content()
    page.keyboard.press("End")
    assert re.search("→", page.locator(".headline").text_content())
    assert page.locator(".class.was").count() == 2
    page.get_by_label("maps show").select_option("difference")
    page.get_by_role("button", name="All units").click()
    page.get_by_label("clamp to 0").click()
    assert values(page)["clamps"][1]["units"] is None
    page.locator(".clamps button").first.click()
    assert [each["units"] for each in values(page)["clamps"]] == [None]
    page.get_by_role("button", name="Undo", exact=True).click()
    page.get_by_role("button", name="Undo", exact=True).click()
    assert len(values(page)["clamps"]) == 1
    page.locator(".clamps button").click()
    assert values(page)["clamps"] == []
    page.locator("h1").click()
    page.keyboard.press("Control+z")
    assert len(values(page)["clamps"]) == 1


def test_the_next_example_is_offered_for_a_clamp_and_after_the_last_one_the_first(view):
    page = view("rows")
    offered = page.get_by_label("example whose values are taken")
    assert offered.input_value() == "1"
    last = offered.locator("option").count() - 1
    page.evaluate("(link) => { location.hash = link }", quote(situation(example=last)))
    page.wait_for_function(f"() => explorer.values().example === {last}")
    settle(page)
    assert offered.input_value() == "0"


def test_a_clamp_takes_the_values_of_an_own_input(view):
    page = view("tokens")
    page.locator("#editor textarea").fill("the cats that saw the dog")
    own = values(page)["runs"][0]["untouched"]["layers"][0]["values"]["z"]
    page.get_by_label("next example").click()
    page.get_by_label("example whose values are taken").select_option("your last own input")
    page.get_by_label("clamp to the values in the example").click()
    clamped = values(page)["runs"][0]["current"]
    assert "z of all units from step 1 on: the value in your own input" in page.locator(".clamps").text_content()
    assert clamped["layers"][0]["values"]["z"][: len(own)] == own
    again = view("tokens")
    again.goto("about:blank")
    again.goto(link_of(page))
    assert values(again)["runs"][0]["current"] == clamped


@pytest.mark.parametrize("to", [0, 1, "mean", "hold"])
def test_what_a_gate_is_clamped_to(to, runs, view):
    clamp = {"run": 0, "layer": 0, "direction": "fwd", "value": "z", "units": None, "from": 3, "to": to}
    ran = values(view("rows", link=situation(clamps=[clamp])))["runs"][0]
    now, before = (np.reshape(ran[run]["layers"][0]["values"]["z"], (8, 10)) for run in ("current", "untouched"))
    np.testing.assert_array_equal(now[:3], before[:3])
    expected = {0: 0.0, 1: 1.0, "hold": before[3]}.get(to)
    if to == "mean":
        subject = analysis.load(runs("rows"))
        expected = analysis.traces(subject, subject.probe()).gates["z"].mean((0, 1))
    np.testing.assert_allclose(now[3:], np.broadcast_to(expected, (5, 10)), atol=1e-5)


GREY = """() => {
  const [x, y] = [0.9, 0.5], canvas = document.querySelector(".map.front .plot canvas");
  return [...canvas.getContext("2d").getImageData(canvas.width * x, canvas.height * y, 1, 1).data]; }"""


def test_what_is_not_a_number_is_said_and_grey(view):
    clamp = {"run": 0, "layer": 0, "direction": "fwd", "value": "z", "units": None, "from": 0, "to": 1e300}
    page = view("rows", link=situation(clamps=[clamp], t=7))
    assert not np.isfinite(values(page)["runs"][0]["current"]["answer"]).any()
    assert page.locator(".headline").text_content() == "no number"
    assert "not a number" in page.locator(".memory p").text_content()
    assert page.evaluate(GREY) == [138, 138, 138, 255]
    page.get_by_label("Remove the clamp").click()
    settle(page)
    assert "p = " in page.locator(".headline").text_content()


def test_a_clamp_that_ends_before_the_input_or_begins_after_it_says_so(view):
    page = view("tokens")
    examples = json.loads(page.locator("#data").text_content())["task"]["examples"]
    long, short = (pick(range(len(examples)), key=lambda i: len(examples[i]["x"])) for pick in (max, min))
    steps = len(examples[short]["x"])
    assert steps < len(examples[long]["x"])
    clamp = {"run": 0, "layer": 0, "direction": "fwd", "value": "h", "units": None, "from": 0, "to": {"example": short}}
    page.evaluate("(link) => { location.hash = link }", quote(situation(example=long, clamps=[clamp])))
    page.wait_for_function("() => explorer.values().clamps.length")
    settle(page)
    assert f"(which ends at step {steps})" in page.locator(".clamps").text_content()
    page.locator("#editor textarea").fill("the cats " * 10)
    page.locator("h1").click()
    page.get_by_label("first step").fill("20")
    page.get_by_label("first step").press("Enter")
    page.get_by_label("clamp to 0").click()
    page.get_by_label("next example").click()
    settle(page)
    assert "(this input ends before)" in page.locator(".clamps").text_content()


def test_a_clamp_on_an_input_of_several_columns_says_where_that_ends(view):
    page = view("files")  # two columns, nine steps
    clamp = {"run": 0, "layer": 0, "direction": "fwd", "value": "h", "units": None, "from": 0, "to": {"example": 1}}
    link = situation(clamps=[clamp], x=[0.5] * 24)
    page.evaluate("(link) => { location.hash = link }", quote(link))
    page.wait_for_function("() => explorer.values().clamps.length")
    settle(page)
    assert "(which ends at step 9)" in page.locator(".clamps").text_content()


def test_undo_keeps_the_first_step_of_a_clamp_within_the_input(view):
    page = view("tokens")
    steps = len(values(page)["x"])
    page.locator("#editor textarea").fill("the cats " * 20)
    page.get_by_label("first step").fill("40")
    page.get_by_label("first step").press("Enter")
    page.get_by_role("button", name="Undo", exact=True).click()
    assert values(page)["from"] == steps - 1


def test_the_keys_that_undo_what_is_typed_undo_nothing_else(view):
    page = view("tokens")
    page.get_by_label("clamp to 0").click()
    page.locator("#editor textarea").focus()
    page.keyboard.press("Control+z")
    settle(page)
    assert len(values(page)["clamps"]) == 1


def test_a_shorter_input_keeps_the_first_step_of_a_clamp_within_it(view):
    page = view("tokens")
    page.get_by_label("first step").fill("3")
    page.get_by_label("first step").press("Enter")
    assert values(page)["from"] == 2
    page.locator("#editor textarea").fill("the cats")
    assert values(page)["from"] == 1


# The link.


def test_the_link_restores_the_situation(view):
    page = view("rows")
    page.get_by_label("next example").click()
    page.locator("canvas.image").click(position={"x": 30, "y": 30})
    page.locator("math [data-name=r]").first.click()
    page.get_by_label("clamp to 0").click()
    page.keyboard.press("Home")
    page.get_by_label("sort units by").select_option("influence")
    settle(page)
    box = page.locator(".map.front .plot").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 3)
    assert (before := values(page))["clamps"]
    again = view("rows")
    again.goto("about:blank")
    again.goto(link_of(page))
    settle(again)
    assert values(again) == before


@pytest.mark.parametrize(
    ("written", "restored"), [((3, 5), (3, 5)), ((5, 3), (5, 3)), ((99, 2), (7, 2)), ((2, 99), (2, 7))]
)
def test_a_link_has_the_cursor_and_the_first_clamped_step(written, restored, view):
    """Each within the input, of 8 steps."""
    page = view("rows")
    page.evaluate(
        "(link) => { location.hash = link }", quote(situation(example=1, t=written[0], **{"from": written[1]}))
    )
    page.wait_for_function("() => explorer.values().example === 1")
    assert (values(page)["t"], values(page)["from"]) == restored


def test_a_link_that_is_opened_is_not_replaced_before_it_is_restored(view):
    """Its event comes later than the address, and the page may be about to write its own."""
    page = view("rows")
    page.evaluate(
        """async (link) => {
          const slider = document.querySelector("#slider"), timeout = window.setTimeout, due = [];
          window.setTimeout = (use, delay) => (delay ? due.push(use) : timeout(use, delay));
          slider.value = 2;
          slider.dispatchEvent(new Event("input"));
          await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          location.hash = link;
          due.forEach((use) => use());
          return due.length; }""",
        quote(situation(example=1, t=3)),
    )
    page.wait_for_function("() => explorer.values().example === 1 && explorer.values().t === 3")


CLAMP = {"run": 0, "layer": 0, "direction": "fwd", "value": "z", "units": None, "from": 0, "to": 0}
UNFIT = [
    "{", "null", "[]", situation(example=99), situation(x=[1]), situation(x=[]), situation(x=[1] * 8),
    situation(clamps=[{}]), situation(clamps=[CLAMP | {"from": -1, "to": "hold"}]),
    situation(clamps=[CLAMP | {"to": {"input": [1]}}]), situation(clamps=[CLAMP | {"units": []}]),
    situation(clamps=[CLAMP | {"units": [1, 1]}]),
    situation(clamps=[None]), situation(units=[[99]]), situation(views=[None]), situation(views=[]), situation(t="0"),
]  # fmt: skip


def test_a_link_that_does_not_fit_is_ignored(view):
    page = view("rows", link=UNFIT[0])
    before = values(page)
    for link in UNFIT[1:]:
        page.evaluate("(link) => { location.hash = link }", quote(link))
        assert values(page) == before
    page.evaluate("(link) => { location.hash = link }", quote(situation(example=1)))
    assert values(page)["example"] == 1


# Compare, layers, looks.


def test_two_runs_see_the_same_input_side_by_side(runs, view):
    page = view("rows", "exprnn")
    page.get_by_label("next example").click()
    shown = values(page)
    for name, ran in zip(("rows", "exprnn"), shown["runs"], strict=True):
        close(ran["untouched"]["answer"], eager(runs(name), np.reshape(shown["x"], (8, 8)))[0])
    left, right = (page.locator(f"#run-{i}").bounding_box() for i in (0, 1))
    assert left["x"] + left["width"] <= right["x"]
    page.locator("#run-1").get_by_label("clamp to 0").click()
    after = values(page)["runs"]
    assert after[0]["current"]["answer"] == after[0]["untouched"]["answer"]
    assert after[1]["current"]["answer"] != after[1]["untouched"]["answer"]


def test_layers_and_directions_are_chosen(view):
    page = view("copy")
    page.get_by_label("show", exact=True).select_option(label="layer 0, backward")
    assert (shown := values(page)["views"][0])["layer"] == 0
    assert shown["direction"] == "bwd"


def test_controls_without_a_use_are_not_shown(view):
    page = view("adding")
    assert page.get_by_label("maps show").is_hidden()
    assert page.get_by_label("show", exact=True).count() == 0
    assert page.locator(".memory select").count() == 0
    assert "time constant" not in page.get_by_label("sort units by").text_content()


BLANK = """() => [...document.querySelectorAll(".plot canvas")].filter((canvas) => {
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size < 2;
}).map((canvas) => canvas.getAttribute("aria-label"))"""


@pytest.mark.parametrize("names", [["rows"], ["tokens"], ["sine"], ["copy"], ["files"], ["rows", "exprnn"]])
def test_nothing_is_cut_off(names, view):
    page = view(*names)
    for width, scheme in VIEWS:  # a page follows its window and the scheme
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        settle(page)
        refuse_clipped(page)
        assert page.evaluate(BLANK) == []
    page.get_by_label("clamp to 0").first.click()
    settle(page)
    refuse_clipped(page)


def test_names_stay_text(view):
    page = view("files")
    assert page.title() == "leaky on files – gatelab explorer"
    assert HOSTILE in page.locator("#examples").text_content() + page.locator(".answer").text_content()
    assert page.locator("main script").count() == 0


def test_everything_has_a_name_for_screen_readers(view):
    page = view("rows")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea, canvas:not([aria-hidden])")]
          .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")))
          .map((e) => e.outerHTML.slice(0, 100))"""
    )
    assert nameless == []
    terms = page.locator("math [tabindex]").evaluate_all("(terms) => terms.map((e) => e.getAttribute('aria-label'))")
    assert {"gate z: bring its map to the front", "weights U.z", "bias b.z", "input x"} <= set(terms)


def test_units_are_selected_with_keys(view):
    page = view("rows")
    page.locator(".map.front .plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    unit = values(page)["runs"][0]["order"][1]
    assert values(page)["units"][0] == [unit]
    said = page.locator("#pointed-0[aria-live=polite]").text_content()
    assert said.startswith(f"z of unit {unit} at step 8: ")
    assert said.endswith("; selected")


def test_selected_units_are_in_the_order_of_their_numbers(view):
    page = view("adding")
    page.locator(".map.front .plot").focus()
    for key in (*["ArrowDown"] * 11, "Enter", *["ArrowUp"] * 8, "Enter"):
        page.keyboard.press(key)
    assert values(page)["units"][0] == [2, 10]


# Size and speed.


def test_the_page_is_small(pages, runs):
    size = pages("rows").stat().st_size
    weights = sum(len(text) for text in re.findall(r'": "([A-Za-z0-9+/=]{20,})"', script(network_of(runs("rows")))))
    print(f"{size / 1000:.0f} kB, {(size - weights) / 1000:.0f} kB without weights")
    assert size - weights < 500_000


def test_scrubbing_784_steps_of_128_units(view, runs, tmp_path, capsys):
    """The page of a large network: the data of a small one, and weights that are not trained."""
    torch.manual_seed(0)
    large = network_of(SequenceClassifier(cells.get("gru"), 1, 128, 10, 1, dropout=0.0).eval(), "network1")
    page = explorer([runs("rows")])
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    image = np.random.RandomState(0).randint(0, 256, 784)
    data["task"] |= {"width": 1, "examples": [{"name": "one", "x": image.tolist(), "target": [3], "pair": None}]}
    data["task"]["image"] = {"side": 28, "channels": 1, "perStep": 1, "order": None, "white": 255}
    names = {"r": 0.5, "z": 0.5, "n": 0.0, "h": 0.0}
    data["runs"][0]["units"] = [
        {
            "layer": 0,
            "direction": "fwd",
            "means": {n: [m] * 128 for n, m in names.items()},
            "constants": {"z": [1.0] * 128},
        }
    ]
    small = script(network_of(runs("rows"), "network1"))
    assert small in page
    page = page.replace(small, script(large)).replace(
        re.search(r'id="data">(.*?)</script>', page, re.S)[1], json.dumps(data).replace("<", "\\u003c")
    )
    (tmp_path / "large.html").write_text(page)
    shown = view(path=tmp_path / "large.html")
    rate = shown.evaluate(
        """async () => {
          const slider = document.querySelector("#slider"), frame = () => new Promise(requestAnimationFrame);
          await frame();
          const began = performance.now(), steps = Array.from({ length: 40 }, (_, i) => 1 + (i * 13) % 784);
          for (const step of steps) {
            slider.value = step;
            slider.dispatchEvent(new Event("input"));
            await frame();
            const shown = document.querySelector("#step").textContent;
            if (shown !== `${step} of 784 steps read`) throw new Error(`${shown} at step ${step}`);
          }
          return (1000 * steps.length) / (performance.now() - began); }"""
    )
    numbers = "() => explorer.values().runs[0].untouched.layers[0].values.h.length"
    assert shown.evaluate(numbers) == 784 * 128
    follows = shown.evaluate(  # the memory, which takes longer than a frame, while the cursor does not rest
        """async () => {
          const slider = document.querySelector("#slider"), frame = () => new Promise(requestAnimationFrame);
          const said = () => document.querySelector(".memory p").textContent, before = said();
          for (let i = 0; i < 600 && said() === before; i++) {
            slider.value = 1 + (i % 784);
            slider.dispatchEvent(new Event("input"));
            await frame();
          }
          return said() !== before; }"""
    )
    assert follows
    with capsys.disabled():
        print(f"\nscrubbing 784 steps × 128 units: {rate:.0f} frames a second")


# The command, the gallery, the links, and what cannot be shown.


def test_the_command(cli, runs, tmp_path):
    code, out, _ = cli("explore", runs("rows"))
    assert code == 0
    assert (runs("rows") / "explorer.html").is_file()
    assert "explorer.html" in out
    assert cli("verify", runs("rows"))[0] == 0  # it belongs to the run
    assert cli("explore", runs("rows"), runs("exprnn"), "--out", tmp_path / "two.html")[0] == 0
    code, _, err = cli("explore", runs("rows"), runs("sine"))
    assert code == 2
    assert "differ in the kind of input" in err
    code, _, err = cli("explore", tmp_path)
    assert code == 2
    assert "is not a run directory" in err
    code, _, err = cli("explore")
    assert code == 2
    assert "expected one run directory" in err
    code, _, err = cli("explore", runs("rows"), "--out", tmp_path)
    assert code == 2
    assert "is a folder: expected a file, such as" in err


BENCH = """
task: {name: digits, limit: 50}
models: {rnn: {hidden_size: 4}, gru: {hidden_size: 4}}
runs: 1
training: {num_epochs: 1, threads: 1}
"""


def test_inspections_link_to_it(cli, runs, monkeypatch):
    monkeypatch.setattr("gatelab.report.inspection.write_inspection._figures", lambda inspection: {})  # they take long
    write_explorer([runs("rows")], runs("rows") / "explorer.html")
    assert cli("inspect", runs("rows"))[0] == 0
    assert 'href="../explorer.html"' in (runs("rows") / "inspect" / "inspect.html").read_text()
    assert cli("inspect", runs("recall"))[0] == 0
    page = runs("recall") / "inspect" / "inspect.html"
    assert "explorer.html" not in page.read_text()
    assert cli("explore", runs("recall"))[0] == 0  # which adds the link
    assert page.read_text().count('href="../explorer.html"') == 1
    assert cli("explore", runs("recall"))[0] == 0
    assert page.read_text().count('href="../explorer.html"') == 1


@pytest.mark.usefixtures("working_here")
def test_reports_link_to_it(cli, tmp_path):
    config = tmp_path / "bench.yaml"
    config.write_text(BENCH)
    assert cli("bench", config, "--output-dir", tmp_path / "digits")[0] == 0
    report, run = tmp_path / "digits" / "report.html", tmp_path / "digits" / "runs" / "rnn" / "seed-0"
    before = report.read_text()
    assert "explorer.html" not in before
    assert cli("explore", run)[0] == 0
    link = f'<a href="{run.relative_to(report.parent).as_posix()}/explorer.html">rnn, seed 0</a>'
    assert link in (after := report.read_text())
    assert re.sub("<!-- explorers -->.*<!-- end", "<!-- explorers --><!-- end", after) == before
    assert cli("report", tmp_path / "digits")[0] == 0
    assert link in report.read_text()
    assert cli("verify", tmp_path / "digits")[0] == 0


def test_a_model_with_a_stem_is_refused_in_words(cli, tmp_path):
    spec = RunSpec(
        task="digits:limit=50", model=ModelSpec(hidden_size=4, stem="conv", engine="eager"),
        training=TrainingSpec(num_epochs=1, threads=1),
    )  # fmt: skip
    train(spec, tmp_path / "run")
    code, _, err = cli("explore", tmp_path / "run")
    assert code == 2
    assert "has a stem: its layers read sequences that convolutions have shortened" in err
    assert not (tmp_path / "run" / "explorer.html").exists()


def test_the_gallery(view, tmp_path, monkeypatch):
    few = [replace(exhibit, epochs=1) for exhibit in EXHIBITS if exhibit.name in ("digits_rows", "sine")]
    monkeypatch.setattr("gatelab.explorer.gallery.EXHIBITS", few)
    index = write_gallery(tmp_path / "gallery")
    assert write_gallery(tmp_path / "gallery") == index  # trains nothing again
    page = view(path=index)
    refuse_clipped(page)
    links = [link.get_attribute("href") for link in page.locator("main a").all()]
    assert links == ["digits_rows/explorer.html", "sine/explorer.html"]
    assert all((index.parent / link).is_file() for link in links)
    assert {exhibit.task.partition(":")[0] for exhibit in EXHIBITS} == {"digits", "agreement", "recall", "sine"}


def test_every_file_of_the_script_is_joined():
    folder = ROOT / "src" / "gatelab" / "explorer" / "page"
    assert sorted(PARTS) == sorted(path.name for path in folder.glob("*.js"))
