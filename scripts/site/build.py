#!/usr/bin/env python3
"""Build the documentation as a site: docs/, README.md and an API reference, as HTML with a search.

usage: .venv-docs/bin/python scripts/site/build.py [OUTPUT] [--root FOLDER]

In the pages that mkdocs reads
every file has the path that it has in the repository, so links between pages stay as they are. A link to another file
leads to a page of source/ that shows the file, and a link to a public header to its page of the reference.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import reference

LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
NOT_OURS = re.compile(r"[a-z]+:")
PICTURES = {".svg", ".png"}
LANGUAGES = {".h": "cpp", ".cc": "cpp", ".py": "python", ".txt": "cmake", ".sh": "bash", ".yaml": "yaml", ".nix": "nix"}


class Gatherer:
    """Writes Markdown pages, and what they link to, into a folder."""

    def __init__(self, root, pages):
        self.root, self.pages = root, pages
        self.done = set()

    def gather(self, path):
        """Write the page of a file or folder of the project. Returns where the page is."""
        if (self.root / path / "README.md").is_file():
            path = path / "README.md"
        if path == reference.HEADERS:
            return pathlib.Path("api/README.md")
        if path.parent == reference.HEADERS:
            return pathlib.Path("api", path.name + ".md")
        page = path if path.suffix in PICTURES | {".md"} else pathlib.Path("source", f"{path}.md")
        if page not in self.done:
            self.done.add(page)
            target = self.pages / page
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                text = self.with_links((self.root / path).read_text(), path.parent, page.parent)
                if path.parts[0] == "examples":
                    text += "\n## Files\n\n" + self.listing(path.parent, page.parent)
                target.write_text(text)
            elif path.suffix in PICTURES:
                shutil.copyfile(self.root / path, target)
            elif (self.root / path).is_dir():
                target.write_text(f"# {path}\n\n" + self.listing(path, page.parent))
            else:
                target.write_text(self.shown(path))
        return page

    def with_links(self, text, here, page_folder):
        """The Markdown of a page in the folder `here`, with links to the pages of what it links to."""
        def changed(match):
            if NOT_OURS.match(match[2]):
                return match[0]
            path = pathlib.Path(os.path.normpath(here / match[2]))
            if path.is_absolute() or path.parts[0] == ".." or not (self.root / path).exists():
                return match[0]  # mkdocs tells of it
            return f"{match[1]}{os.path.relpath(self.gather(path), page_folder)}{match[3] or ''}{match[4]}"

        fenced = re.split(r"(?ms)(^ *```.*?^ *```)", text)
        return "".join(part if number % 2 else LINK.sub(changed, part) for number, part in enumerate(fenced))

    def listing(self, folder, page_folder):
        """A list of the files in a folder."""
        files = [path for path in sorted((self.root / folder).iterdir()) if path.is_file() and path.suffix != ".md"]
        return "".join(f"- [{path.name}]({os.path.relpath(self.gather(folder / path.name), page_folder)})\n"
                       for path in files)

    def shown(self, path):
        text = (self.root / path).read_text()
        return (f"---\nsearch: {{boost: 0.2}}\n---\n# {path}\n\n~~~~~~ {LANGUAGES.get(path.suffix, 'text')}\n{text}"
                f"{'' if text.endswith(chr(10)) else chr(10)}~~~~~~\n")


def run_doxygen(root, output):
    """The public headers as XML. Doxygen's warnings are errors."""
    output.mkdir(parents=True)
    here = root / "scripts/site"
    settings = (here / "Doxyfile").read_text() + f'OUTPUT_DIRECTORY = "{output}"\n' \
        f'INPUT_FILTER = "{sys.executable} {here / "doc_comments.py"}"\n'
    if subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=root).returncode:
        sys.exit("build.py: Doxygen found errors in the comments of the public headers")
    return output / "xml"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("output", nargs="?", type=pathlib.Path, help="default: build/docs; the pages that mkdocs reads "
                        "are beside it, in OUTPUT-pages")
    parser.add_argument("--root", type=pathlib.Path, default=root, help="another tree of the project")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    output = (arguments.output or root / "build/docs").resolve()
    work = output.with_name(output.name + "-pages")
    shutil.rmtree(work, ignore_errors=True)
    pages = work / "markdown"
    (pages / "api").mkdir(parents=True)
    headers = reference.Reference(root, run_doxygen(root, work / "doxygen"))
    api = headers.pages()
    if headers.errors:
        sys.exit("\n".join(["build.py: the public headers", *sorted(set(headers.errors))]))
    gatherer = Gatherer(root, pages)
    for path in [*root.glob("*.md"), *sorted((root / "docs").rglob("*.md"))]:
        gatherer.gather(path.relative_to(root))
    for name, text in api.items():
        (pages / "api" / name).write_text(gatherer.with_links(text, pathlib.Path("api"), pathlib.Path("api")))
    for name in ("site.css", "iframe-worker.js"):
        shutil.copyfile(root / "scripts/site" / name, pages / name)
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file",
                           root / "scripts/site/mkdocs.yml", "--site-dir", output], text=True, capture_output=True,
                          env=os.environ | {"DTRAIN_SITE_PAGES": str(pages), "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        sys.exit(f"build.py: mkdocs refuses the pages of {pages}\n{done.stdout}{done.stderr}")
    print(f"{sum(1 for _ in output.rglob('*.html'))} pages; start at {output / 'index.html'}")



if __name__ == "__main__":
    main()
