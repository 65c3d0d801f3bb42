#!/usr/bin/env python3
"""Recipes that are offered and that no CI of ours runs: Dockerfiles, the dev container, conda, Nix, templates for CI.

    .venv-test/bin/python test/process/packages/recipes_test.py [-v] [Case.test]

Each is read by a parser of its language, and what it names has to exist. Second, faults are planted, and each has to be
found.
"""
import fnmatch
import functools
import importlib.util
import json
import pathlib
import re
import subprocess
import unittest

import jsonschema
import rattler_build
import tree_sitter
import tree_sitter_nix
from jsonschema.exceptions import best_match
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONDA, NIX = "scripts/packages/conda/recipe.yaml", "scripts/packages/nix/flake.nix"
DOCKERFILES = ["Dockerfile", ".devcontainer/Dockerfile"]
DEVCONTAINER = ".devcontainer/devcontainer.json"
NOT_BUILT = "ot built by this project's CI"
# The names of files in the first lines of listings, and the schemas that check-jsonschema has for them.
JOB = "job config"  # for --config
SCHEMAS = {r"\.github/workflows/[\w-]+\.yml": "github-workflows", r"\.gitlab-ci\.yml": "gitlab-ci", r"job\.yaml": JOB}
INSTRUCTIONS = set("ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER "
                   "VOLUME WORKDIR".split())


class Tree:
    """The project's files, of which some may read differently."""

    def __init__(self, planted=None):
        self.planted = planted or {}

    def text(self, path):
        return self.planted[path] if path in self.planted else (ROOT / path).read_text()

    @functools.cached_property
    def version(self):
        return re.search(r"project\(dtrain VERSION ([\d.]+)", self.text("CMakeLists.txt"))[1]

    def listings(self, language):
        """(page:line, text) of each listing in a language."""
        pages = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
        for page in pages:
            text = self.text(page)
            for match in re.finditer(rf"(?ms)^```{language}\n(.*?)^```$", text):
                yield f"{page}:{text.count(chr(10), 0, match.start()) + 1}", match[1]

    def launcher_preset(self):
        presets = {preset["name"]: preset for preset in json.loads(self.text("CMakePresets.json"))["configurePresets"]}
        values, name = {}, "launcher"
        while name:
            values = {**presets[name].get("cacheVariables", {}), **values}
            name = presets[name].get("inherits")
        return values


@functools.cache
def validator(name):
    # Found and not imported: its program needs packages that are not here.
    package = pathlib.Path(importlib.util.find_spec("check_jsonschema").origin).parent
    own = ROOT / "test/golden/cli/config-schema.json"
    schema = json.loads((own if name == JOB else package / f"builtin_schemas/vendor/{name}.json").read_text())
    return jsonschema.validators.validator_for(schema)(schema)


@functools.cache
def syntax_error(script):
    return subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, timeout=30).stderr.strip()


def named_by_shell(tree, where, script):
    """Breaches of what a script names: targets, scripts, groups of setup.sh, presets, options, dtrain's flags."""
    for command in re.split(r"&&|\|\||[;\n|]", script.replace("\\\n", " ")):
        words = command.split()
        if words[:1] == ["make"] and not re.search(rf"(?m)^{words[1]}:", tree.text("Makefile")):
            yield f"{where}: make has no target {words[1]}"
        if words and words[0].startswith("scripts/"):
            if not (ROOT / words[0]).is_file():
                yield f"{where}: there is no {words[0]}"
            elif words[0] == "scripts/setup.sh":
                for group in words[1:]:
                    if not re.search(rf"(?m)^    {group}\) ", tree.text("scripts/setup.sh")):
                        yield f"{where}: setup.sh has no group {group}"
        if (match := re.search(r"cmake .*--preset (\S+)", command)) and f'"name": "{match[1]}"' not in tree.text(
                "CMakePresets.json"):
            yield f"{where}: there is no preset {match[1]}"
        if match := re.search(r"dtrain run (.*)", command):
            for flag in re.findall(r"(?:^|\s)(--?[a-z][\w-]*)", match[1].partition(" train.py")[0]):
                if not re.search(rf"(?m)^### .*[` ]{flag}[ `,]|^- also .*`{flag}`", tree.text("docs/cli.md")):
                    yield f"{where}: dtrain run has no flag {flag}"
    for option in re.findall(r"-D(DTRAIN_\w+)", script):
        files = tree.text("CMakeLists.txt") + tree.text("cmake/FindLibTorch.cmake")
        if not re.search(rf"\b{option}\b", files):
            yield f"{where}: CMake has no option {option}"


