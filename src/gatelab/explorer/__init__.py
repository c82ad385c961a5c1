"""The explorer: a page in which a trained network runs, by the JavaScript printed from its equations."""

from gatelab.explorer.gallery import EXHIBITS, write_gallery
from gatelab.explorer.write_page import explorer, write_explorer

__all__ = ["EXHIBITS", "explorer", "write_explorer", "write_gallery"]
