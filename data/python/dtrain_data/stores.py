"""Files in object stores, by pyarrow, with the variables that dtrain's own readers take (docs/training/stores.md)."""
import base64
import configparser
import contextlib
import datetime
import errno
import fnmatch
import functools
import json
import os
import re
import urllib.parse

import pyarrow
from pyarrow import fs

SCHEMES = ("s3", "gs", "abfs", "abfss")
ATTEMPTS = 4  # of dtrain's own readers
# Of these, each says that somebody has told this machine who it is.
S3_ROLES = ("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")
AZURE_ROLES = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
               "AZURE_CONFIG_DIR")
AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"  # what the firmware of all machines of Azure's says
SECRETS = (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
           ("GOOGLE_APPLICATION_CREDENTIALS",), ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"))
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
               "/etc/ssl/cert.pem")


def is_uri(path):
    return "://" in path and path.partition("://")[0] in SCHEMES


@functools.lru_cache(maxsize=None)
def own_values():
    """Of the job's own credentials, which count before the environment."""
    path = os.environ.get("DTRAIN_STORE_CREDENTIALS")
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        facts = os.fstat(file.fileno())
        if facts.st_uid not in (os.geteuid(), 0) or facts.st_mode & 0o077:
            raise PermissionError(errno.EACCES, "others can read or change these credentials: chmod 600", path)
        return json.load(file)


def first_of(*names):
    """The first that has a value: in the job's own credentials, or in the environment. Of a store that has secrets
    there, those of the environment do not count."""
    own = own_values()
    alone = [secrets for secrets in SECRETS if any(name in own for name in secrets)]
    here = {name: os.environ.get(name) for name in names if not any(name in secrets for secrets in alone)}
    return next((value for values in (own, here) for name in names if (value := values.get(name))), None)


def timeout():
    """Seconds that a store may say nothing."""
    text = first_of("DTRAIN_STORE_TIMEOUT_S") or "10"
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= 3600):
        raise ValueError("DTRAIN_STORE_TIMEOUT_S: it must be a whole number of seconds from 1 to 3600")
    return int(text)


def authorities():
    return first_of("AWS_CA_BUNDLE", "SSL_CERT_FILE") or next(filter(os.path.exists, AUTHORITIES), None)


def trust_authorities():
    """pyarrow's clients of Google and Azure take a file of certificates from OpenSSL's variable alone."""
    named = first_of("AWS_CA_BUNDLE")
    if named:
        os.environ["SSL_CERT_FILE"] = named


def region_of_profile():
    """What ~/.aws says; None: nothing."""
    config = configparser.ConfigParser(interpolation=None, strict=False)
    name = os.environ.get("AWS_PROFILE") or "default"
    for variable, file in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")):
        with contextlib.suppress(configparser.Error, UnicodeDecodeError, OSError):
            config.read(os.environ.get(variable) or os.path.expanduser(f"~/.aws/{file}"), encoding="utf-8")
    return next((value for section in (name, f"profile {name}")
                 if (value := config.get(section, "region", fallback=None))), None)


def endpoint_of(url):
    scheme, _, host = url.partition("://")
    return {"scheme": scheme, "endpoint_override": host.rstrip("/")}


def s3_credentials():
    if first_of("AWS_ACCESS_KEY_ID"):
        return {"access_key": first_of("AWS_ACCESS_KEY_ID"), "secret_key": first_of("AWS_SECRET_ACCESS_KEY"),
                "session_token": first_of("AWS_SESSION_TOKEN")}
    home = os.path.expanduser("~/.aws")
    # Otherwise Amazon's library asks a server for them that only Amazon's machines have.
    known = first_of(*S3_ROLES) or any(os.path.exists(f"{home}/{name}") for name in ("credentials", "config"))
    return {} if known or is_machine_of("Amazon") else {"anonymous": True}


def is_machine_of(maker):
    for fact in "sys_vendor", "product_name", "chassis_asset_tag":
        try:
            with open(f"/sys/class/dmi/id/{fact}", encoding="utf-8") as file:
                if maker in file.read():
                    return True
        except OSError:
            continue
    return False


