"""Sentences: what results, settings and inspections say in words. Numbers come in as typed objects, text goes out."""
