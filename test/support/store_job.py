"""A job whose data set is in an S3 store (moto's), with credentials that its config alone has, for tests of engines."""
import os
import pathlib
import re
import secrets
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/process/data"))

from s3_server import S3Server  # noqa: E402

ROWS = 60
# Says what it has read, and which processes of this user show the secret to all who may look.
TRAIN = f"""
import os, pathlib
import dtrain
rows = sum(len(batch["x"]) for batch in dtrain.ParquetLoader(batch_size=8))
shown, secret = [], (REVERSED)[::-1].encode()  # its file does not have it either
for each in pathlib.Path("/proc").iterdir():
    for name in ("cmdline", "environ") if each.name.isdigit() else ():
        try:
            if secret in (each / name).read_bytes():
                shown.append((each / "comm").read_text().strip() + " in " + name)
        except OSError:
            continue
print(f"rank {{os.environ['RANK']}} reads {{rows}} rows; shown by: {{sorted(set(shown))}}")
"""


class StoreJob:
    """In `folder`, with the lines `config` besides."""

    def __init__(self, test, folder, config="", **server):
        self.server = S3Server("bucket", **server)
        test.addCleanup(self.server.close)
        self.folder = pathlib.Path(folder)
        (self.folder / "in.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(ROWS)))
        # One of this job alone: workers look at all processes, those of other tests as well.
        self.secret = f"hunter2-{secrets.token_hex(8)}"
        (self.folder / "train.py").write_text(TRAIN.replace("(REVERSED)", repr(self.secret[::-1])))
        file = self.folder / "job.yaml"
        file.write_text(f"""dataset: {{input: {self.folder}/in.csv}}
{config}
backend:
  cache_dir: s3://bucket/cache
  cache_credentials:
    s3:
      client_kwargs: {{aws_access_key_id: ann, aws_secret_access_key: {self.secret}, endpoint_url: '{self.server.url}'}}
""")
        file.chmod(0o600)
        build = pathlib.Path(os.environ["DTRAIN_BIN_DIR"]).absolute()
        self.words = [str(build / "dtrain"), "run", "--config", str(file)]
        self.program = str(self.folder / "train.py")
        self.environment = {"PYTHON_EXEC": str(ROOT / ".venv/bin/python"), "PYTHONPATH": str(build.parent / "python")}

    def words_on(self, engine):
        """The command that runs it on two nodes."""
        return [*self.words, f"--engine={engine}", "--nnodes=2", "--nproc=1", self.program]

    def check_run(self, test, engine, environment, deadline):
        """It runs there from this host."""
        done = subprocess.run(self.words_on(engine), cwd=self.folder, env={**environment, **self.environment},
                              timeout=deadline, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT)
        test.assertEqual(done.returncode, 0, done.stdout)
        self.check_said(test, done.stdout)
        self.check_no_secret_below(test, self.folder)

    def check_said(self, test, said, shown=()):
        """By the command and by the workers of two nodes, each of which has read its half of the rows."""
        test.assertNotIn(self.secret, said)
        test.assertEqual(sorted(re.findall(r"rank \d reads .*", said)),
                         [f"rank {rank} reads {ROWS // 2} rows; shown by: {sorted(shown)}" for rank in range(2)], said)

    def check_no_secret_below(self, test, folder):
        """Nor in what was written for the job, as logs."""
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file() and path.name != "job.yaml":
                test.assertNotIn(self.secret.encode(), path.read_bytes(), path)