def shell(tree, where, script):
    if error := syntax_error(script):
        yield f"{where}: {error}"
    yield from named_by_shell(tree, where, script)


def check_listings(tree):
    seen = set()
    for where, text in tree.listings("ya?ml"):
        if text.startswith("apiVersion:"):
            continue  # Kubernetes': test/process/docs/manifests_test.py
        try:
            data = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            yield f"{where}: {error}"
            continue
        first = text.split("\n", 1)[0]
        schema = next((schema for name, schema in SCHEMAS.items() if re.fullmatch("# " + name, first)), None)
        if schema is None:
            yield f"{where}: the first line says which file it is: # .gitlab-ci.yml"
        elif error := best_match(validator(schema).iter_errors(data)):
            yield f"{where}: {schema}: {error.json_path}: {error.message}"
        else:
            seen.add(schema)
            jobs = {JOB: {}, "github-workflows": data.get("jobs")}.get(schema, data)
            for name, job in jobs.items():
                yield from check_job(tree, f"{where}: {name}", job)
    if len(seen) < len(SCHEMAS):
        yield f"docs: a template is missing; there are {sorted(seen)}"


def check_job(tree, where, job):
    """Of GitHub's or GitLab's: it ends in time, keeps logs of a failure, and its commands are right."""
    steps = job.get("steps", [])
    lines = [step["run"] for step in steps if "run" in step] + job.get("before_script", []) + job.get("script", [])
    if "timeout" not in job and "timeout-minutes" not in job:
        yield f"{where}: no time limit"
    keeps = [step.get("if") for step in steps if "upload-artifact" in step.get("uses", "")]
    if keeps != ["failure()"] and job.get("artifacts", {}).get("when") != "on_failure":
        yield f"{where}: no logs are kept of a failure"
    trains = [line for line in lines if re.search(r"\btimeout --kill-after=\d+ \d+ dtrain run ", line)]
    if len(trains) != 1:
        yield f"{where}: no line with timeout and dtrain run"
    for line in lines:
        yield from shell(tree, where, line)


def instructions(text):
    """(line, instruction, arguments) of a Dockerfile."""
    number, lines = 0, text.split("\n")
    while number < len(lines):
        start, line = number + 1, lines[number]
        while line.endswith("\\") and number + 1 < len(lines):
            number += 1
            line = line[:-1] + lines[number].strip()
        number += 1
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, rest = line.strip().partition(" ")
            yield start, word, rest.strip()


def check_copy(tree, where, words, stages):
    flags = [word for word in words if word.startswith("--")]
    sources = [word for word in words if not word.startswith("--")][:-1]
    stage = next((flag.removeprefix("--from=") for flag in flags if flag.startswith("--from=")), None)
    if stage is not None:
        if stage not in stages:
            yield f"{where}: there is no stage {stage} above"
        for source in sources:
            made = re.sub(r"/[^/]*\*[^/]*$", "", source.removeprefix("/src/"))
            if source.startswith("/src/") and made not in tree.text("Makefile"):
                yield f"{where}: the Makefile says nothing of {source}"
        return
    ignored = [line for line in tree.text(".dockerignore").splitlines() if line and line[0] != "#"]
    for source in sources:
        if not (ROOT / source).exists():
            yield f"{where}: there is no {source}"
        for pattern in ignored:
            if fnmatch.fnmatch("/" + source, pattern.replace("**/", "*")):
                yield f"{where}: .dockerignore leaves {source} out"


