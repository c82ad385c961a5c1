"""The cells of the library, a family per file, and how to find one by name."""

import importlib.util
import sys
from pathlib import Path

from gatelab.cells.antisymmetric import agru, antisymmetric_rnn, gated_antisymmetric_rnn
from gatelab.cells.gru import gru, gru_cho, mgu
from gatelab.cells.lstm import lstm
from gatelab.cells.rnn import rnn
from gatelab.errors import CellError, unknown
from gatelab.lang import Cell

_LIBRARY = {c.name: c for c in (rnn, gru, gru_cho, mgu, lstm, agru, antisymmetric_rnn, gated_antisymmetric_rnn)}

__all__ = [
    "agru", "antisymmetric_rnn", "gated_antisymmetric_rnn", "get", "gru", "gru_cho", "lstm", "mgu", "names", "rnn",
]  # fmt: skip


def names() -> list[str]:
    """The names of all cells in the library."""
    return list(_LIBRARY)


def get(name: str) -> Cell:
    """The cell of that name; `FILE.py:NAME` is the cell NAME that FILE.py defines (the file is run)."""
    if not isinstance(name, str):
        raise ValueError(f"the name of a cell is {name!r}: expected one of {', '.join(_LIBRARY)}, or FILE.py:NAME")
    file, colon, own_name = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _from_file(Path(file), own_name)
    if name.endswith(".py"):
        raise ValueError(f"{name} is a file: name the cell in it, as in {name}:my_cell")
    if name not in _LIBRARY:
        raise unknown("cell", name, _LIBRARY)
    return _LIBRARY[name]


def _from_file(path: Path, name: str) -> Cell:
    if not path.is_file():
        raise ValueError(
            f"there is no file {path} to take the cell {name!r} from: start the command in the folder that has it"
        )
    spec = importlib.util.spec_from_file_location(f"gatelab_cells_from_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that what it defines can be pickled
    try:
        spec.loader.exec_module(module)
    except CellError:
        raise
    except Exception as error:
        raise ValueError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    own = {key: value for key, value in vars(module).items() if isinstance(value, Cell)}
    if name not in own:
        raise unknown(f"cell in {path} (a function under @cell):", name, own)
    return own[name]
