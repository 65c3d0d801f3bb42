"""A data set that several nodes preprocess together, for tests of engines: the real dtrain-data, and tables of text."""
import json
import os
import pathlib
import shutil

# Beside it is dtrain-data, if this build has Arrow.
DTRAIN = os.path.abspath(os.path.join(os.environ.get("DTRAIN_BIN_DIR", "build/bin"), "dtrain"))
ROWS = 30_000
MEMORY = 64 << 20


class SharedBuild:
    def __init__(self, folder, config):
        """In `folder`, with the lines `config` for the nodes."""
        self.folder, self.config = pathlib.Path(folder), config
        programs, log = self.folder / "programs", self.folder / "workers"
        programs.mkdir()
        self.dtrain = str(shutil.copy(DTRAIN, programs))
        line = f'echo "$RANK of $WORLD_SIZE on $GROUP_RANK" >> {log}'
        (programs / "dtrain-data").write_text(f'#!/bin/sh\n[ "$1" != work ] || {line}\n'
                                              f'exec {DTRAIN}-data "$@"\n')
        (programs / "dtrain-data").chmod(0o755)
        self.log = log
        (self.folder / "in").mkdir()
        for file in range(4):
            rows = "".join(f"{row},{row * 37 % 101},word {row * row % 17}\n" for row in range(file, ROWS, 4))
            (self.folder / f"in/{file}.csv").write_text("id,x,word\n" + rows)

    def write(self, name, config="", processor="", cache=""):
        """The config with a cache of this name, or `cache`. Its own name."""
        path = self.folder / f"{name}.yaml"
        path.write_text(f"dataset:\n  input: {self.folder}/in\n"
                        "  steps: [{normalize: {x: zscore}}, {vocabulary: {word: {size: 5}}}, {dedup: [x, word]}]\n"
                        f"{config or self.config}"
                        f"  cache_dir: {cache or self.folder / name}\n"
                        f"  processor: {{memory_limit_bytes: {MEMORY}, parallelism: 8{processor}}}\n")
        return str(path)

    def workers(self):
        """Those that have shared the work since this was asked: "0 of 3 on 0", the last a number of a node."""
        found = sorted(self.log.read_text().splitlines()) if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return found

    def built(self, cache):
        """The bytes of the one entry, and that nothing else is left."""
        entry, = (path for path in (self.folder / cache).iterdir() if not path.name.startswith("."))
        files = {str(path.relative_to(entry)): path.read_bytes() for path in entry.rglob("*") if path.is_file()}
        meta = json.loads(files.pop("meta.json"))
        assert set(meta["files"][0]) >= {"path"} and ".work" not in str(sorted(files)), sorted(files)
        return files
