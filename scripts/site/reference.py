"""The API reference as Markdown: a page for each public C++ header, from Doxygen's XML, and one for the Python package.

Doxygen knows what belongs to whom, which comment is about what, and which words of it are names. Signatures are taken
from the headers, where they are written for readers. Declarations that follow without an empty line share the comment
above the first of them, as in the headers.
"""
import ast
import html
import pathlib
import re
import textwrap
import xml.etree.ElementTree as xml

HEADERS, PYTHON = pathlib.Path("strategies/include/dtrain"), pathlib.Path("strategies/python/dtrain")
NAMESPACES = ("dtrain", "dtrain::hvd")
OF_PAGES = re.compile(r"\bdocs/[\w/-]+\.md\b")


class Declaration:
    """A class, function, field, enumeration or alias that a header declares."""

    def __init__(self, node, kind, name, within):
        self.node, self.kind, self.name, self.within = node, kind, name, within
        self.ids = [node.get("id"), *(value.get("id") for value in node.iter("enumvalue"))]
        location = node.find("location")
        self.file, self.line = location.get("file"), int(location.get("line"))
        self.short = re.sub("^dtrain::", "", name)
        self.members = []  # of a class
        self.anchor = self.text = self.signature = ""

    @property
    def page(self):
        return page_of(self.file)

    def is_minor(self):
        """Nothing to read about: it says that there are no copies, or how it ends."""
        return not self.text and ("= delete" in self.signature or re.search(r"~\w+\(\)|operator=\(", self.signature))


def page_of(header):
    return pathlib.PurePosixPath(header).name + ".md"


def any_of(names):
    """A pattern that prefers longer names."""
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def plain(node):
    return "".join(node.itertext())


def escaped(text):
    """What Markdown shows as `text`."""
    return re.sub(r"([\\*_\[\]#])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")


def fenced(text, language=""):
    if not language:
        language = "cpp" if re.search(r"(?m);( *//.*)?$", text) else "text"
    return f"```{language}\n{textwrap.dedent(text).strip(chr(10)).rstrip()}\n```"


def read_declarations(folder):
    """What the headers declare, in their order; classes hold their members."""
    found, classes = [], {}
    for path in sorted(folder.glob("*.xml")):
        for compound in xml.parse(path).getroot().iter("compounddef"):
            kind, name = compound.get("kind"), compound.findtext("compoundname")
            if kind in ("class", "struct"):
                classes[name] = Declaration(compound, kind, name, name.rpartition("::")[0])
                found.append(classes[name])
            elif kind != "namespace":
                continue
            for member in compound.iter("memberdef"):
                if member.get("prot") == "public" and member.get("kind") != "friend":
                    own = Declaration(member, member.get("kind"), f"{name}::{member.findtext('name')}", name)
                    found.append(own)
    found.sort(key=lambda one: (one.file, one.line))
    for one in found:
        if one.within in classes and one.kind not in ("class", "struct"):
            classes[one.within].members.append(one)
    return found


def read_signature(declaration, lines):
    """Its text in the header, without a body."""
    start = declaration.line - 1
    while start and re.match(r" *(template <|requires )", lines[start - 1]):
        start -= 1
    indent = len(lines[start]) - len(lines[start].lstrip())
    text = "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines[start:start + 30])
    if declaration.kind in ("enum", "typedef", "variable"):
        return re.sub(r" \{.*|;.*", "", text, flags=re.S) if declaration.kind == "enum" else text.split(";")[0] + ";"
    depth, ends = 0, len(text)
    for place, char in enumerate(text):
        depth += (char in "(") - (char in ")")
        constructor = declaration.kind == "function" and re.match(r"\s:\s", text[place:])
        if depth == 0 and (char in ";{" or constructor):
            ends = place
            break
    return text[:ends].rstrip() + (";" if declaration.kind == "function" else "")


