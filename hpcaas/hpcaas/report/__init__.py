"""The report: one self-contained HTML page, and JSON and CSV of the same data."""
