"""Many hosts on one machine, for tests and for trying things out; docs/netlab.md is the manual.

    import netlab

    with netlab.Lab(hosts=3) as lab:
        server = lab.host(0).popen(["dtrain", "run", ...])
        lab.cut("host2")
"""
from netlab.lab import Host, Lab
from netlab.namespaces import LabError, Unavailable, become_able
from netlab.proxy import Proxy

__all__ = ["Host", "Lab", "LabError", "Proxy", "Unavailable", "become_able"]
