#!/usr/bin/env python3
"""The site that `make docs` builds: links, anchors, search, navigation, and the reference beside the headers.

    .venv-docs/bin/python test/process/docs/site_test.py [-v] [Case.test]

Then faults are planted in a copy of the tree and in the site, and each has to be found.
"""
import contextlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADERS = ROOT / "strategies/include/dtrain"
OUTSIDE = r"(?:https?:)?//"
LOADED_BY_CSS = re.compile(rf"(?:url\(|@import)\s*['\"]?{OUTSIDE}[^'\")\s]+")
LOADED_BY_SVG = re.compile(rf"(?:href|src)=['\"]{OUTSIDE}[^'\"]+")


class Page(html.parser.HTMLParser):
    """What a page links to, loads and says."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads, self.menu, self.text = set(), [], [], [], []
        self.in_article = 0
        self.raw = path.read_text()
        self.feed(self.raw)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(value for name, value in attributes if name in ("id", "name") and value)
        self.in_article += tag == "article"
        for name in ("href", "src", "srcset", "poster", "data", "action"):
            if not values.get(name):
                continue
            self.links.append(values[name])
            refers = tag in ("a", "form") or values.get("rel") in ("next", "prev", "canonical")
            if not refers:
                self.loads.append(values[name])
            if tag == "a" and re.search("md-(nav|tabs)__link", values.get("class", "")):
                self.menu.append(values[name])

    def handle_endtag(self, tag):
        self.in_article -= tag == "article"

    def handle_data(self, data):
        if self.in_article:
            self.text.append(data)


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.pages = {path.relative_to(folder).as_posix(): Page(path) for path in sorted(folder.rglob("*.html"))}

    def target(self, page, link):
        """(file, anchor) of a link, or None if it leads out of the site."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        if parts.path.startswith("/"):  # of 404.html, which a server shows for any address
            path = parts.path.lstrip("/")
        else:
            path = os.path.normpath(os.path.join(os.path.dirname(page), unquote(parts.path))) if parts.path else page
        if path in (".", ""):
            path = "index.html"
        return path, unquote(parts.fragment)

    def faults(self):
        for name, page in self.pages.items():
            for link in page.links:
                target = self.target(name, link)
                if target is None:
                    continue
                path, anchor = target
                if not (self.folder / path).is_file():
                    yield f"{name}: {link}: no such page"
                elif anchor and path in self.pages and anchor not in self.pages[path].ids:
                    yield f"{name}: {link}: no such anchor"
            for loaded in page.loads:
                if re.match(OUTSIDE, loaded):
                    yield f"{name}: loads {loaded}"
            if 'class="mermaid"' in page.raw:
                yield f"{name}: a diagram for which the browser would load a script from unpkg.com"
            yield from (f"{name}: loads {found}" for found in LOADED_BY_CSS.findall(page.raw))
        for path in self.folder.rglob("*.css"):
            yield from (f"{path.name}: loads {found}" for found in LOADED_BY_CSS.findall(path.read_text()))
        for path in self.folder.rglob("*.svg"):
            text = path.read_text()
            yield from (f"{path.name}: loads {found}" for found in [*LOADED_BY_CSS.findall(text),
                                                                    *LOADED_BY_SVG.findall(text)])

    def in_menu(self):
        """The pages that somebody reaches from the start by the menus alone."""
        found, to_look = set(), ["index.html"]
        while to_look:
            name = to_look.pop()
            if name in found or name not in self.pages:
                continue
            found.add(name)
            to_look += [target[0] for link in self.pages[name].menu if (target := self.target(name, link))]
        return found


