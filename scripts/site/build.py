#!/usr/bin/env python3
"""The documentation as a site that loads nothing from elsewhere (`make docs`). Its search needs a server:
`python3 -m http.server -d build/docs/site`.

    scripts/site/build.py [--root .] [--out build/docs]

Pages are gathered in OUT/pages: the Markdown files as they are, a page for each file or folder that they link to, and
the reference of the library (reference.py). The navigation is that of docs/README.md: its headings and tables. mkdocs
makes OUT/site of that, and takes each warning, as of a dead link, for an error.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import reference

LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\((?!https?:|mailto:|#)([^)#\s]*)(#[^)\s]*)?\)")
CODE = {".cc": "cpp", ".h": "cpp", ".py": "python", ".txt": "cmake", ".cmake": "cmake", ".sh": "bash", ".yaml": "yaml",
        ".nix": "nix", ".json": "json"}
LARGEST = 200_000
ROW = re.compile(r"\| \[[^\]]*\]\(([^)]*)\) \| .* \|$")


def tracked(root):
    """What git knows of, or all of it where there is no git."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = done.stdout.splitlines() if done.returncode == 0 else [str(p.relative_to(root)) for p in root.rglob("*")]
    return [pathlib.PurePosixPath(name) for name in names if (root / name).is_file()]


class Gathering:
    def __init__(self, root, pages):
        self.root, self.pages = root, pages
        self.files = tracked(root)
        self.shown = set()  # files and folders that have a page because something links to them

    def run(self):
        for file in self.files:
            if file.suffix == ".md" and (file.parts[0] in ("docs", "examples") or len(file.parts) == 1):
                self.write(file, (self.root / file).read_text())
            elif file.suffix == ".svg" and file.parts[0] == "docs":
                self.target(file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / file, self.target(file))

    def target(self, file):
        return self.pages / file

    def write(self, file, text):
        path = self.target(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINK.sub(lambda link: self.link(file, link), text))

    def link(self, file, link):
        words, where, anchor = link[1], link[2], link[3] or ""
        named = pathlib.PurePosixPath(os.path.normpath(file.parent / where))
        if (self.root / named).is_dir():
            return f"[{words}]({where.rstrip('/')}/{self.folder(named)}{anchor})"
        if named.suffix in (".md", ".svg", ".html"):
            return link[0]
        self.show(named)
        return f"[{words}]({where}.md{anchor})"

    def folder(self, folder):
        """The page of a folder: its own README.md, or a list of its files."""
        inside = [file for file in self.files if file.parent == folder]
        if folder / "README.md" in inside:
            return "README.md"
        if folder not in self.shown:
            self.shown.add(folder)
            rows = "".join(f"- [{file.name}]({file.name}{'' if file.suffix == '.md' else '.md'})\n" for file in inside)
            for file in inside:
                if file.suffix != ".md":
                    self.show(file)
            path = self.target(folder / "files.md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {folder}\n\n{rows}")
        return "files.md"

    def show(self, file):
        """A page with the text of a source file."""
        if file in self.shown:
            return
        self.shown.add(file)
        text = (self.root / file).read_text()
        if len(text) > LARGEST:
            raise SystemExit(f"{file} is too large for a page; link to something smaller")
        path = self.target(file.with_name(file.name + ".md"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {file}\n\n````{CODE.get(file.suffix, 'text')}\n{text}````\n")


def navigation(root, index):
    """The headings of an index (docs/README.md), and below each the pages in its table. A page that is the index of
    another folder has its pages below it."""
    sections = []
    for line in (root / index).read_text().splitlines():
        heading = re.match(r"## (.*)", line)
        if heading:
            sections.append({heading[1]: []})
        elif row := ROW.match(line):
            page = os.path.normpath(index.parent / row[1])
            sections[-1][next(iter(sections[-1]))].append(pages_below(root, pathlib.PurePosixPath(page)))
    return sections


def pages_below(root, page):
    if page.name != "README.md":
        return str(page)
    text = (root / page).read_text()
    pages = [os.path.normpath(page.parent / row[1]) for row in map(ROW.match, text.splitlines()) if row]
    return {text.splitlines()[0].removeprefix("# "): [str(page), *pages]}


def elsewhere(pages):
    return [f"{path.name}/" for path in pages.iterdir() if path.is_dir() and path.name not in ("docs", "api")]


def configuration(pages, site, nav):
    return {
        "site_name": "dtrain", "docs_dir": str(pages), "site_dir": str(site), "strict": True,
        "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "navigation.top", "toc.follow",
                                                                  "content.code.copy", "search.highlight"]},
        "plugins": ["search"], "extra": {"generator": False}, "nav": nav,
        # What others link to. Each page of docs/ has a place.
        "not_in_nav": "".join(f"/{folder}\n" for folder in ["*.md", *elsewhere(pages)]),
        "validation": {"nav": {"omitted_files": "warn", "not_found": "warn"},
                       "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}},
        "markdown_extensions": ["tables", "attr_list", "md_in_html", "sane_lists", "pymdownx.superfences",
                                "pymdownx.highlight", {"toc": {"permalink": True}}],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/docs"))
    options = parser.parse_args()
    root, out = options.root.resolve(), options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    pages, site = out / "pages", out / "site"
    (pages / "api").mkdir(parents=True)
    gathering = Gathering(root, pages)
    gathering.run()
    of_docs = {str(file): f"../{file}" for file in gathering.files if file.suffix == ".md"}
    rows = reference.write_headers(root / "strategies/include/dtrain", out / "doxygen", pages / "api", of_docs)
    rows.append(reference.write_python(root / "strategies/python/dtrain", pages / "api"))
    (pages / "api/README.md").write_text("# Reference of the library\n\n| page | about |\n|---|---|\n" + "".join(
        f"| [{title}]({page}) | {about} |\n" for page, title, about in rows))
    nav = [{"dtrain": "README.md"}, {"All pages": "docs/README.md"},
           *navigation(root, pathlib.PurePosixPath("docs/README.md")),
           {"Reference of the library": ["api/README.md", *(f"api/{page}" for page, _, _ in rows)]}]
    config = out / "mkdocs.yml"
    config.write_text(json.dumps(configuration(pages, site, nav), indent=1))
    # With --quiet mkdocs would not count warnings.
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config],
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=600, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print("\n".join(line for line in done.stdout.splitlines() if not line.startswith("INFO")))
        return 1
    print(f"{site}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
