"""The reference of the public headers and of the Python package, as Markdown pages: what Doxygen finds, in the order of
the header, with the words of its comments (filter.py)."""
import ast
import pathlib
import re
import subprocess
import textwrap
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("function", "typedef", "enum", "variable")
DOXYFILE = """INPUT={headers}
FILE_PATTERNS=*.h
INPUT_FILTER="python3 {filter}"
GENERATE_HTML=NO
GENERATE_LATEX=NO
GENERATE_XML=YES
XML_PROGRAMLISTING=NO
OUTPUT_DIRECTORY={output}
EXTRACT_ALL=YES
SORT_MEMBER_DOCS=NO
AUTOLINK_SUPPORT=NO
QUIET=YES
WARN_AS_ERROR=YES
"""


class Entry:
    """A class or a member: where it stands, how it is declared, what is said of it."""

    def __init__(self, node, name, declared):
        place = node.find("location")
        self.file = pathlib.PurePosixPath(place.get("file")).name
        self.line = int(place.get("line"))
        self.name = name
        self.declared = declared
        self.said = said_of(node)
        self.members = []
        self.anchor = ""


def said_of(node):
    return "\n\n".join("".join(part.itertext()).strip("\n") for part in node.findall("detaileddescription//verbatim"))


def run_doxygen(headers, output):
    output.mkdir(parents=True, exist_ok=True)
    config = output / "Doxyfile"
    config.write_text(DOXYFILE.format(headers=headers, filter=HERE / "filter.py", output=output))
    done = subprocess.run(["doxygen", config], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"doxygen: {done.stderr.strip()}")
    return [xml.parse(path).getroot().find("compounddef") for path in sorted((output / "xml").glob("*.xml"))
            if not path.stem.startswith(("index", "dir_", "Doxyfile"))]


def words(node):
    return " ".join("".join(node.itertext()).split()) if node is not None else ""


def enumerator(value):
    """One of an enum's, with its comment as the header has it."""
    said = "".join("".join(part.itertext()) for part in value.findall("detaileddescription//verbatim")).strip()
    comment = "".join(f"  // {line}\n" for line in said.splitlines())
    return f"{comment}  {value.findtext('name')} {words(value.find('initializer'))}".rstrip() + ",\n"


def declaration(member):
    """One member as it is written, without the names of what it is in."""
    kind, name = member.get("kind"), member.findtext("name")
    if kind == "enum":
        values = "".join(enumerator(value) for value in member.findall("enumvalue"))
        return f"enum {'class ' if member.get('strong') == 'yes' else ''}{name} {{\n{values}}};"
    if kind == "typedef":
        return f"using {name} = {words(member.find('type')).removeprefix('using ')};"
    parameters = member.find("templateparamlist")
    start = ""
    if parameters is not None:
        listed = [f"{words(one.find('type'))} {one.findtext('declname') or ''}".strip()
                  for one in parameters.findall("param")]
        start = f"template <{', '.join(listed)}>\n"
    flags = "".join(f"{flag} " for flag in ("static", "explicit") if member.get(flag) == "yes")
    kind_of = words(member.find("type"))
    text = f"{flags}{kind_of + ' ' if kind_of else ''}{name}{words(member.find('argsstring'))}"
    value = words(member.find("initializer"))
    if value:
        text += value if value.startswith("{") else f" {value}"
    return start + tight(text) + ";"


def tight(text):
    text = re.sub(r"\s+([&*]+)\s*(?=\w)", r"\1 ", text)
    text = re.sub(r"\s+([&*]+)(?=[,)>])", r"\1", text)
    text = re.sub(r"< ", "<", re.sub(r" >", ">", text))
    text = re.sub(r"(?<=\w)=(?=[\w{\"'-])", " = ", text)  # default arguments
    if len(text) > 100 and "(" in text:
        head, _, tail = text.partition("(")
        text = head + "(\n    " + ",\n    ".join(split_arguments(tail))
    return text


def split_arguments(text):
    """At the commas that are in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<({") - (letter in ">)}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def entries_of(compounds):
    """All classes and free functions that are public, by header."""
    classes = {}
    for node in compounds:
        name = node.findtext("compoundname")
        if node.get("kind") in ("class", "struct") and "detail::" not in name:
            short = name.removeprefix("dtrain::")
            bases = [f"{base.get('prot')} {base.text}" for base in node.findall("basecompoundref")]
            declared = f"{node.get('kind')} {short}" + (f" : {', '.join(bases)}" if bases else "") + ";"
            entry = classes[name] = Entry(node, short, declared)
            entry.members = [Entry(member, member.findtext("name"), declaration(member))
                             for member in node.findall("sectiondef/memberdef")
                             if member.get("prot") == "public" and member.get("kind") in KINDS]
    top = []
    for name, entry in classes.items():
        outer = classes.get(name.rpartition("::")[0])
        (outer.members if outer else top).append(entry)
    for node in compounds:
        name = node.findtext("compoundname")
        if node.get("kind") == "namespace" and name.startswith("dtrain") and "detail" not in name:
            prefix = name.removeprefix("dtrain").removeprefix("::")
            for member in node.findall("sectiondef/memberdef"):
                if member.get("kind") in KINDS:
                    short = member.findtext("name")
                    top.append(Entry(member, f"{prefix}::{short}" if prefix else short, declaration(member)))
    return sorted(top, key=lambda entry: entry.line)


def name_anchors(entries, outer=""):
    used = set()
    for entry in entries:
        anchor = (outer + entry.name).replace("::", "-").replace("~", "end-of-").replace(" ", "").lower()
        anchor = re.sub(r"[^\w-]", lambda sign: f"{ord(sign[0]):x}", anchor)
        while anchor in used:
            anchor += "-2"
        used.add(anchor)
        entry.anchor = anchor
        name_anchors(sorted(entry.members, key=lambda member: member.line), anchor + "-")


def markdown(said, links):
    """A comment's words: paragraphs, lists, and indented lines as code; names of the library as links."""
    out = []
    for part in re.split(r"\n\s*\n", said):
        lines = part.splitlines()
        if all(line.startswith("  ") for line in lines if line.strip()):
            code = "\n".join(line.removeprefix("  ") for line in lines)
            if out and out[-1].endswith("\n```"):
                out[-1] = out[-1].removesuffix("```") + f"\n{code}\n```"
            else:
                out.append(f"```cpp\n{code}\n```")
        else:
            out.append(linked("\n".join(lines), links))
    return "\n\n".join(out)


