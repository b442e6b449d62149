"""slurmrestd of a test cluster: on loopback for callers with a token, on a socket for its user."""
import os
import secrets
import socket


class Rest:
    """Part of Cluster, which has folder, user, options and daemons."""

    def make_rest_key(self):
        key = os.path.join(self.folder, "jwt.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(secrets.token_bytes(32))
        self.options["more"] += f"\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}"
        self.rest_url = f"http://127.0.0.1:{self.controller_port + 11}"
        self.rest_socket = os.path.join(self.scratch, "rest.sock")
        self.token_file = os.path.join(self.scratch, "token")

    def start_rest(self):
        """It runs as an ordinary user, as slurmrestd wants it, and knows its callers by their tokens."""
        self.write_token()
        become = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"]
        self.start_daemon("slurmrestd", [*become, "slurmrestd", "-f", self.conf, "-s", "openapi/v0.0.38", "-a", "rest_auth/jwt",
                                         self.rest_url.removeprefix("http://")], SLURM_JWT="daemon")
        self.wait(lambda: self.listens(self.controller_port + 11), 20, "slurmrestd")

    def start_rest_socket(self):
        """On a Unix socket, as the cluster's user, for all who may open it."""
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        self.start_daemon("slurmrestd-socket", [*become, "slurmrestd", "-f", self.conf, "-s", "openapi/v0.0.38", "-a", "rest_auth/local",
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
