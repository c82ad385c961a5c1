"""`paper.pdf`: a comparison as a short paper in two columns, set by Typst; no TeX is needed."""
