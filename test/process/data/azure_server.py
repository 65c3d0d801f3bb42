"""A server of Azure's Blob storage for a test, as Microsoft's REST documentation describes it: PyPI and Debian have no
other one. Requests need a signature of the account's key (Shared Key) or of an account SAS. With `hierarchical`,
folders are real, and the DFS endpoint lists them (Data Lake Storage). azure-storage-blob, Microsoft's own client, puts
the files there: so what this server says is what a client of others understands."""
import base64
import datetime
import email.utils
import hashlib
import hmac
import http.server
import json
import pathlib
import secrets
import ssl
import subprocess
import threading
import urllib.parse
import xml.sax.saxutils

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE_S = 60
SIGNED_HEADERS = ("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date",
                  "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range")
SIGNED_SAS = ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses")
# Asked with a JSON object on standard input, which may have a key in it.
CLIENT = """
import datetime, json, pathlib, sys
from azure.storage.blob import ContainerClient, generate_account_sas
asked = json.load(sys.stdin)
if "sas" in asked:
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=asked["hours"])
    print(generate_account_sas(asked["account"], asked["key"], resource_types="sco", permission="rl", expiry=until))
    sys.exit()
client = ContainerClient(asked["url"], asked["container"], credential=asked["key"])
if not client.exists():
    client.create_container()
for name, path in asked["files"].items():
    with open(path, "rb") as file:
        client.upload_blob(name, file, overwrite=True, max_concurrency=1)
names = [each.name for each in client.list_blobs()]
assert set(asked["files"]) <= set(names) and names == sorted(names), names
for name, path in asked["files"].items():
    assert client.download_blob(name).readall() == pathlib.Path(path).read_bytes(), name
"""


class Failed(Exception):
    """What the server answers: a status, and Azure's code and words for it."""

    def __init__(self, status, code, words):
        super().__init__(status, code, words)


class Blob:
    def __init__(self, data):
        self.data, self.tag = data, f'"0x8D{secrets.token_hex(6).upper()}"'
        self.changed = email.utils.formatdate(usegmt=True)

    def headers(self):
        return {"ETag": self.tag, "Last-Modified": self.changed, "x-ms-creation-time": self.changed,
                "Content-Type": "application/octet-stream", "x-ms-blob-type": "BlockBlob", "Accept-Ranges": "bytes",
                "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked", "x-ms-server-encrypted": "true"}