def linked(text, links):
    text = text.replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"docs/[\w/.-]+\.md|\b[a-z_]+\.h\b|\b\w+(?:::\w+)*(?:\(\))?",
                  lambda word: f"[{word[0]}]({links[word[0]]})" if word[0] in links else word[0], text)


def links_of(entries, headers):
    """What a comment may name: pages of the docs, headers, classes, and functions with their parentheses."""
    links = {f"{header}": f"{pathlib.Path(header).stem}.md" for header in headers}
    for entry in entries:
        page = f"{pathlib.Path(entry.file).stem}.md#{entry.anchor}"
        own = entry.name.split("::")[-1]
        is_class = entry.declared.startswith(("class", "struct"))
        links.setdefault(own if is_class else f"{own}()", page)
        for member in entry.members if is_class else ():
            links.setdefault(f"{own}::{member.name}", f"{pathlib.Path(entry.file).stem}.md#{member.anchor}")
            links.setdefault(f"{own}::{member.name}()", f"{pathlib.Path(entry.file).stem}.md#{member.anchor}")
    return links


def section(entry, level, links):
    """A heading, the declaration and the comment; members without a comment stand with the one before them."""
    out = [f"{'#' * level} {entry.name} {{ #{entry.anchor} }}", f"```cpp\n{entry.declared}\n```"]
    if entry.said:
        out.append(markdown(entry.said, links))
    plain = []
    for member in sorted(entry.members, key=lambda one: one.line):
        if member.said or member.members:
            out += code_of(plain) + [section(member, level + 1, links)]
            plain = []
        else:
            plain.append(member)
    return "\n\n".join(out + code_of(plain))


def code_of(members):
    if not members:
        return []
    anchors = "".join(f'<a id="{member.anchor}"></a>' for member in members)
    return [anchors, "```cpp\n" + "\n".join(member.declared for member in members) + "\n```"]


def write_headers(headers, work, folder, docs):
    """Pages of all headers into the folder; docs: from a name in a comment to a link. Returns (page, title, about)."""
    compounds = run_doxygen(headers, work)
    entries = entries_of(compounds)
    name_anchors(entries)
    names = sorted(path.name for path in headers.glob("*.h"))
    links = {**docs, **links_of(entries, names)}
    pages = []
    for header in names:
        file = next(node for node in compounds
                    if node.get("kind") == "file" and node.findtext("compoundname") == header)
        said = said_of(file)
        parts = [f"# dtrain/{header}", f"```cpp\n#include \"dtrain/{header}\"\n```", markdown(said, links)]
        parts += [section(entry, 2, links) for entry in entries if entry.file == header]
        (folder / f"{pathlib.Path(header).stem}.md").write_text("\n\n".join(parts) + "\n")
        pages.append((f"{pathlib.Path(header).stem}.md", f"dtrain/{header}", linked(first_sentence(said), links)))
    return pages


def first_sentence(said):
    return " ".join(re.split(r"\n\s*\n", said)[0].split()).split(". ")[0].rstrip(".:")


def write_python(package, folder):
    """The docstrings of the package's public modules and of what is public in them, in one page."""
    parts = ["# The Python package"]
    for path in sorted(package.glob("*.py"), key=lambda one: (one.name != "__init__.py", one.name)):
        tree = ast.parse(path.read_text())
        if path.name.startswith("_") and path.name not in ("__init__.py", "__main__.py"):
            continue
        special = {"__init__.py": "import dtrain", "__main__.py": "python -m dtrain"}
        title = special.get(path.name, f"dtrain.{path.stem}")
        parts += [f"## {title}", as_text(ast.get_docstring(tree) or "")]
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                parts += [f"### {node.name}", as_text(ast.get_docstring(node) or "")]
    (folder / "python.md").write_text("\n\n".join(part for part in parts if part) + "\n")
    return ("python.md", "The Python package", 'What `import dtrain` and `python -m dtrain` do')


def as_text(docstring):
    def code(lines):
        return f"```python\n{textwrap.dedent(lines[0]).rstrip()}\n```\n"
    return re.sub(r"(?m)^(    .*\n?)+", code, docstring)
