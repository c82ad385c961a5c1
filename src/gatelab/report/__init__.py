"""Reports: tables, figures and pages. They read result files and compute nothing."""