def page_of(path):
    """The site's page of a Markdown file of the project."""
    return str(path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html"))


def build(output, root=ROOT):
    return subprocess.run([sys.executable, "-B", root / "scripts/site/build.py", output, "--root", root],
                          capture_output=True, text=True, timeout=100)


def github_anchors(markdown):
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", markdown)
    for heading in re.findall(r"(?m)^#+ (.*?)\s*$", text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def bare(text):
    """Letters and digits alone: the same however a text is marked up and broken into lines."""
    return re.sub(r"[\W_]", "", text)


def without_private(header):
    """A header's lines without the private parts of classes, and without the namespace detail."""
    private, detail = "", False  # the indent of a label `private:`; what is nested in that part ends further in
    for line in header.split("\n"):
        if line.strip() == "private:":
            private = line.partition("p")[0]
        elif re.match(r" *public:", line) or (private and line.startswith("};", len(private) - 1)):
            private = ""
        detail = (detail or line == "namespace detail {") and line != "}  // namespace detail"
        if not private and not detail:
            yield line


def declared(header):
    """The names that a header declares, as the reference's anchors have them: a simple scan."""
    inside, prefix = [], "hvd." if "namespace dtrain::hvd {" in header else ""
    for line in filter(None, without_private(header)):
        indent = len(line) - len(line.lstrip())
        inside = inside[:(indent + 1) // 2]
        if match := re.match(r" *(?:class|struct|enum class) (\w+)[^;]*\{", line):
            yield prefix + ".".join([*inside, match[1]])
            if line.count("{") > line.count("}") and indent == 2 * len(inside):
                inside.append(match[1])
        elif match := re.match(r"using (\w+) =", line):
            yield prefix + match[1]
        elif match := re.match(r" *(?!//|return|template|private|requires)(?:[\w:<>,&*\[\]]+ )*[&*]*(\w+)\(", line):
            if indent == 2 * len(inside) and not re.search("delete|~|operator", line):
                yield prefix + ".".join([*inside, match[1]])


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-site-")
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        built = build(cls.scratch / "site")
        if built.returncode:
            raise AssertionError(built.stdout + built.stderr)
        cls.site = Site(cls.scratch / "site")
        cls.markdown = {path.relative_to(ROOT): path.read_text()
                        for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]}

    def test_links_and_anchors_lead_somewhere_and_nothing_is_loaded_from_outside(self):
        self.assertGreater(sum(len(page.links) for page in self.site.pages.values()), 5000)
        self.assertEqual(list(self.site.faults()), [])

    def test_every_page_is_in_the_menus(self):
        missing = {page_of(path) for path in self.markdown} - self.site.in_menu()
        self.assertEqual(missing, set())
        self.assertIn("api/group.h.html", self.site.in_menu())

    def test_anchors_are_those_of_github(self):
        for path, text in self.markdown.items():
            missing = set(github_anchors(text)) - self.site.pages[page_of(path)].ids
            self.assertEqual(missing, set(), path)

    def test_lists_begin_below_an_empty_line(self):
        for path, text in self.markdown.items():  # GitHub can do without, mkdocs cannot
            text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
            self.assertIsNone(re.search(r"(?m)^(?![-*] |#+ |\d+\. |  )\S.*\n[-*] ", text), path)

    def test_the_search_knows_the_words_of_every_page(self):
        index = (self.scratch / "site/search/search_index.json").read_text()
        known = {}
        for entry in json.loads(index)["docs"]:
            text = re.sub("<[^>]*>", " ", f"{entry['title']} {entry['text']}")
            known.setdefault(entry["location"].partition("#")[0] or "index.html", []).append(html.unescape(text))
        self.assertIn("orthonormal", " ".join(known["api/power_sgd.h.html"]))
        for name, page in self.site.pages.items():
            if name == "404.html":
                continue
            words = set(re.findall(r"\w{4,}", " ".join(page.text)))
            indexed = set(re.findall(r"\w{4,}", " ".join(known.get(name, []))))
            self.assertEqual(words - indexed, set(), f"{name}: words that the search does not know")
        # Where there is no server the page loads the index as a script.
        self.assertEqual((self.scratch / "site/search/search_index.js").read_text(), f"var __index = {index}")

    def test_the_reference_has_what_the_headers_declare_and_all_that_they_say(self):
        names = 0
        for header in sorted(HEADERS.glob("*.h")):
            page, text = self.site.pages[f"api/{header.name}.html"], header.read_text()
            expected = list(declared(text))
            names += len(expected)
            self.assertEqual(set(expected) - page.ids, set(), header.name)
            lines = [line for line in without_private(text) if "// opaque" not in line and not line.startswith("}")]
            said = bare("".join(page.text))
            for comment in re.findall(r"// ?(.*)", "\n".join(lines)):
                self.assertIn(bare(comment), said, header.name)
        self.assertGreater(names, 130)

    def test_types_of_signatures_are_links(self):
        self.assertIn('const <a href="group.h.html#GroupSettings">GroupSettings</a>&amp; settings',
                      self.site.pages["api/session.h.html"].raw)

    def test_planted_in_the_tree(self):
        tree = self.scratch / "tree"
        left_out = shutil.ignore_patterns("build", "build-*", ".*", "__pycache__")
        shutil.copytree(ROOT, tree, symlinks=True, ignore=left_out)
        with contextlib.ExitStack() as files:
            dead = "[dead](gone.md) [dead](../examples/gone.cc) [dead](cli.md#gone)\n"
            for name, text in [("docs/faq.md", dead), ("docs/new.md", "# A page that no menu has\n")]:
                files.enter_context(open(tree / name, "a")).write(text)
        built = build(self.scratch / "planted", tree)
        self.assertEqual(built.returncode, 1)
        for found in ["'docs/faq.md' contains a link 'gone.md'", "'docs/faq.md' contains a link '../examples/gone.cc'",
                      "'docs/faq.md' contains a link 'cli.md#gone'", r"not included in the \"nav\".*\n.*docs/new\.md"]:
            self.assertRegex(built.stderr, found if "\\" in found else re.escape(found))
        header = tree / "strategies/include/dtrain/mesh.h"
        header.write_text(header.read_text().replace("arranged in one", "as Session::gone() and gone.h say, in one"))
        built = build(self.scratch / "planted", tree)
        self.assertEqual(built.returncode, 1)
        self.assertIn("mesh.h: a comment names Session::gone, which", built.stderr)
        self.assertIn("mesh.h: a comment names gone.h, which", built.stderr)

    def test_planted_in_the_site(self):
        folder = self.scratch / "wrong"
        folder.mkdir()
        for text in ['<a href="gone.html">', '<a href="#gone">', '<script src="https://a.org/a.js">',
                     '<link rel="stylesheet" href="//a.org/a.css">', '<style>a { background: url(http://a.org/) }',
                     '<img src="https://a.org/a.png">', '<pre class="mermaid">']:
            (folder / "index.html").write_text(text)
            self.assertEqual(len(list(Site(folder).faults())), 1, text)
        (folder / "index.html").write_text('<a href="https://a.org/">, <a id="b" href="#b">')
        self.assertEqual(list(Site(folder).faults()), [])


if __name__ == "__main__":
    unittest.main()