def hmac_of(key, text):
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer goes out at once, and not in pieces that wait for each other
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self):
        self.store = self.server.store
        self.path_only, _, query = self.path.partition("?")
        self.query = {name.lower(): value for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)}
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.asked.append(f"{self.command} {self.path}")
        try:
            if not self.is_signed():
                raise Failed(403, "AuthenticationFailed", "Server failed to authenticate the request. Make sure the "
                             "value of Authorization header is formed correctly including the signature.")
            _, account, container, *name = urllib.parse.unquote(self.path_only).split("/", 3)
            if account != self.store.account:
                raise Failed(400, "InvalidUri", "The requested URI does not represent any resource on the server.")
            self.act(container, name[0] if name else "")
        except Failed as failed:
            status, code, words = failed.args
            text = (f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{words}\nRequestId:'
                    f'4b1c\nTime:{datetime.datetime.now().isoformat()}Z</Message></Error>')
            kind = {} if self.command == "HEAD" else {"Content-Type": "application/xml"}  # of what is not sent
            self.say(status, {"x-ms-error-code": code, **kind}, text.encode())

    do_GET = do_HEAD = do_PUT = answer

    # ---- who asks

    def is_signed(self):
        if "sig" in self.query:
            return self.is_signed_by_sas()
        kind, _, credential = self.headers.get("Authorization", "").partition(" ")
        if kind == "SharedKey":
            return hmac.compare_digest(credential, f"{self.store.account}:{hmac_of(self.store.key, self.to_sign())}")
        return self.store.is_public and not kind

    def to_sign(self):
        """https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key"""
        standard = [self.headers.get(name, "") for name in SIGNED_HEADERS]
        if standard[2] == "0":
            standard[2] = ""
        own = sorted((name.lower(), value.strip()) for name, value in self.headers.items()
                     if name.lower().startswith("x-ms-"))
        resource = f"/{self.store.account}{self.path_only}"
        return "\n".join([self.command, *standard, *(f"{name}:{value}" for name, value in own), resource,
                          *(f"{name}:{value}" for name, value in sorted(self.query.items()))])

    def is_signed_by_sas(self):
        """https://learn.microsoft.com/rest/api/storageservices/create-account-sas"""
        text = "".join(f"{each}\n" for each in (self.store.account, *(self.query.get(name, "") for name in SIGNED_SAS)))
        until = datetime.datetime.fromisoformat(self.query["se"].replace("Z", "+00:00"))
        return (hmac.compare_digest(self.query["sig"], hmac_of(self.store.key, text))
                and datetime.datetime.now(datetime.timezone.utc) < until and self.command != "PUT")

    # ---- what is asked

    def act(self, container, name):
        blobs = self.store.containers.get(container)
        if blobs is None and not (self.command == "PUT" and self.query.get("restype") == "container"):
            raise Failed(404, "ContainerNotFound", "The specified container does not exist.")
        if self.query.get("action") == "getAccessControl":
            if not self.store.is_hierarchical:
                raise Failed(400, "HierarchicalNamespaceNotEnabled",
                             "This operation is only supported on a hierarchical namespace account.")
            return self.say(200, {"x-ms-owner": "$superuser", "x-ms-group": "$superuser", "x-ms-permissions":
                                  "rwxr-x---", "x-ms-acl": "user::rwx,group::r-x,other::---"})
        if self.query.get("resource") == "filesystem" and self.store.is_hierarchical:
            return self.list_paths(blobs)
        if self.query.get("restype") == "container":
            if self.command == "PUT":
                self.store.containers.setdefault(container, {})
                return self.say(201, {"ETag": '"0x1"'})
            return self.list_blobs(container, blobs) if self.query.get("comp") == "list" else self.say(
                200, {"ETag": '"0x1"', "Last-Modified": self.store.begun, "x-ms-lease-state": "available",
                      "x-ms-lease-status": "unlocked", "x-ms-has-immutability-policy": "false",
                      "x-ms-has-legal-hold": "false", "x-ms-default-encryption-scope": "$account-encryption-key",
                      "x-ms-deny-encryption-scope-override": "false"})
        if self.command == "PUT":
            blobs[name] = blob = Blob(self.body)
            return self.say(201, {"ETag": blob.tag, "Last-Modified": blob.changed,
                                  "x-ms-request-server-encrypted": "true"})
        return self.read(blobs, name)

    def read(self, blobs, name):
        blob = blobs.get(name)
        if blob is None and self.store.is_hierarchical and any(each.startswith(f"{name}/") for each in blobs):
            return self.say(200, {**Blob(b"").headers(), "x-ms-meta-hdi_isfolder": "true",
                                  "x-ms-resource-type": "directory"})
        if self.store.no_blobs:
            raise Failed(403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this "
                         "operation using this permission.")
        if blob is None:
            raise Failed(404, "BlobNotFound", "The specified blob does not exist.")
        if self.headers.get("If-Match", blob.tag) not in (blob.tag, "*"):
            raise Failed(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        if self.command == "HEAD" or not wanted:
            return self.say(200, blob.headers(), blob.data)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(blob.data) - 1), len(blob.data) - 1)
        if first > last:
            raise Failed(416, "InvalidRange", "The range specified is invalid for the current size of the resource.")
        return self.say(206, {**blob.headers(), "Content-Range": f"bytes {first}-{last}/{len(blob.data)}"},
                        blob.data[first:last + 1])

    def page(self, entries, asked, marker):
        """(those of this page, the marker of the next one)."""
        most = min(int(asked or 5000), self.store.page)
        begin = int(base64.b64decode(marker)) if marker else 0
        rest = begin + most < len(entries)
        return entries[begin:begin + most], base64.b64encode(str(begin + most).encode()).decode() if rest else ""

    def list_blobs(self, container, blobs):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        entries = {}
        for name in sorted(blobs):
            rest = name.removeprefix(prefix)
            if name.startswith(prefix):
                cut = rest.find(delimiter) if delimiter else -1
                entries.setdefault(name if cut < 0 else prefix + rest[:cut + 1], None if cut >= 0 else blobs[name])
        shown, following = self.page(list(entries.items()), self.query.get("maxresults"), self.query.get("marker"))
        text = xml.sax.saxutils.escape
        if self.store.is_garbled:
            return self.say(200, {"Content-Type": "application/xml"}, b"<html><p>Sign in first")
        said = "".join(
            f"<BlobPrefix><Name>{text(name)}</Name></BlobPrefix>" if blob is None else
            f"<Blob><Name>{text(name)}</Name><Properties><Creation-Time>{blob.changed}</Creation-Time><Last-Modified>"
            f"{blob.changed}</Last-Modified><Etag>{text(blob.tag[1:-1])}</Etag><Content-Length>{len(blob.data)}"
            "</Content-Length><Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            "<AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred><LeaseStatus>unlocked"
            "</LeaseStatus><LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted></Properties>"
            "<OrMetadata /></Blob>"
            for name, blob in shown)
        self.say(200, {"Content-Type": "application/xml"}, (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="{self.store.url}/" '
            f'ContainerName="{container}"><Prefix>{text(prefix)}</Prefix><Delimiter>{delimiter}</Delimiter>'
            f"<Blobs>{said}</Blobs><NextMarker>{following}</NextMarker></EnumerationResults>").encode())

    def list_paths(self, blobs):
        """https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/list"""
        folder = self.query.get("directory", "").strip("/")
        prefix = f"{folder}/" if folder else ""
        entries = {}
        for name in sorted(name for name in blobs if name.startswith(prefix)):
            parts = name.removeprefix(prefix).split("/")
            for depth in range(1, len(parts) if self.query.get("recursive") == "true" else min(len(parts), 2)):
                entries.setdefault(prefix + "/".join(parts[:depth]), None)
            if len(parts) == 1 or self.query.get("recursive") == "true":
                entries[name] = blobs[name]
        if folder and not entries:
            raise Failed(404, "PathNotFound", "The specified path does not exist.")
        shown, following = self.page(sorted(entries.items(), key=lambda each: each[0]), self.query.get("maxresults"),
                                     self.query.get("continuation"))
        paths = [{"name": name, "contentLength": str(len(blob.data)) if blob else "0", "etag":
                  blob.tag[1:-1] if blob else "0x1", "lastModified": blob.changed if blob else self.store.begun,
                  "owner": "$superuser", "group": "$superuser", "permissions": "rw-r-----",
                  **({} if blob else {"isDirectory": "true"})} for name, blob in shown]
        self.say(200, {"Content-Type": "application/json", **({"x-ms-continuation": following} if following else {})},
                 json.dumps({"paths": paths}).encode())

    def say(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in {"x-ms-version": self.headers.get("x-ms-version", "2021-12-02"), "x-ms-request-id": "4b1c",
                            **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that went away


class AzureServer:
    """One for a test class: .url, .env, .uri(key), .put(), .put_folder(), .requests(). `page`: entries of a list's
    page. `tls`: its Certificate."""

    def __init__(self, container, page=5000, hierarchical=False, tls=None):
        self.account, self.container, self.page = "ourstore", container, page
        # One of this server alone: tests look for it in all processes.
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.is_hierarchical, self.is_public = hierarchical, False
        self.no_blobs = False  # they may be listed and not read
        self.is_garbled = False  # as what a proxy says in the store's place
        self.begun = email.utils.formatdate(usegmt=True)
        self.containers, self.asked = {container: {}}, []
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.store = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True,
                                                       do_handshake_on_connect=False)
        self.port = self.listener.server_port
        self.host = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.url = f"{self.host}/{self.account}"
        self.env = {"AZURE_STORAGE_SERVICE_ENDPOINT": self.url, "AZURE_STORAGE_KEY": self.key}
        self.thread = threading.Thread(target=self.listener.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()
        self.thread.join()

    def uri(self, key, container=None):
        return f"abfs://{container or self.container}@{self.account}.dfs.core.windows.net/{key}"

    def put(self, key, data):
        self.containers[self.container][key] = Blob(data)

    def put_folder(self, folder, key):
        """By Microsoft's client, which lists and reads them, too."""
        files = {f"{key}/{path.name}": str(path) for path in sorted(pathlib.Path(folder).iterdir()) if path.is_file()}
        self.by_client(url=self.url, container=self.container, files=files)

    def sas(self, hours):
        """A token that lets read and list for so long."""
        return self.by_client(sas=True, account=self.account, hours=hours).strip()

    def by_client(self, **asked):
        done = subprocess.run([ROOT / ".venv-test/bin/python", "-B", "-c", CLIENT], text=True, timeout=DEADLINE_S,
                              input=json.dumps({"key": self.key, **asked}), capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def requests(self):
        """What came since the last call."""
        asked, self.asked = self.asked, []
        return asked
