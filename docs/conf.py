"""Sphinx configuration."""

from polysharp import __version__

project = "polysharp"
author = "The polysharp developers"
copyright = "2026, the polysharp developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "examples"]
highlight_language = "none"  # blocks without a language are printed output
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
# Names that differ in nothing but a capital need two files on every system.
autosummary_filename_map = {
    "polysharp.Path": "polysharp.Path-record",
    "polysharp.Stability": "polysharp.Stability-record",
}
autodoc_typehints = "none"  # numpydoc's sections say it
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Every example is run; one that fails ends the build.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),  # what an example wants to show it prints
    "doc_module": ("polysharp",),
    "backreferences_dir": "gallery/uses",
    "log_level": {"backreference_missing": "debug"},  # most names are in no example
    "reference_url": {"polysharp": None},
    "image_srcset": ["2x"],
    "thumbnail_size": (480, 320),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "nested_sections": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "polysharp"
html_static_path = ["_static"]
html_css_files = ["polysharp.css"]
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    page: []
    for page in (
        "index",
        "install",
        "start",
        "first_use",
        "how_long",
        "faq",
        "comparison",
        "mathematics",
        "evidence",
        "benchmarks",
        "tried",
        "glossary",
        "formats",
        "references",
        "architecture",
        "trace",
        "contributing",
        "changelog",
    )
}
html_context = {"default_mode": "auto"}
