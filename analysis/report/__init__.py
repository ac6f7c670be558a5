"""The comparison as it is read: `document` builds report.json, `markdown` shows it to people."""

from analysis.report.document import document
from analysis.report.markdown import markdown

__all__ = ["document", "markdown"]
