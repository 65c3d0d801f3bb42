"""Each Kubernetes manifest of the docs is valid: .venv-test's Python runs this, which has the schemas."""
import importlib
import pathlib
import re
import unittest

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERSION = "1.37"
KUBEFLOW = {"TrainJob": "TrainerV1alpha1TrainJob", "TrainingRuntime": "TrainerV1alpha1TrainingRuntime"}


def manifests():
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"(?ms)^```ya?ml\n(apiVersion:.*?)^```", page.read_text()):
            yield from yaml.safe_load_all(block)


def breach(manifest):
    """What is wrong with a manifest; empty if it is valid."""
    if manifest["apiVersion"].startswith("trainer.kubeflow.org/"):
        model = getattr(importlib.import_module("kubeflow_trainer_api.models"), KUBEFLOW[manifest["kind"]])
        try:
            understood = model.from_dict(manifest).to_dict()
        except ValueError as error:
            return str(error)
        return "" if understood == manifest else f"not all is known of {manifest}, only {understood}"
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return ""


class Manifests(unittest.TestCase):
    def setUp(self):
        self.found = list(manifests())

    def test_each_is_valid(self):
        self.assertEqual(sorted(each["kind"] for each in self.found), ["Job", "Service", "TrainJob", "TrainingRuntime"])
        for manifest in self.found:
            self.assertEqual(breach(manifest), "", manifest["kind"])

    def test_a_wrong_one_is_found(self):
        for manifest in self.found:
            manifest["spec"]["templat"] = {}
            self.assertNotEqual(breach(manifest), "", manifest["kind"])
        for manifest in manifests():
            manifest["spec"] = "none"
            self.assertNotEqual(breach(manifest), "", manifest["kind"])


if __name__ == "__main__":
    unittest.main()
