"""Which files hold secrets, told from their names alone: these are never read, completed in, or used.

Pure: nothing here looks at a disk, so the rules hold for unsaved, remote and virtual documents too. A user's own
patterns add to this list and cannot take from it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePath

_CONFIG = r"(?:ya?ml|json5?|toml|ini|cfg|conf|config|properties|xml|csv|txt|env|plist|enc|ya?ml\.enc)"
_ALWAYS = {
    r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:_sk)?(?:[^a-z0-9].*)?|ssh_host_.*_key|identity": "private keys are secret",
    r".+\.(?:pem|key|ppk|pk8|p8|pvk|asc|gpg|pgp|age|ovpn|keytab|snk)": "key files may hold private keys",
    r".+\.(?:p12|pfx|pkcs12|jks|jceks|bks|keystore|truststore|keychain(?:-db)?|mobileprovision)": (
        "key stores are secret"
    ),
    r".+\.(?:kdbx?|agilekeychain|opvault|1pux|psafe3)|wallet\.dat|logins\.json|key[34]\.db": (
        "password databases are secret"
    ),
    r"netrc|[._]netrc|\.pgpass|pgpass\.conf|\.my\.cnf|\.mylogin\.cnf|\.git-credentials|\.vault-token|\.htpasswd|"
    r"\.htdigest|g?shadow-?|(?:.+\.)?master\.key|\.passwd.*|passwords?\.txt": "password files are secret",
    r".+\.tfstate(?:\..*)?": "Terraform state holds secrets",
    r"\.\w+[_-]history|fish_history|consolehost_history\.txt": "command histories hold secrets",
}
_UNLESS_EXAMPLE = {
    r"\.env(?:rc)?(?:[^a-z0-9].*)?|.+\.env|\.flaskenv|\.dev\.vars": ".env files hold secrets",
    r".+\.tfvars(?:\.json)?": "Terraform variables hold secrets",
    r"\.npmrc|\.yarnrc(?:\.ya?ml)?|\.pypirc|\.dockercfg|\.dockerconfigjson|\.boto|\.s3cfg|rclone\.conf|\.terraformrc|"
    r"terraform\.rc|credentials\.tfrc\.json|auth\.json|settings-security\.xml|application_default_credentials\.json|"
    r"client_?secret.*\.json|.*service[-_]?account.*\.json|.*firebase-adminsdk.*\.json|token\.json|accesstokens\.json|"
    r"local\.settings\.json|.+\.publishsettings": "access files of clouds and package registries hold secrets",
    r"kubeconfig(?:[^a-z0-9].*)?|.+\.kubeconfig": "Kubernetes access files hold secrets",
    rf"(?:.*[._-])?(?:secrets?|credentials?)(?:[._-][\w-]+)*\.{_CONFIG}|\.secrets?|\.?credentials?": (
        "files named after secrets or credentials are never used"
    ),
}
_RULES = [(re.compile(pattern, re.DOTALL), rule, False) for pattern, rule in _ALWAYS.items()]
_RULES += [(re.compile(pattern, re.DOTALL), rule, True) for pattern, rule in _UNLESS_EXAMPLE.items()]
_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".gcloud", ".password-store", ".terraform.d", ".oci", ".vault"}
    | {".keychain", "keychains"}
)
_IN_FOLDER = frozenset(
    {
        (".docker", "config.json"),
        ("gcloud", "credentials.db"),
        ("gcloud", "access_tokens.db"),
        (".cargo", "credentials.toml"),
        (".m2", "settings.xml"),
        ("gh", "hosts.yml"),
        ("github-copilot", "hosts.json"),
        ("github-copilot", "apps.json"),
        (".git", "config"),
    }
)
_EXAMPLE = re.compile(r"(?:^|[._-])(?:examples?|samples?|templates?|tpl|tmpl|dist|schema)(?:$|[._-])")
_COPY = re.compile(r".(?:~|[._](?:bak|backup|old|orig|save|saved|copy|tmp|sw[a-p]|disabled|\d{1,8}))$")


def secret_file(path: PurePath) -> str | None:
    """Return the rule by which a file of this name must not be touched, or None."""
    parts = tuple(part.casefold() for part in path.parts)
    if not parts:
        return None
    # Windows writes a stream of a file as name:stream; elsewhere a colon is part of the name.
    name = _original(parts[-1].partition(":")[0])
    if rule := _by_name(name) or _by_name(_original(parts[-1])):
        return rule
    folder = next((part for part in parts[:-1] if part in _FOLDERS), None)
    if folder and not name.endswith(".pub"):
        return f"files in {folder} folders are secret"
    return "access files hold secrets" if (*parts[-2:-1], name) in _IN_FOLDER else None


@lru_cache(maxsize=4096)
def _by_name(name: str) -> str | None:
    if name.endswith(".pub"):
        return None
    names = {name, name.removeprefix(".")}  # the swap file of id_rsa is .id_rsa.swp
    example = _EXAMPLE.search(name) is not None
    for pattern, rule, unless_example in _RULES:
        if any(map(pattern.fullmatch, names)) and not (example and unless_example):
            return rule
    return None


def _original(name: str) -> str:
    """Undo what editors, backups and Windows put around a name: `.#.env`, `#.env#`, `.env~`, `.env.bak`, `.env.`."""
    name = name.rstrip(" .").removeprefix(".#").strip("#")
    while copy := _COPY.search(name):
        name = name[: copy.start() + 1]
    return name
