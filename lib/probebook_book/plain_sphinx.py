"""`python -m probebook_book.plain_sphinx` builds the book without jupyter-book.

jupyter-book 1.x is only maintained and holds Sphinx at 7.4. This builds the same pages with plain
`sphinx-build`: from the sources that `build` has staged, with a `conf.py` made of `_config.yml`
that names `_toc.yml`, and in an environment of its own with the newest packages that install.
`benchmarks/plain_sphinx.py` compares the two books. They were last the same with Sphinx 9.0.4,
docutils 0.22.4, myst-parser 5.2.0, myst-nb 1.4.0 and sphinx-book-theme 1.4.0. No package holds
Sphinx back, only Python: 3.11 gets 9.0, since 9.1 asks for 3.12.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from joblib import cpu_count

from probebook.base import PACKAGE, UserError, read_yaml
from probebook_runs.pages import home

PACKAGES = (
    "sphinx",
    "myst-nb",
    "sphinx-book-theme",
    "sphinx-external-toc",
    "sphinx-togglebutton",
    "sphinx-copybutton",
    "sphinx-comments",
    "sphinx-design",
    "sphinxcontrib-bibtex",
)
OPTIONS = "html_theme_options"
NAMES = {  # of _config.yml and of Sphinx; a dot leads into a dictionary
    "title": "html_title",
    "author": "author",
    "copyright": "copyright",
    "only_build_toc_files": "external_toc_exclude_missing",
    "exclude_patterns": "exclude_patterns",
    "bibtex_bibfiles": "bibtex_bibfiles",
    "parse.myst_enable_extensions": "myst_enable_extensions",
    "execute.timeout": "nb_execution_timeout",
    "execute.stderr_output": "nb_output_stderr",
    "html.favicon": "html_favicon",
    "html.home_page_in_navbar": f"{OPTIONS}.home_page_in_toc",
    "html.use_repository_button": f"{OPTIONS}.use_repository_button",
    "repository.url": f"{OPTIONS}.repository_url",
    "launch_buttons": f"{OPTIONS}.launch_buttons",
}
WRAPPERS = {"execute.execute_notebooks", "html.use_multitoc_numbering", "sphinx.recursive_update"}
USUAL = {  # what jupyter-book sets unasked; pages have been executed before
    "html_theme": "sphinx_book_theme",
    "html_sourcelink_suffix": "",
    "pygments_style": "sphinx",
    "external_toc_path": "_toc.yml",
    "myst_url_schemes": ["mailto", "http", "https"],
    "suppress_warnings": ["myst.domains"],
    "nb_execution_mode": "off",
    OPTIONS: {"search_bar_text": "Search this book...", "repository_branch": "master"},
}


def conf(config: dict[str, Any]) -> str:
    """The text of a `conf.py` that says what the content of a `_config.yml` does.

    UserError: a name of `_config.yml` that this does not know."""
    sphinx = config.get("sphinx", {})
    settings: dict[str, Any] = deepcopy(USUAL)
    for name, value in _flat({key: part for key, part in config.items() if key != "sphinx"}):
        if name not in NAMES:
            raise UserError(
                f"_config.yml: {name} has no name in Sphinx here: give it one in NAMES "
                "of publish/plain_sphinx.py"
            )
        place, _, inner = NAMES[name].partition(".")
        if inner:
            settings[place][inner] = value
        else:
            settings[place] = value
    given = sphinx.get("config", {})
    settings |= given | {OPTIONS: settings[OPTIONS] | given.get(OPTIONS, {})}
    extensions = given.get("extensions", [])
    settings["extensions"] = [name for name in extensions if name != "jupyter_book"]
    folders = sorted(set(sphinx.get("local_extensions", {}).values()))
    lines = [
        "import sys",
        "from pathlib import Path",
        "",
        f"sys.path += [str(Path(__file__).parent / folder) for folder in {folders}]",
    ]
    return "\n".join([*lines, *(f"{name} = {settings[name]!r}" for name in sorted(settings)), ""])


def _flat(config: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Names, with dots, and values; without those that only the wrapper needs."""
    for key, value in config.items():
        name = f"{within}{key}"
        if isinstance(value, dict) and name not in NAMES:
            yield from _flat(value, f"{name}.")
        elif name not in WRAPPERS:
            yield name, value


def environment(folder: Path) -> str:
    """Make a virtual environment anew, with the newest packages; returns their versions, a line
    each. The reference to the library imports the library, so what that needs is taken from the
    environment that runs this; jupyter-book alone is shut out. UserError: pip could not."""
    python = str(folder / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [python, "-m", "pip", "install", *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["no reason"]
            raise UserError(f"{folder}: not installed: {said[-1]}")
    versions = subprocess.run(
        [python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    ).stdout
    (site,) = folder.glob("lib/python*/site-packages")
    lines = [
        str(PACKAGE.parent),
        sysconfig.get_path("purelib"),
        "import sys; sys.modules['jupyter_book'] = None",
    ]
    (site / "library.pth").write_text("\n".join(lines) + "\n")  # after its own packages
    return versions


def build(source: Path, folder: Path) -> Path:
    """Write the HTML of staged sources into `folder/html`, and the packages' versions beside it.

    UserError: nothing is staged, an unknown name in `_config.yml`, packages that do not install, or
    a warning, which stands on stderr."""
    text = conf(read_yaml(source / "_config.yml"))
    html, doctrees = folder / "html", folder / "doctrees"
    for old in (html, doctrees):
        shutil.rmtree(old, ignore_errors=True)
    (source / "conf.py").write_text(text, encoding="utf-8")
    versions = environment(folder / "env")
    (folder / "versions.txt").write_text(versions)
    command = [
        str(folder / "env" / "bin" / "sphinx-build"),
        "-b",
        "html",
        "-W",
        "--keep-going",
        "-q",
        "-j",
        str(cpu_count()),
        "-d",
        str(doctrees),
        str(source),
        str(html),
    ]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
        raise UserError("the book was not built: its sources gave the warnings above")
    return html / "index.html"


if __name__ == "__main__":
    try:
        print(build(home() / "_build" / "book_source", home() / "_build" / "plain"))
    except UserError as error:
        sys.exit(str(error))
