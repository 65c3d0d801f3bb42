#!/usr/bin/env python3
"""Which nodes of a cluster a job gets, by what the cluster has and what is asked for: scripts/engines/ray_nodes.py, and
how scripts/engines/spark.py divides workers."""
import pathlib
import unittest

ENGINES = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "engines"
SHIM = {}
for part in "shim.py", "ray_nodes.py":
    exec(compile((ENGINES / part).read_text(), part, "exec"), SHIM)

SPARK = {}
for part in "shim.py", "spark_tasks.py", "spark.py":
    exec(compile((ENGINES / part).read_text().replace('\nserve("Spark", start)\n', ""), part, "exec"), SPARK)

NODE = {"CPU": 4}
GPUS = {"CPU": 4, "GPU": 2}


def layout(totals, free=None, silent=(), resources=None, **asked):
    """("workers of node 0, of node 1, ... that are taken", what a worker takes), or why there is no job."""
    nodes = [{"NodeID": str(i), "NodeManagerAddress": f"node{i}", "Alive": True, "Resources": total}
             for i, total in enumerate(totals)]
    request = {"least": 1, "most": 65536 if "all" in asked else 1, "workers": "", "all": "",
               "resources": resources or {}, **asked}
    left = {str(i): {**total, **(free or {}).get(i, {})} for i, total in enumerate(totals)}

    def answers(node):
        return node["NodeManagerAddress"] not in silent

    try:
        chosen, takes = SHIM["choose_nodes"](nodes, left, request, answers)
    except SHIM["Refused"] as error:
        return f"{error.kind}: {error}"
    return {node["NodeManagerAddress"][4:]: workers for node, workers in chosen}, takes


class Sizing(unittest.TestCase):
    maxDiff = None

    def check(self, *rows):
        for expected, arguments in rows:
            with self.subTest(arguments=arguments):
                totals = arguments.pop("totals")
                self.assertEqual(layout(totals, **arguments), expected)

    def test_ludwigs_rules_where_nothing_is_said(self):
        one_gpu = {"CPU": 4, "GPU": 1}
        self.check(
            # GPUs count more than nodes; without any, each node has a worker.
            (({"0": 1}, {"CPU": 1, "GPU": 1}), {"totals": [one_gpu, NODE], "all": "auto"}),
            (({"0": 1, "1": 1}, {"CPU": 1}), {"totals": [NODE, NODE], "all": "auto"}),
            (({"0": 2, "1": 2}, {"CPU": 1, "GPU": 1}), {"totals": [GPUS, GPUS], "all": "auto"}),
            # use_gpu: false and true; the latter is refused without GPUs.
            (({"0": 1, "1": 1}, {"CPU": 1}), {"totals": [GPUS, GPUS], "all": "auto", "resources": {"CPU": 1}}),
            ("unavailable: the cluster has room on 0 of 1 nodes for workers that take CPU 1, GPU 1 each, and 1 nodes "
             "are asked for: node0 has CPU 4, GPU 0 free",
             {"totals": [NODE], "all": "auto", "resources": {"CPU": 1, "GPU": 1}}),
            # What is given counts.
            (({"0": 1, "1": 1}, {"CPU": 2, "GPU": 2}),
             {"totals": [GPUS, GPUS], "all": "auto", "resources": {"CPU": 2, "GPU": 2}}),
            # A head without CPUs is no node for workers.
            (({"1": 1}, {"CPU": 1}), {"totals": [{"CPU": 0}, NODE], "all": "auto"}),
        )

    def test_all_of_a_cluster_that_others_use_is_refused(self):
        self.check(
            ("unavailable: the cluster has room on 1 of 2 nodes for workers that take CPU 1, GPU 1 each, and 2 nodes "
             "are asked for: node0 has CPU 4, GPU 1 free; node1 has CPU 4, GPU 2 free",
             {"totals": [GPUS, GPUS], "free": {0: {"GPU": 1}}, "all": "auto"}))

    def test_workers_of_the_job_take_as_few_nodes_as_they_need(self):
        self.check(
            (({"0": 3}, {"CPU": 1}), {"totals": [NODE, NODE], "all": "3"}),
            (({"0": 4, "1": 2}, {"CPU": 1}), {"totals": [NODE, NODE], "all": "6"}),
            (({"1": 4, "0": 1}, {"CPU": 1}), {"totals": [NODE, NODE], "free": {0: {"CPU": 3}}, "all": "5"}),
            (({"1": 2, "2": 1}, {"CPU": 1, "GPU": 1}), {"totals": [NODE, GPUS, GPUS], "all": "3"}),
            (({"0": 2, "1": 1}, {"CPU": 1.5}), {"totals": [NODE, NODE], "all": "3", "resources": {"CPU": 1.5}}),
            (({"1": 4}, {"CPU": 1}), {"totals": [NODE, NODE], "silent": ["node0"], "all": "4"}),
            ("unavailable: the cluster has room for 4 workers that take CPU 1, GPU 1 each, and 5 are asked for: "
             "node0 has CPU 4, GPU 2 free; node1 has CPU 4, GPU 2 free", {"totals": [GPUS, GPUS], "all": "5"}),
            ("unavailable: the cluster has room for 0 workers that take GPU 1 each, and 2 are asked for: "
             "node0 has GPU 0 free", {"totals": [NODE], "all": "2", "resources": {"GPU": 1}}),
        )

    def test_a_number_of_nodes_and_workers_of_each(self):
        self.check(
            (({"0": 2, "1": 2}, {"CPU": 1}), {"totals": [NODE, NODE], "least": 2, "most": 2, "workers": "2"}),
            (({"0": 2}, {"CPU": 1, "GPU": 1}), {"totals": [GPUS, GPUS]}),
            (({"0": 4}, {"CPU": 1}), {"totals": [GPUS], "workers": "cpu"}),
            (("usage: --nproc gpu counts GPUs, and a worker takes none of them"), {"totals": [NODE], "workers": "gpu"}),
            ("unavailable: the cluster has room on 0 of 1 nodes for 5 workers that take CPU 1 each, and 1 nodes are "
             "asked for: node0 has CPU 4 free", {"totals": [NODE], "workers": "5"}),
        )

    def test_tasks_of_spark_are_as_few_as_have_room(self):
        for workers, slots, expected in [(1, [2], [1]), (3, [2, 2], [2, 1]), (6, [4, 4], [3, 3]), (8, [4, 4], [4, 4]),
                                         (7, [4, 4, 4], [4, 3]), (5, [4, 2], [2, 2, 1]), (3, [1, 1, 1], [1, 1, 1])]:
            with self.subTest(workers=workers, slots=slots):
                found = SPARK["divide"](workers, lambda of_task: sum(each // of_task for each in slots))
                self.assertEqual(found, expected)

    def test_gpus_of_which_spark_knows_nothing_are_those_of_one_task(self):
        class Conf(dict):
            contains = dict.__contains__

        for resources, conf, expected in [({"GPU": 1}, {}, ("4", "", 1)), ({"CPU": 2}, {}, ("", "4", 4)),
                                          ({"GPU": 1}, {"spark.executor.resource.gpu.amount": "2"}, ("", "4", 4))]:
            request = {"all": "4", "workers": "", "most": 4, "resources": resources}
            SPARK["take_one_node"](Conf(conf), request)
            self.assertEqual((request["workers"], request["all"], request["most"]), expected)


if __name__ == "__main__":
    unittest.main()
