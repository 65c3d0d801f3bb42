#!/usr/bin/env python3
"""The site that `make docs` makes: each link in it leads somewhere, nothing comes from another host, search knows every
page, and the reference has all that is public. Small sites with a fault each are refused.

    test/process/docs/site_test.py [-v] [Case.test]
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE = 240
HEADER = """#pragma once
// A box. See docs/page.md.
namespace dtrain {

// Holds one thing. Box::open() opens it:
//
//   Box().open();
class Box {
 public:
  void open() const;  // at most once
  // Closes the Box again.
  void close(int times = 1);

 private:
  int secret_ = 0;
};
// Makes a Box<int>.
Box make_box();

}  // namespace dtrain
"""
SMALL = {
    "README.md": "# Small\n\n[docs](docs/README.md), [a file](src/tool.py), [a folder](examples/one)\n",
    "docs/README.md": "# All\n\n## Start\n\n| page | about |\n|---|---|\n| [page.md](page.md) | a page |\n",
    "docs/page.md": "# Page\n\n## A part\n\n[here](#a-part), [there](README.md#start)\n",
    "src/tool.py": "print('seldom')\n",
    "examples/one/main.cc": "int main() {}\n",
    "strategies/include/dtrain/box.h": HEADER,
    "strategies/python/dtrain/__init__.py": '"""What import does.\n\n    print("indented")\n"""\n',
}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors, self.words = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif found.get("src") or (tag == "link" and found.get("rel") != "canonical"):
            self.loaded.append(found.get("src") or found.get("href"))

    def handle_data(self, data):
        self.words.append(data)


def build(out, *arguments):
    return subprocess.run([sys.executable, "-B", ROOT / "scripts/site/build.py", "--out", out, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-site-")
        cls.addClassCleanup(folder.cleanup)
        done = build(folder.name + "/out")
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.site = pathlib.Path(folder.name, "out/site")
        cls.pages = {path: Page(path.read_text()) for path in cls.site.rglob("*.html")}

    def test_each_link_leads_to_a_page_and_an_anchor(self):
        dead = []
        for path, page in self.pages.items():
            for link in page.links:
                place = urllib.parse.urlsplit(link)
                if place.scheme:
                    continue
                # The page of a missing page is shown at any address, so its links begin at the top.
                start = self.site if path.name == "404.html" else path.parent
                to = (start / urllib.parse.unquote(place.path).lstrip("/")).resolve() if place.path else path
                to = to / "index.html" if to.is_dir() else to
                anchor = urllib.parse.unquote(place.fragment)
                if not to.is_file() or (anchor and to in self.pages and anchor not in self.pages[to].anchors):
                    dead.append(f"{path.relative_to(self.site)}: {link}")
        self.assertEqual(dead, [])
        self.assertGreater(sum(len(page.links) for page in self.pages.values()), 5000)

    def test_nothing_is_loaded_from_another_host(self):
        far = [f"{path.relative_to(self.site)}: {what}" for path, page in self.pages.items() for what in page.loaded
               if urllib.parse.urlsplit(what).netloc]
        self.assertEqual(far, [])
        styles = "".join(path.read_text() for path in self.site.rglob("*.css"))
        self.assertEqual(re.findall(r"url\(.?(?:https?:)?//[^)]*", styles), [])

    def test_search_knows_each_page_and_the_reference(self):
        index = json.loads((self.site / "search/search_index.json").read_text())["docs"]
        places = {entry["location"].partition("#")[0] for entry in index}
        for page in (ROOT / "docs").rglob("*.md"):
            name = page.relative_to(ROOT).with_suffix(".html")
            self.assertIn(str(name).replace("README.html", "index.html"), places)
        texts = " ".join(f"{entry['title']} {entry['text']}" for entry in index)
        for word in ("new_group", "DistributedOptimizer", "collective_timeout", "--max-restarts"):
            self.assertIn(word, texts)

    def test_the_reference_has_each_public_class_and_function(self):
        for header in sorted((ROOT / "strategies/include/dtrain").glob("*.h")):
            text = re.sub(r"namespace (\w+::)?detail \{.*?\n\}  // namespace", "", header.read_text(), flags=re.DOTALL)
            text = re.sub(r"\n private:.*?\n\};", "", text, flags=re.DOTALL)
            page = "".join(self.pages[self.site / f"api/{header.stem}.html"].words)
            names = re.findall(r"^(?:class|struct) (\w+)\b(?!;)", text, re.MULTILINE)
            names += re.findall(r"^[\w:<>&*, ]+?\b(\w+)\(", text, re.MULTILINE)
            names += re.findall(r"^  [\w:<>&*, ]+? (\w+)\([^;{]*\) *(?:const)?;", text, re.MULTILINE)
            with self.subTest(header.name):
                self.assertEqual([name for name in names
                                  if not name.endswith("_") and not re.search(rf"\b{name}\b", page)], [])
                # The words of each comment are there, too.
                for said in re.findall(r"^ *// (\w[^`<*\n]{30,}[.:,])$", text, re.MULTILINE):
                    self.assertIn(said, re.sub(r"\s+", " ", page))


class Small(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-site-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, files=None):
        for name, text in {**SMALL, **(files or {})}.items():
            path = self.folder / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = build(self.folder / "out", "--root", self.folder / "tree")
        return done.returncode, done.stdout + done.stderr

    def test_what_a_page_shows(self):
        code, said = self.build()
        self.assertEqual(code, 0, said)
        site = self.folder / "out/site"
        self.assertIn("seldom", (site / "src/tool.py.html").read_text())
        self.assertIn('href="main.cc.html"', (site / "examples/one/files.html").read_text())
        box = (site / "api/box.html").read_text()
        words = " ".join("".join(Page(box).words).split())
        for there in ("Holds one thing.", "Box().open();", "at most once", "Closes the Box again.",
                      "void close(int times = 1);", "Makes a Box<int>.", "Box make_box();"):
            self.assertIn(there, words)
        self.assertNotIn("secret_", words)
        self.assertIn('<a href="box.html#box-open">Box::open()</a>', box)
        self.assertIn('href="../docs/page.html"', box)
        self.assertIn('print("indented")', "".join(Page((site / "api/python.html").read_text()).words))

    def test_faults_are_refused(self):
        for fault, files, said in [
                ("a dead link", {"docs/page.md": "# Page\n\n[gone](gone.md)\n"}, "gone.md"),
                ("a dead anchor", {"docs/page.md": "# Page\n\n[gone](README.md#gone)\n"}, "#gone"),
                ("a page without a place", {"docs/lost.md": "# Lost\n"}, "docs/lost.md"),
                ("a place without a page",
                 {"docs/README.md": SMALL["docs/README.md"] + "| [b](b.md) | b |\n"}, "b.md")]:
            with self.subTest(fault):
                self.setUp()
                code, told = self.build(files)
                self.assertNotEqual(code, 0)
                self.assertIn(said, told)


if __name__ == "__main__":
    unittest.main()