def check_dockerfile(tree, path, text, ours=True):
    stages, user = [], "root"
    for line, word, rest in instructions(text):
        where = f"{path}:{line}"
        if word not in INSTRUCTIONS:
            yield f"{where}: {word} is no instruction"
        if not stages and word not in ("FROM", "ARG"):
            yield f"{where}: {word} before FROM"
        if word == "FROM":
            match = re.fullmatch(r"(\S+)(?: AS (\S+))?", rest)
            if not match:
                yield f"{where}: FROM IMAGE [AS NAME]"
            stages.append(match and match[2] or str(len(stages)))
            user = "root"
        elif word == "USER":
            user = rest
        elif word == "COPY" and ours:
            yield from check_copy(tree, where, rest.split(), stages[:-1])
        elif word == "RUN":
            yield from shell(tree, where, rest)
        elif word in ("CMD", "ENTRYPOINT"):
            try:
                json.loads(rest)
            except ValueError:
                yield f"{where}: {word} takes a list in JSON, or a shell becomes PID 1"
    if ours and user == "root":
        yield f"{path}: it ends as root"
    made = re.findall(r"useradd [^&\n]*--uid (\d+) [^&\n]*\b(\w+)\s*(?:&&|$)", text.replace("\\\n", " "), re.M)
    if ours and user not in [name for both in made for name in both]:
        yield f"{path}: USER is {user}, useradd makes {made}"


def check_dockerfiles(tree):
    for path in DOCKERFILES:
        yield from check_dockerfile(tree, path, tree.text(path))
    for where, text in tree.listings("dockerfile"):
        yield from check_dockerfile(tree, where, text, ours=False)


def check_devcontainer(tree):
    try:
        data = json.loads(re.sub(r"(?m)^\s*//.*$", "", tree.text(DEVCONTAINER)))
    except ValueError as error:
        yield f"{DEVCONTAINER}: {error}"
        return
    dockerfile = data["build"]["dockerfile"]
    if not (ROOT / ".devcontainer" / dockerfile).is_file():
        yield f"{DEVCONTAINER}: there is no {dockerfile}"
    elif f"USER {data['remoteUser']}\n" not in tree.text(f".devcontainer/{dockerfile}"):
        yield f"{DEVCONTAINER}: {dockerfile} has no user {data['remoteUser']}"
    yield from shell(tree, DEVCONTAINER, data["postCreateCommand"])


def check_conda(tree):
    folder = (ROOT / CONDA).parent
    try:
        variants = rattler_build.VariantConfig.from_file(folder / "variants.yaml")
        rendered, = rattler_build.Stage0Recipe.from_yaml(tree.text(CONDA)).render(variants)
        recipe = rendered.recipe.to_dict()
    except (rattler_build.RattlerBuildError, ValueError) as error:
        yield f"{CONDA}: {error}"
        return
    if recipe["package"] != {"name": "dtrain", "version": tree.version}:
        yield f"{CONDA}: it makes {recipe['package']}, and CMakeLists.txt says {tree.version}"
    if f'license = "{recipe["about"]["license"]}"' not in tree.text("pyproject.toml"):
        yield f"{CONDA}: pyproject.toml has another license"
    for source in recipe["source"]:
        if (folder / source["path"]).resolve() != ROOT:
            yield f"{CONDA}: {source['path']} is not the project"
    for name in recipe["about"]["license_file"]:
        if not (ROOT / name).is_file():
            yield f"{CONDA}: there is no {name}"
    yield from shell(tree, CONDA, "\n".join(recipe["build"]["script"]))
    tests = [line for test in recipe["tests"] for line in test.get("script", [])]
    if not {"dtrain --version", "dtrain run --nproc 2 true"} <= set(tests):
        yield f"{CONDA}: its tests run {tests}"


