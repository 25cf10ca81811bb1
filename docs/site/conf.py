"""Sphinx's settings of the site; scripts/site calls it on a copy of docs/ that has the written pages, too."""

import os

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.highlighting import lexers

project = "mgc"
author = "the mgc project"
version = release = os.environ.get("MGC_VERSION", "")
extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]  # a page of options has no level between its groups and itself
source_suffix = {".md": "markdown"}
nitpicky = True
html_theme = "furo"
html_title = "mgc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_search_scorer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scorer.js")
html_show_search_summary = False  # summaries are fetched, which file:// does not allow
html_show_sphinx = False
html_show_copyright = False
smartquotes = False
pygments_style = "friendly"


class Mg(RegexLexer):
    """The language of .mg files, for colours."""

    name, aliases, filenames = "mg", ["mg"], ["*.mg"]
    tokens = {"root": [
        (r"#.*", Comment), (r'"[^"\n]*"', String), (r"\d+(\.\d+)?(e[+-]?\d+)?%?", Number),
        (words(("dim", "const", "block", "model", "train", "config", "layout", "param", "metric", "repeat", "scan", "return", "as",
                "over", "along", "where", "to", "optimizer", "setting", "state", "adapter"), suffix=r"\b"), Keyword),
        (r"[A-Za-z_]\w*(?=\()", Name.Function), (r"[A-Za-z_]\w*", Name), (r"->|[-+*/@=<>!~%]+", Operator),
        (r"[\[\](){},:.;]", Punctuation), (r"\s+", Text), (r".", Text)]}


lexers["mg"] = Mg()


def without_script(_app, _page, _template, context, _doctree):
    """Furo's own script, which Debian packs as a module that no page can load: it moves the table of contents and switches colours."""
    context["script_files"] = [s for s in context.get("script_files", []) if "scripts/furo.js" not in getattr(s, "filename", str(s))]


def setup(app):
    app.connect("html-page-context", without_script, priority=1000)
