"""docs/cells.md is what the code generates, docs/own-cells.md runs and says what is true, and `gatelab cells` lists."""

from __future__ import annotations

import ast
import contextlib
import io
import re

import pytest
from matplotlib.mathtext import MathTextParser
from places import DOCS
from typer.testing import CliRunner

from gatelab import GatelabError, cells, lang
from gatelab.cli import app
from gatelab.lang.recurrence import Recurrence
from gatelab.lang.signature import SPACES
from gatelab.lang.symbols import OPERATIONS
from gatelab.lang.values import _RECIPES
from gatelab.report import cells_page
from gatelab.report.words import cells as words

GUIDE = (DOCS / "own-cells.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
SUMMARY = "the equations; "  # of a comment that describes what is printed and does not quote it


def listing(*arguments: str, columns: int = 80) -> str:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["cells", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


class TestPage:
    def test_it_is_what_the_code_generates(self):
        page = (DOCS / "cells.md").read_text()
        assert page == cells_page.markdown(), f"docs/cells.md is out of date: run `{cells_page.COMMAND}`"

    def test_the_command_prints_it(self):
        assert listing("--markdown") == cells_page.markdown()

    def test_every_cell_has_a_section_and_a_link(self):
        page = cells_page.markdown()
        assert re.findall(r"^### (\w+)$", page, flags=re.MULTILINE) == cells.names()
        headings = {re.sub(r"\W+", "-", h.lower()) for h in re.findall(r"^##+ (.+)$", page, flags=re.MULTILINE)}
        assert set(re.findall(r"\]\(#([\w-]+)\)", page)) <= headings
        assert f"{len(cells.names())} cells" in page

    @pytest.mark.parametrize("name", cells.names())
    def test_the_equations_are_valid_latex_that_github_renders(self, name):
        section = cells_page._section(cells.get(name))
        first, *lines, last = re.search(r"```math\n(.*?)\n```", section, flags=re.DOTALL)[1].splitlines()
        assert (first, last) == (r"\begin{aligned}", r"\end{aligned}")
        assert len(lines) == len(cells.get(name).text().splitlines())
        assert "operatorname" not in section
        for line in lines:
            MathTextParser("path").parse(f"${line.removesuffix(chr(92) * 2).replace('&', '')}$")

    @pytest.mark.parametrize("name", cells.names())
    def test_a_section_has_the_facts(self, name):
        cell = cells.get(name)
        section = cells_page._section(cell)
        assert cell.summary in section
        assert cell.convention.rstrip(".") in section
        assert cell.deviation.rstrip(".") in section
        named = set(re.findall(r"`([\w.]+)`", section))
        assert {*cell.states, *cell.gates, *cell.options, *cell.given, *cell.start} <= named


class TestFacts:
    @pytest.mark.parametrize("name", cells.names())
    @pytest.mark.parametrize(("D", "H"), [(28, 128), (3, 5)])
    def test_the_formula_is_the_number_of_parameters(self, name, D, H):
        cell = cells.get(name)
        formula = words.parameter_formula(cell).replace("·", "*").replace("²", "**2")
        assert eval(formula, {"D": D, "H": H}) == cell.parameter_count(D, H)

    def test_products(self):
        expected = {"gru": (3, 3), "indrnn": (1, 0), "qrnn": (6, 0), "rwkv4": (3, 1), "ltc": (1, 6), "on_lstm": (6, 8)}
        assert {name: words.products(cells.get(name)) for name in expected} == expected
        assert words.products(cells.get("agru")) == (3, 3)  # U − Uᵀ − γ I is one matrix

    def test_years(self):
        assert all(re.fullmatch(r"(19|20)\d\d", words.year(cells.get(name))) for name in cells.names())
        expected = {"rnn": "1990", "lstm": "1997", "cornn": "2020", "mclstm": "2017", "ctrnn": "1993", "gru": "2014"}
        assert {name: words.year(cells.get(name)) for name in expected} == expected

    def test_families(self):
        assert {words.family(cells.get(name)) for name in cells.names()} == set(cells.FAMILIES)

    def test_further_states(self):
        assert words.earlier_and_index(cells.get("gru")) == ((), ())
        assert words.earlier_and_index(cells.get("tau_gru")) == (("h_1",), ())
        assert words.earlier_and_index(cells.get("phased_lstm")) == ((), ("t",))

    def test_there_are_words_for_everything(self):
        assert set(words.RECIPES) == set(_RECIPES)
        assert set(words.RECURRENCES) == set(Recurrence.__args__)
        assert set(words.ROLES) == set(words.VERBS) == {"keep", "write", "add"}

    def test_recipes(self):
        assert words.recipes(cells.get("rhn").start) == ["b.t1, b.t2, b.t3: −2"]
        assert words.recipes(cells.get("lstmp").given) == ["b.part: 1 in the first 50 % of the units, 0 in the others"]


class TestList:
    @pytest.mark.parametrize("columns", [80, 120])
    def test_all_fits_the_terminal(self, columns):
        lines = [line.rstrip() for line in listing(columns=columns).splitlines()]
        assert max(map(len, lines)) <= columns
        assert not any("…" in line for line in lines)
        assert set(cells.FAMILIES) <= set(lines)
        for name in cells.names():
            cell = cells.get(name)
            row = next(line for line in lines if line.startswith(f"{name} "))
            count = words.parameter_count(cell, 28, 128)
            assert re.search(rf" {words.year(cell)} .* {count:,}(\*|$| )", row)
        if columns == 120:
            assert len(lines) == len(cells.names()) + 3 * len(cells.FAMILIES) + 4  # a row is one line

    def test_gates_are_not_separated_from_their_verbs(self):
        for line in listing().splitlines():
            assert not re.match(r"^\s+\((keeps|writes|adds)\)", line)

    def test_by_family(self):
        out = listing("--family", "gru")
        assert "GRU and relatives" in out
        assert "tau_gru" in out
        assert "peephole_lstm" not in out
        with pytest.raises(GatelabError, match=r"unknown family 'xyz' \(known: Plain recurrent networks, GRU"):
            listing("--family", "xyz")

    def test_by_recurrence(self):
        out = listing("--recurrence", "linear elementwise", columns=120)
        named = {name for name in cells.names() if f"\n{name} " in out}
        assert named == {name for name in cells.names() if cells.get(name).recurrence == "linear elementwise"}
        assert named > {"mingru", "lru", "tlstm"}
        with pytest.raises(GatelabError, match="did you mean 'elementwise'"):
            listing("--recurrence", "elementwize")
        assert "\nmingru " not in listing("--recurrence", "elementwise")
        both = listing("--recurrence", "elementwise", "--family", "oscill")
        assert "unicornn" in both
        assert "cornn " not in both.replace("unicornn", "")
        assert "No cell" in listing("--recurrence", "linear elementwise", "--family", "antisym")

    def test_sizes(self):
        assert f"{cells.get('gru').parameter_count(3, 7):,} " in listing("--input-size", "3", "--hidden-size", "7")
        assert f"{cells.get('sru').parameter_count(7, 7):,}*" in listing("--input-size", "3", "--hidden-size", "7")
        assert "for D=7, H=7 (the cell uses the input itself" in listing("sru", "--hidden-size", "7", columns=200)

    def test_one(self):
        out = listing("clockwork_rnn", columns=200)
        assert re.search(r"family +Plain recurrent networks", out)
        assert re.search(r"year +2014", out)
        assert re.search(r"states +h; for the index of the step t", out)
        assert re.search(r"fixed values +b.period: 1, 2, 4, … for 4 groups", out)
        assert re.search(r"initial values +b.u: uniform in \[0, 1\)", listing("indrnn", columns=200))
        assert re.search(r"deviation +torchrecurrent has a tanh by default", listing("indrnn", columns=200))
        assert re.search(r"recurrence +elementwise: ", listing("indrnn", columns=200))

    def test_what_does_not_go_together_is_refused(self):
        with pytest.raises(GatelabError, match="leave out NAME"):
            listing("gru", "--family", "gru")
        with pytest.raises(GatelabError, match="--markdown prints the page of all cells"):
            listing("gru", "--markdown")


class TestGuide:
    @pytest.mark.parametrize("block", BLOCKS)
    def test_a_block_runs_and_its_comments_are_true(self, block):
        """Behind an expression stands its value, behind a call of `print` what it prints."""
        space: dict = {}
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            last = lines[statement.end_lineno - 1]
            code, _, comment = last.partition("  # ")
            if isinstance(statement, ast.Expr) and comment and not code.startswith("print("):
                assert repr(eval(code, space)) == comment
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(ast.Module([statement], []), "own-cells.md", "exec"), space)
            if "print(" in code and not comment.startswith(SUMMARY):
                assert printed.getvalue().strip() == comment

    def test_it_has_all_of_the_language(self):
        operations = re.findall(r"\b[a-z_]+\b", OPERATIONS.replace("powers by integers", "").replace("negation", ""))
        assert {"sigmoid", "surrogate", "rms_norm"} < set(operations)
        for name in {*operations, *SPACES, "expm", "I", "learned"} - {"and", "over", "the", "units"}:
            assert re.search(rf"\b{name}\b", GUIDE), name
        functions = {name for name in lang.__all__ if name.islower()} - {"hold", "cell", "values"}
        assert functions <= set(re.findall(r"\w+", GUIDE))
        assert set(_RECIPES) <= set(re.findall(r"`(\w+)\(", GUIDE))


def test_the_readme_counts_the_cells():
    assert f"{len(cells.names())} cells" in (DOCS.parent / "README.md").read_text()
