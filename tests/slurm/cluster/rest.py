"""slurmrestd of a test cluster: on loopback for callers with a token, on a socket for its user."""
import os
import re
import secrets
import socket
import subprocess


class Rest:
    """Part of Cluster, which has folder, user, options and daemons."""
    rest_api = ""  # "v0.0.40": the only one that is offered; "": all that this release has

    def make_rest_key(self):
        key = os.path.join(self.folder, "jwt.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(secrets.token_bytes(32))
        self.options["more"] += f"\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}"
        self.rest_url = f"http://127.0.0.1:{self.port(3)}"
        self.rest_socket = os.path.join(self.scratch, "rest.sock")
        self.token_file = os.path.join(self.scratch, "token")

    def rest_apis(self):
        """The versions of its API that this release has, the oldest first."""
        if self.version() < (23, 2):
            return ["v0.0.38"]
        listed = subprocess.run(["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "slurmrestd", "-f", self.conf, "-d", "list"],
                                env=self.root_environment(), text=True, capture_output=True)
        return sorted(set(re.findall(r"v0\.0\.\d+", listed.stdout + listed.stderr)))

    def rest_plugins(self):
        """Which API is offered: a plugin up to 22.05, one with parsers after that."""
        if self.version() < (23, 2):
            return ["-s", "openapi/v0.0.38"]
        return ["-s", "slurmctld", "-d", self.rest_api or ",".join(self.rest_apis())]

    def start_rest(self):
        """It runs as an ordinary user, as slurmrestd wants it, and knows its callers by their tokens."""
        self.write_token()
        become = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"]
        self.start_daemon("slurmrestd", [*become, "slurmrestd", "-f", self.conf, *self.rest_plugins(), "-a", "rest_auth/jwt",
                                         self.rest_url.removeprefix("http://")], SLURM_JWT="daemon")
        self.wait(lambda: self.listens(self.port(3)), 20, "slurmrestd")

    def offer_rest(self, api):
        """Another server in the place of the first, with this version alone."""
        self.stop("slurmrestd")
        self.rest_api = api
        self.start_rest()

    def start_rest_socket(self):
        """On a Unix socket, as the cluster's user, for all who may open it."""
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        self.start_daemon("slurmrestd-socket", [*become, "slurmrestd", "-f", self.conf, *self.rest_plugins(), "-a", "rest_auth/local",
                                                "unix:" + self.rest_socket])
        self.wait(lambda: os.path.exists(self.rest_socket), 20, "slurmrestd's socket")

    def listens(self, port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def write_token(self, lifespan=3600):
        """A new token of the cluster's user, in the file that it can read alone."""
        token = self.run("scontrol", "token", f"lifespan={lifespan}").stdout.strip().removeprefix("SLURM_JWT=")
        with open(os.open(self.token_file + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(token + "\n")
        os.chown(self.token_file + ".new", self.uid, self.gid)
        os.rename(self.token_file + ".new", self.token_file)