class Reference:
    def __init__(self, root, xml_folder):
        self.root, self.folder = root, xml_folder
        self.lines = {path.relative_to(root / HEADERS.parent).as_posix(): path.read_text().split("\n")
                      for path in sorted((root / HEADERS).glob("*.h"))}
        self.declarations = read_declarations(xml_folder)
        self.errors = []  # what comments name and headers do not have
        self.links = {}  # Doxygen's id or a name: (page, anchor)
        taken = set()
        for one in self.declarations:
            stem = re.sub(r"[^\w.-]", "", one.short.replace("::", ".").replace("~", "-"))
            one.anchor, number = stem, 1
            while (one.page, one.anchor) in taken:
                number += 1
                one.anchor = f"{stem}-{number}"
            taken.add((one.page, one.anchor))
            one.signature = read_signature(one, self.lines[one.file])
            values = [f"{one.short}::{value.findtext('name')}" for value in one.node.iter("enumvalue")]
            for known in [*one.ids, one.short, *values]:
                self.links.setdefault(known, (one.page, one.anchor))
                self.links.setdefault(re.sub("^hvd::", "", known), (one.page, one.anchor))
        for path in xml_folder.glob("*_8h.xml"):
            self.links[path.stem] = (xml.parse(path).find(".//compoundname").text + ".md", "")
        self.types = {}
        for one in self.declarations:  # within its namespace a name is written without it
            if one.kind in ("class", "struct", "enum", "typedef") and one.within in NAMESPACES:
                self.types[one.short] = self.types[re.sub("^hvd::", "", one.short)] = (one.page, one.anchor)
        self.type_pattern = re.compile(rf"(?<![\w:.])({any_of(self.types)})\b")
        qualified = {name for name in self.links if "::" in name}
        self.name_pattern = re.compile(rf"(?<![\w:.])({any_of(qualified | set(self.types))})\b(?:\(\))?")
        self.unknown_pattern = re.compile(rf"(?<![\w:.])(?!(?:{any_of(qualified)})\b)(?:{any_of(self.types)})::\w+|"
                                          r"(?<![\w/])\w+\.h\b")
        for one in self.declarations:
            one.text = self.markdown(one.node, one.page)

    def target(self, link, page):
        return (link[0] if link[0] != page else "") + ("#" + link[1] if link[1] else "")

    def markdown(self, node, page):
        """The comment of a node."""
        paragraphs = []
        for part in ("briefdescription", "detaileddescription"):
            for para in node.findall(f"{part}/para"):
                paragraphs += self.paragraphs(para, page)
        return "\n\n".join(paragraphs)

    def paragraphs(self, para, page):
        """The blocks of Markdown in a paragraph of Doxygen's, which may hold listings."""
        text, links = para.text or "", []
        for child in para:
            if child.tag == "ref":
                links.append((plain(child), self.links.get(child.get("refid"))))
                text += f"\0{len(links) - 1}\0"
            elif child.tag == "verbatim":
                yield from self.prose(text, links, page)
                shown = re.sub(r"(?m)^ *///? ?", "", plain(child)).removeprefix("|")
                yield fenced(shown)
                text = ""
            elif child.tag == "ndash":
                text += "--"
            else:
                raise ValueError(f"{page}: Doxygen makes <{child.tag}> of a comment: {plain(para)}")
            text += child.tail or ""
        yield from self.prose(text, links, page)

    def prose(self, text, links, page):
        if not text.strip():
            return
        result = []
        for number, part in enumerate(" ".join(text.split()).split("`")):
            if number % 2:  # code
                result.append("`" + re.sub("\0(\\d+)\0", lambda match: links[int(match[1])][0], part) + "`")
                continue
            part = OF_PAGES.sub(lambda match: f"\1[{match[0]}](../{match[0]})\1", part)
            pieces = re.split("(\0\\d+\0|\1.*?\1)", part)
            for piece in pieces:
                if piece.startswith("\1"):
                    result.append(piece.strip("\1"))
                elif piece.startswith("\0"):
                    shown, link = links[int(piece.strip("\0"))]
                    result.append(f"[{escaped(shown)}]({self.target(link, page)})" if link else escaped(shown))
                else:
                    result.append(self.named(piece, page))
        yield "".join(result)

    def named(self, text, page):
        """Names that Doxygen saw none in, because it looked from outside of the namespace."""
        result, after = [], 0
        for wrong in self.unknown_pattern.finditer(text):
            self.errors.append(f"{page[:-3]}: a comment names {wrong[0]}, which no public header declares")
        for match in self.name_pattern.finditer(text):
            link = self.types.get(match[1]) or self.links[match[1]]
            result += [escaped(text[after:match.start()]), f"[{escaped(match[0])}]({self.target(link, page)})"]
            after = match.end()
        return "".join([*result, escaped(text[after:])])

    def signatures(self, declarations):
        """A listing whose types are links."""
        rows = []
        for one in declarations:
            def link(match):
                page, anchor = self.types[match[1]]
                if page == one.page and anchor == one.anchor:
                    return match[0]
                return f'<a href="{page[:-3] + ".html" if page != one.page else ""}#{anchor}">{match[0]}</a>'
            shown = self.type_pattern.sub(link, html.escape(one.signature, quote=False))
            rows.append(shown if one is declarations[0] else f'<span id="{one.anchor}"></span>{shown}')
        return '<pre class="signature"><code>' + "\n".join(rows) + "</code></pre>"

    def shares(self, one, before):
        """No empty line, and no comment of its own, parts it from the declaration before."""
        between = self.lines[one.file][before.line - 1:one.line - 1]
        return not one.text and "// " not in between[0] and all(line.strip() for line in between)

    def entries(self, declarations):
        """Lists of declarations that one comment is about."""
        result, minor = [], []
        for one in declarations:
            if one.is_minor():
                minor.append(one)
            elif result and one.kind == "function" and self.shares(one, result[-1][-1]):
                result[-1].append(one)
            else:
                result.append([one])
        return result + ([minor] if minor else [])

    def entry(self, declarations, level):
        first = declarations[0]
        names = dict.fromkeys(one.name.rpartition("::")[2] for one in declarations)
        title = "Copies and end" if first.is_minor() else ", ".join(names)
        if level == 2:
            title = ", ".join(dict.fromkeys(one.short for one in declarations))
        yield f"{'#' * level} {escaped(title)} {{ #{first.anchor} }}"
        yield self.signatures(declarations)
        if first.text:
            yield first.text
        values = list(first.node.iter("enumvalue"))
        if values:
            rows = ["| value | |", "|---|---|"]
            for value in values:
                rows.append(f"| `{value.findtext('name')}` | {self.markdown(value, first.page)} |")
            yield "\n".join(rows)

    def page(self, header):
        name = header.split("/")[1]
        parts = [f"# {escaped(name)}", f"```cpp\n#include \"{header}\"\n```"]
        of_file = next(path for path in self.folder.glob("*_8h.xml")
                       if xml.parse(path).find(".//compoundname").text == name)
        parts.append(self.markdown(xml.parse(of_file).find("compounddef"), page_of(header)))
        within = [one for one in self.declarations if one.file == header]
        free = [one for one in within if not any(one in other.members for other in within)]
        for group in self.entries(free):
            parts += self.entry(group, 2)
            for members in self.entries(group[0].members):
                parts += self.entry(members, 3)
        return "\n\n".join(part for part in parts if part) + "\n"

    def pages(self):
        """{name: Markdown} of all pages."""
        result = {page_of(header): self.page(header) for header in self.lines}
        rows = ["# API reference",
                "The public headers of the C++ library. `#include \"dtrain/dtrain.h\"` includes them.",
                "| header | declares |\n|---|---|"]
        for header in self.lines:
            free = [one for one in self.declarations if one.file == header and one.within in NAMESPACES]
            names = {one.short: f"[{escaped(one.short)}]({one.page}#{one.anchor})" for one in reversed(free)}
            name = header.split("/")[1]
            rows[-1] += f"\n| [{escaped(name)}]({page_of(header)}) | {', '.join(reversed(names.values()))} |"
        rows.append("The [Python package](python.md) `dtrain` is a backend of `torch.distributed`.")
        result["README.md"] = "\n\n".join(rows) + "\n"
        result["python.md"] = python_page(self.root)
        return result


def python_page(root):
    parts = ["# Python package dtrain", "A program uses it by its name alone, as [training in Python]"
             "(../docs/training/python.md) shows. Modules whose names begin with `_` may change at any time."]
    for path in sorted((root / PYTHON).glob("*.py")):
        module = ast.parse(path.read_text())
        name = "dtrain" if path.stem == "__init__" else f"dtrain.{path.stem}"
        parts += [f"## {escaped(name)} {{ #{name} }}",
                  OF_PAGES.sub(r"[\g<0>](../\g<0>)", ast.get_docstring(module) or "")]
        for function in module.body:
            if isinstance(function, (ast.FunctionDef, ast.ClassDef)) and not function.name.startswith("_"):
                arguments = ast.unparse(function.args) if isinstance(function, ast.FunctionDef) else ""
                word = "def" if isinstance(function, ast.FunctionDef) else "class"
                parts += [f"### {escaped(function.name)} {{ #{name}.{function.name} }}",
                          fenced(f"{word} {function.name}({arguments})", "python"), ast.get_docstring(function) or ""]
    return "\n\n".join(part for part in parts if part) + "\n"
