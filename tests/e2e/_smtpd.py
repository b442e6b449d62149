"""An SMTP server for tests, on aiosmtpd: STARTTLS and a password are required. Runs as a program of its own:
_smtpd.py FOLDER. FOLDER/mood says what it answers (ok, busy, spam, one_bad); each session's events are lines of
FOLDER/mails.jsonl; the port is written to FOLDER/port."""
import email
import email.policy
import json
import os
import signal
import socket
import ssl
import sys

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

FOLDER = sys.argv[1]


def tell(**event):
    with open(os.path.join(FOLDER, "mails.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps(event) + "\n")


def mood():
    with open(os.path.join(FOLDER, "mood"), encoding="utf-8") as f:
        return f.read().strip()


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if mood() == "one_bad" and address.startswith("gone@"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        tell(event="data", mood=mood())
        if mood() == "busy":
            return "451 4.3.0 try again later"
        if mood() == "spam":
            return "550 5.7.1 refused as spam"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        bodies = {part.get_content_type(): part.get_content() for part in message.walk() if not part.is_multipart()}
        tell(event="mail", sender=envelope.mail_from, to=envelope.rcpt_tos, tls=session.ssl is not None,
             user=(session.auth_data or b"").decode(), headers={k.lower(): str(v) for k, v in message.items()},
             defects=[str(d) for d in message.defects], bodies=bodies)
        return "250 queued"


def authenticate(server, session, envelope, mechanism, data):
    good = data.login == b"stoker" and data.password == b"correct horse"
    return AuthResult(success=good, auth_data=data.login)


def greet():
    with socket.create_connection(controller.server.sockets[0].getsockname(), timeout=30) as connection:
        connection.recv(100)


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(os.path.join(FOLDER, "cert.pem"), os.path.join(FOLDER, "key.pem"))
controller = Controller(Handler(), hostname="127.0.0.1", port=0, tls_context=context, require_starttls=True,
                        authenticator=authenticate, auth_required=True, auth_require_tls=True, ready_timeout=60)
controller._trigger_server = greet  # its own would connect to port 0
controller.start()
with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as f:
    f.write(str(controller.server.sockets[0].getsockname()[1]))
os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
signal.sigwait({signal.SIGTERM, signal.SIGINT})
controller.stop()
