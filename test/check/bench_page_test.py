#!/usr/bin/env python3
"""Each section of the benchmarks has a page, and is where its writer replaces it."""
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/bench"))
import page  # noqa: E402


class Pages(unittest.TestCase):
    def test_a_section_replaces_itself_alone(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-pages-") as folder:
            for name, text in [("start", "one"), ("death", "two"), ("output", "three"), ("start", r"four \1")]:
                page.write_section(folder, "bench-launch", name, text)
            self.assertEqual(sorted(p.name for p in pathlib.Path(folder).iterdir()), ["launch.md", "output.md"])
            launch = (pathlib.Path(folder) / "launch.md").read_text()
        self.assertTrue(launch.startswith("# Benchmarks: Launch\n"))
        self.assertEqual(re.findall(r"begin -->\n(.*)\n<!--", launch), [r"four \1", "two"])

    def test_the_pages_hold_the_sections_that_they_should(self):
        for name, (title, _, sections) in page.PAGES.items():
            with self.subTest(name):
                text = (ROOT / f"docs/benchmarks/{name}.md").read_text()
                self.assertTrue(text.startswith(f"# Benchmarks: {title}\n"))
                self.assertEqual(re.findall(r"<!-- (.*): begin -->", text), sections)
                self.assertEqual(re.findall(r"<!-- (.*): end -->", text), sections)

    def test_what_is_measured_has_a_page(self):
        for owner, table in [("launch", "SECTIONS"), ("collectives", "PARTS"), ("rendezvous", "TITLES"),
                             ("sharding", "SECTIONS")]:
            text = (ROOT / f"test/bench/{owner}/run.py").read_text()
            text = text[text.index(f"{table} = {{"):]
            names = re.findall(r'"(\w+)": ', text[:text.index("}")])
            self.assertGreater(len(names), 3)
            for name in names:
                with self.subTest(f"{owner} {name}"):
                    self.assertIn(page.page_of(f"bench-{owner}", name), page.PAGES)


if __name__ == "__main__":
    unittest.main()
