"""A standalone master of Spark and its workers on this host."""
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parents[2] / ".venv-spark"
PYTHON = str(VENV / "bin/python")
START_SECONDS = 120
CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # options of a JVM that does not live for long
# Of a cheap job.
OPTIONS = (f"--conf spark.executor.memory=512m --conf 'spark.executor.extraJavaOptions={CHEAP}' "
           f"--driver-java-options '{CHEAP}'")


def spark_home():
    return str(next(VENV.glob("lib/python*/site-packages/pyspark")))


def drain(stream):
    while stream.read(65536):
        pass


class SparkCluster:
    def __init__(self, mark, secret=None, tls=False):
        """mark: NAME=VALUE, by which all that it starts is known. secret: with one, all connections are authenticated
        and encrypted, and drivers need SPARK_CONF_DIR=folder. tls: they are TLS, else Spark's own encryption."""
        self.folder = tempfile.mkdtemp(prefix="dtspark-")
        self.properties = self.secure(secret, tls) if secret else ""
        self.write("spark-defaults.conf", self.properties)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SPARK_", "PYSPARK_")) and name != "MASTER"}
        self.environment.update([mark.split("=")], SPARK_HOME=spark_home(), SPARK_LOCAL_IP="127.0.0.1",
                                SPARK_LOCAL_DIRS=self.folder, SPARK_CONF_DIR=self.folder,
                                SPARK_DAEMON_JAVA_OPTS=CHEAP)
        self.processes = []
        said = self.daemon("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
                           "--webui-port", "0", until=r"I have been elected leader|New state: ALIVE")
        self.address = re.search(r"spark://127\.0\.0\.1:\d+", said).group()

    def write(self, name, text):
        """A file that nobody else can read."""
        path = pathlib.Path(self.folder, name)
        path.touch(0o600)
        path.write_text(text)
        return path

    def secure(self, secret, tls):
        properties = f"spark.authenticate true\nspark.authenticate.secret {secret}\n"
        if not tls:
            return properties + "spark.network.crypto.enabled true\nspark.network.crypto.saslFallback false\n"
        key, certificate, store = (os.path.join(self.folder, name) for name in ("key.pem", "cert.pem", "store.p12"))
        for words in (["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                       "-subj", "/CN=spark", "-keyout", key, "-out", certificate],
                      ["pkcs12", "-export", "-inkey", key, "-in", certificate, "-out", store, "-passout", "stdin"]):
            subprocess.run(["openssl", *words], input=secret, text=True, check=True, capture_output=True)
        # Each trusts the certificate that is its own. All that Spark has pages for speaks https too.
        of_all = {"enabled": "true", "keyStore": store, "keyStorePassword": secret, "keyPassword": secret,
                  "trustStore": store, "trustStorePassword": secret, "protocol": "TLSv1.3"}
        return properties + "spark.ssl.rpc.enabled true\n" + "".join(
            f"spark.ssl.{name} {value}\n" for name, value in of_all.items())

    def daemon(self, name, *words, until):
        process = subprocess.Popen([spark_home() + "/bin/spark-class", "-Xmx256m", name, *words], env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        self.processes.append(process)
        said = ""
        while not re.search(until, said):
            if not select.select([process.stdout], [], [], START_SECONDS)[0]:
                raise RuntimeError(f"{name} is late; it said:\n{said}")
            chunk = os.read(process.stdout.fileno(), 65536).decode(errors="replace")
            if not chunk:
                raise RuntimeError(f"{name} has ended; it said:\n{said}")
            said += chunk
        threading.Thread(target=drain, args=(process.stdout,), daemon=True).start()
        return said

    def add_worker(self, cores, gpus=()):
        resources = []
        if gpus:
            script = pathlib.Path(self.folder, "gpus.sh")
            addresses = ", ".join(f'"{gpu}"' for gpu in gpus)
            script.write_text(f"#!/bin/sh\necho '{{\"name\": \"gpu\", \"addresses\": [{addresses}]}}'\n")
            script.chmod(0o755)
            # In place of spark-defaults.conf.
            properties = self.write(f"worker{len(self.processes)}.conf", self.properties +
                                    f"spark.worker.resource.gpu.amount {len(gpus)}\n"
                                    f"spark.worker.resource.gpu.discoveryScript {script}\n")
            resources = ["--properties-file", str(properties)]
        self.daemon("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
                    "--cores", str(cores), "--memory", "2G", "--work-dir", self.folder, *resources, self.address,
                    until="Successfully registered with master")

    def close(self):
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    CLUSTER = SparkCluster("DTRAIN_TEST_CLUSTER=by-hand")
    for _ in range(2):
        CLUSTER.add_worker(2, ["GPU-a", "GPU-b"])
    print(CLUSTER.address, flush=True)
    sys.stdin.read()
    CLUSTER.close()
