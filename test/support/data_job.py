"""A job whose config has a data set, for tests of engines: dtrain beside a dtrain-data whose builder copies its inputs
(test/process/data/cache_data.cc)."""
import os
import pathlib
import shutil

# What each worker finds.
SHOW = 'echo rank $RANK reads $(cat "$DTRAIN_DATASET/a.csv") and $(cat "$DTRAIN_DATASET_TEST/a.csv")'


class DataJob:
    def __init__(self, folder, dtrain, config):
        """In `folder`, with the lines `config` besides."""
        self.folder = pathlib.Path(folder)
        for name in "programs", "in":
            (self.folder / name).mkdir()
        self.dtrain = str(self.folder / "programs/dtrain")
        shutil.copy(dtrain, self.dtrain)
        shutil.copy(pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"], "cache_data"),
                    self.folder / "programs/dtrain-data")
        (self.folder / "in/a.csv").write_text("abc")
        self.config = str(self.folder / "job.yaml")
        pathlib.Path(self.config).write_text(
            f"dataset: {{input: {self.folder}/in}}\nbackend:\n  cache_dir: {self.folder}/cache\n{config}")

    def builds(self):
        return len((self.folder / "in/builds").read_text())
