"""A second cluster beside one with accounting: both report to its slurmdbd and trust its munge key, and share its user and folder.

    with Cluster(accounting=True) as first:
        second = Sibling(first, nodes=4)
        second.start()
        federate(first, second)   # else each stands alone, and is reached by `-M`
"""
import os
import secrets

from slurm.cluster import Cluster


class Sibling(Cluster):
    """Ends with the elder one, whose janitor sweeps its folder too."""

    def __init__(self, elder, **options):
        super().__init__(**options)
        os.rmdir(self.folder)
        self.elder = elder
        self.folder = os.path.join(elder.folder, "sibling" + secrets.token_hex(2))
        os.mkdir(self.folder, 0o755)
        self.conf = os.path.join(self.folder, "slurm.conf")
        self.user, self.uid, self.gid = elder.user, elder.uid, elder.gid
        self.home, self.scratch = elder.home, elder.scratch
        self.accounting = True
        self.munge_socket = elder.munge_socket

    def start(self):
        self.write_files()
        with open(self.conf, encoding="utf-8") as f:
            text = f.read()
        text = text.replace(f"{self.folder}/munge/socket", self.munge_socket)
        text = text.replace(f"AccountingStoragePort={self.port(1)}", f"AccountingStoragePort={self.elder.port(1)}")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(text)
        self.run("sacctmgr", "-i", "add", "cluster", self.name, root=True)
        self.run("sacctmgr", "-i", "add", "account", "physics", f"cluster={self.name}", root=True, ok=False)
        self.run("sacctmgr", "-i", "add", "user", self.user, "Account=physics", f"cluster={self.name}", root=True)
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.wait(lambda: self.idle_nodes() == len(self.nodes), 60, "all nodes of the second cluster idle")
        return self

    def close(self):
        for name in list(self.daemons):
            self.stop(name)


def federate(*clusters):
    """One federation of them; which cluster a job gets is decided by its siblings' controllers."""
    first = clusters[0]
    first.run("sacctmgr", "-i", "add", "federation", "alliance", "clusters=" + ",".join(c.name for c in clusters), root=True)
    for cluster in clusters:
        cluster.wait(lambda: "ACTIVE" in cluster.run("scontrol", "show", "federation").stdout, 60, "the federation")