def check_nix(tree):
    text = tree.text(NIX)
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_nix.language()))
    if parser.parse(text.encode()).root_node.has_error:
        yield f"{NIX}: this is not Nix"
    if versions := set(re.findall(r'\bversion = "(.*?)"', text)) ^ {tree.version}:
        yield f"{NIX}: version: {versions}, and CMakeLists.txt says {tree.version}"
    yield from named_by_shell(tree, NIX, text)
    flags = dict(re.findall(r'"-D(DTRAIN_\w+)=(\w+)"', text))
    preset = tree.launcher_preset()
    for name in ("DTRAIN_STRATEGIES", "DTRAIN_TESTS", "DTRAIN_UNITY"):
        if flags.get(name) != preset[name]:
            yield f"{NIX}: {name} is {flags.get(name)}, and the preset launcher has {preset[name]}"
    for line in ("$out/bin/dtrain --version", "$out/bin/dtrain run --nproc 2 true"):
        if line not in text:
            yield f"{NIX}: its check does not run {line}"


def check_marks(tree):
    for path in [*DOCKERFILES, DEVCONTAINER, CONDA, NIX]:
        if NOT_BUILT not in "".join(tree.text(path).splitlines()[:3]):
            yield f"{path}: its first lines do not say '{NOT_BUILT}'"
        if path in (CONDA, NIX) and path.rpartition("/")[0] not in tree.text("docs/install.md"):
            yield f"docs/install.md: nothing about {path}"
    if NOT_BUILT not in tree.text("docs/install.md"):
        yield f"docs/install.md: it does not say '{NOT_BUILT}'"


CHECKS = [check_listings, check_dockerfiles, check_devcontainer, check_conda, check_nix, check_marks]