def s3(bucket):
    options = {**s3_credentials(), "connect_timeout": timeout(), "request_timeout": timeout(),
               "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)}
    if authorities():
        options["tls_ca_file_path"] = authorities()
    options["region"] = first_of("AWS_REGION", "AWS_DEFAULT_REGION") or region_of_profile()
    endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if endpoint:
        options.update(endpoint_of(endpoint), region=options["region"] or "us-east-1")
    return fs.S3FileSystem(**{**options, "region": options["region"] or fs.resolve_s3_region(bucket)})


def gs():
    retries = {"retry_time_limit": datetime.timedelta(seconds=ATTEMPTS * timeout())}
    key = own_values().get("GOOGLE_APPLICATION_CREDENTIALS")
    if key:
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = key  # Google's library takes it from there alone
    emulator = first_of("STORAGE_EMULATOR_HOST")
    if emulator:
        return fs.GcsFileSystem(anonymous=not first_of("GOOGLE_APPLICATION_CREDENTIALS"), **endpoint_of(emulator),
                                **retries)
    known = first_of("GOOGLE_APPLICATION_CREDENTIALS") or is_machine_of("Google") or os.path.exists(
        os.path.expanduser("~/.config/gcloud/application_default_credentials.json"))
    return fs.GcsFileSystem(anonymous=not known, **retries)


def azure(place):
    account = place.partition("@")[2].partition(".")[0]
    options = {}
    url = first_of("AZURE_STORAGE_SERVICE_ENDPOINT")
    if url:
        scheme, _, host = url.rstrip("/").removesuffix(f"/{account}").partition("://")
        options = dict.fromkeys(("blob_storage_scheme", "dfs_storage_scheme"), scheme)
        options.update(dict.fromkeys(("blob_storage_authority", "dfs_storage_authority"), host))
    key, token = first_of("AZURE_STORAGE_KEY"), first_of("AZURE_STORAGE_SAS_TOKEN")
    try:
        base64.b64decode(key or "", validate=True)
    except ValueError:
        raise ValueError("AZURE_STORAGE_KEY: it is no Base64; take the account's key as Azure shows it") from None
    if token and not token.startswith("?"):
        token = f"?{token}"  # Arrow puts it behind the account's URL as it is
    known = key or token or first_of(*AZURE_ROLES) or is_machine_of(AZURE_TAG) or os.path.exists(
        os.path.expanduser("~/.azure"))
    if known:
        return fs.AzureFileSystem(account, account_key=key, sas_token=None if key else token, **options)
    # Only a URI says this. It has one word for both schemes.
    words = {"credential_kind": "anonymous", **{name: options[name] for name in options if "authority" in name},
             **({"enable_tls": "false"} if options.get("blob_storage_scheme") == "http" else {})}
    return fs.FileSystem.from_uri(f"abfs://{place}/?{urllib.parse.urlencode(words)}")[0]


@functools.lru_cache(maxsize=None)
def store(scheme, place):
    """`place`: what stands between :// and the first slash."""
    if scheme == "s3":
        return s3(place)
    trust_authorities()
    return gs() if scheme == "gs" else azure(place)


def found_in(uri):
    """(a file system, the path in it) of an object's URI."""
    scheme, _, rest = uri.partition("://")
    place, _, key = rest.partition("/")
    return store(scheme, place), f"{place.partition('@')[0]}/{key}"


def error_text(error):
    """What a store has said, in one line. What was asked is left out: the URL of a request may have a token in it."""
    text = str(error)
    _, asked, said = text.partition("Azure Error: ")
    return re.sub(r"\bsig=[^&'\s]+", "sig=...", (said if asked else text).partition("\n")[0])


@contextlib.contextmanager
def told_of(path):
    """Errors of an object in this block are OSErrors with that text."""
    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        if not is_uri(path):
            raise
        raise OSError(getattr(error, "strerror", None) or error_text(error)) from None


def matches(path, pattern):
    """As in a shell: no '*' matches a '/', or the dot at the begin of a name."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(part, one) and (part[:1] != "." or one[:1] == ".") for part, one in zip(parts, wanted))


def parquet_files(uri):
    """The URIs of an object, of the Parquet files right in a folder, or of all that a pattern matches; sorted, without
    names that begin with '.' or '_'. An object that is not there is one: whoever opens it says so."""
    files, wanted = found_in(uri.rstrip("/"))
    kind = files.get_file_info(wanted).type
    wild = min((wanted.index(sign) for sign in "*?[" if sign in wanted), default=None)
    if kind == fs.FileType.NotFound and wild is None and uri.startswith("abfs"):
        # pyarrow does not find "day" where "day-old" or "day.txt" comes before "day/".
        found = files.get_file_info(fs.FileSelector(wanted, allow_not_found=True))
        kind = fs.FileType.Directory if found else kind
    if kind == fs.FileType.Directory:
        found = [each for each in files.get_file_info(fs.FileSelector(wanted)) if each.path.endswith(".parquet")]
    elif kind == fs.FileType.NotFound and wild is not None:
        folder = wanted[:wanted.rindex("/", 0, wild)]
        listed = files.get_file_info(fs.FileSelector(folder, allow_not_found=True,
                                                     recursive="/" in wanted[len(folder) + 1:]))
        found = [each for each in listed if matches(each.path, wanted)]
    else:
        return [uri]
    scheme, _, rest = uri.partition("://")
    place = rest.partition("/")[0]
    return sorted(f"{scheme}://{place}{each.path[len(place.partition('@')[0]):]}" for each in found
                  if each.is_file and each.base_name[0] not in "._")


def facts_of(uri):
    """(bytes, time of change in ns) of an object. OSError: it is not there, or the store does not answer."""
    files, path = found_in(uri)
    facts = files.get_file_info(path)
    if not facts.is_file:
        raise FileNotFoundError(errno.ENOENT, "there is no such object, and no folder with objects in it", uri)
    return facts.size, facts.mtime_ns


def together(paths):
    """(what a library reads instead of these paths, and the options that it needs for that). ValueError: they lie in
    several places, and a library reads from one."""
    if not any(map(is_uri, paths)):
        return paths, {}
    places = {"/".join(path.split("/", 3)[:3]) if is_uri(path) else "" for path in paths}
    if len(places) > 1:
        named = ", ".join(place or "files of this machine" for place in sorted(places))
        raise ValueError(f"the input lies in several places ({named}), and this processor reads from one: copy the "
                         "files together, or take the processor python")
    return [found_in(path)[1] for path in paths], {"filesystem": found_in(paths[0])[0]}