# (check, file, what stands there, what is planted, what has to be said)
CI = "docs/ci.md"
PLANTED = [
    (check_listings, CI, "    runs-on: ubuntu-24.04\n", "", "github-workflows"),
    (check_listings, CI, "    steps:\n", "    stepps:\n", "github-workflows"),
    (check_listings, CI, "    steps:\n", "   steps:\n", "docs/ci.md:"),
    (check_listings, CI, "  image: python:3.12\n", "  image: [python]\n", "gitlab-ci"),
    (check_listings, CI, "    when: on_failure\n", "    when: on_failing\n", "gitlab-ci"),
    (check_listings, CI, "    when: on_failure\n", "", "no logs"),
    (check_listings, CI, "        if: failure()\n", "", "no logs"),
    (check_listings, CI, "    timeout-minutes: 20\n", "", "no time limit"),
    (check_listings, CI, "  timeout: 20 minutes\n", "", "no time limit"),
    (check_listings, CI, "timeout --kill-after=60 300 dtrain", "dtrain", "no line with timeout"),
    (check_listings, CI, "--tee 3", "--tea 3", "no flag --tea"),
    (check_listings, CI, "-DDTRAIN_TORCH_PYTHON", "-DDTRAIN_TORCH_PYTHONS", "no option DTRAIN_TORCH_PYTHONS"),
    (check_listings, CI, '"torch==2.15.*"', '"torch==2.15.*', "unexpected EOF"),
    (check_listings, CI, "# .gitlab-ci.yml\n", "", "which file it is"),
    (check_listings, CI, "```yaml\n# .gitlab-ci.yml", "```\n# .gitlab-ci.yml", "a template is missing"),
    (check_listings, "docs/backend.md", "    max_retries: 3", "    max_retry: 3", "'max_retry' was unexpected"),
    (check_dockerfiles, "Dockerfile", "WORKDIR /src", "WORKFOLDER /src", "no instruction"),
    (check_dockerfiles, "Dockerfile", "RUN make wheel\n", "RUN make weel\n", "no target weel"),
    (check_dockerfiles, "Dockerfile", "requirements-wheel.txt", "requirements-weel.txt", "there is no scripts/"),
    (check_dockerfiles, "Dockerfile", "setup.sh wheel\n", "setup.sh weel\n", "no group weel"),
    (check_dockerfiles, "Dockerfile", "RUN scripts/setup.sh", "RUN scripts/set_up.sh", "there is no scripts/set_up.sh"),
    (check_dockerfiles, "Dockerfile", "COPY --from=build", "COPY --from=bild", "no stage bild"),
    (check_dockerfiles, "Dockerfile", "/src/build/wheel/dist/", "/src/build/weel/dist/", "says nothing of"),
    (check_dockerfiles, "Dockerfile", "USER 1000\n", "", "ends as root"),
    (check_dockerfiles, "Dockerfile", "USER 1000\n", "USER 1001\n", "USER is 1001"),
    (check_dockerfiles, "Dockerfile", '["dtrain"]', "dtrain", "list in JSON"),
    (check_dockerfiles, "Dockerfile", "&& useradd", "&& (useradd", "syntax error"),
    (check_dockerfiles, ".dockerignore", "/build\n", "/scripts/*\n", "leaves scripts/setup.sh out"),
    (check_dockerfiles, ".devcontainer/Dockerfile", "USER dev\n", "USERS dev\n", "no instruction"),
    (check_dockerfiles, "docs/install.md", "USER root\n", "USR root\n", "no instruction"),
    (check_devcontainer, DEVCONTAINER, '"init": true,', '"init": true', "Expecting"),
    (check_devcontainer, DEVCONTAINER, '"Dockerfile"', '"Dockerfiles"', "there is no Dockerfiles"),
    (check_devcontainer, DEVCONTAINER, '"dev"', '"develop"', "no user develop"),
    (check_devcontainer, DEVCONTAINER, "launcher train", "launcher drain", "no group drain"),
    (check_conda, CONDA, '"0.1.0"', '"0.1.1"', "CMakeLists.txt says"),
    (check_conda, "CMakeLists.txt", "VERSION 0.1.0", "VERSION 0.2.0", "CMakeLists.txt says 0.2.0"),
    (check_conda, CONDA, "ignore_run_exports", "ignored_run_exports", "unknown field"),
    (check_conda, CONDA, '${{ stdlib("c") }}', '${{ stdlib("c") }', CONDA),
    (check_conda, CONDA, "host:\n", "host\n", CONDA),
    (check_conda, CONDA, "BSD-3-Clause", "MIT", "another license"),
    (check_conda, CONDA, "license_file: LICENSE", "license_file: LICENCE", "there is no LICENCE"),
    (check_conda, CONDA, "path: ../../..", "path: ../..", "not the project"),
    (check_conda, CONDA, "--preset launcher ", "--preset lancher ", "no preset lancher"),
    (check_conda, CONDA, "-DDTRAIN_WERROR", "-DDTRAIN_WERRORS", "no option DTRAIN_WERRORS"),
    (check_conda, CONDA, "      - dtrain run --nproc 2 true\n", "", "its tests run"),
    (check_nix, NIX, '"0.1.0"', '"0.1.1"', "CMakeLists.txt says"),
    (check_nix, NIX, "pkgs.openssl ];", "pkgs.openssl ;", "not Nix"),
    (check_nix, NIX, "-DDTRAIN_UNITY=ON", "-DDTRAIN_UNITE=ON", "no option DTRAIN_UNITE"),
    (check_nix, NIX, "-DDTRAIN_TESTS=OFF", "-DDTRAIN_TESTS=ON", "the preset launcher has OFF"),
    (check_nix, NIX, "dtrain run --nproc 2", "dtrain run --nprocs 2", "no flag --nprocs"),
    (check_marks, NIX, NOT_BUILT, "", "first lines"),
    (check_marks, "docs/install.md", "scripts/packages/conda", "scripts/conda", "nothing about"),
]


class Recipes(unittest.TestCase):
    def test_they_are_right(self):
        for check in CHECKS:
            with self.subTest(check.__name__):
                self.assertEqual(list(check(Tree())), [])

    def test_planted_faults_are_found(self):
        for check, path, old, new, said in PLANTED:
            with self.subTest(path=path, old=old, new=new):
                text = Tree().text(path)
                self.assertTrue(old in text, f"{path} does not have it any more")
                found = "\n".join(check(Tree({path: text.replace(old, new)})))
                self.assertIn(said, found)


if __name__ == "__main__":
    unittest.main()
