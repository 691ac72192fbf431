"""Secrets: told by a file's name, or by the shape and place of a stretch of text."""

import string
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
import lsp_server
from lsp_server.privacy.secrets import holds_secret, masked, secret_file

LETTERS = "q7Zk2mWx9Rt4Lp8Vn3Bd6Hj5Gs1Fc0Ya" * 4  # a made-up value that looks random
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PEM_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".ENV",
        ".env.local",
        ".env.production",
        "prod.env",
        ".envrc",
        ".env~",
        ".env.bak",
        ".env.swp",
        ".#.env",
        "#.env#",
        ".env. ",
        "id_rsa",
        "id_ed25519",
        "id_rsa.old",
        ".id_rsa.swp",
        "server.pem",
        "server.KEY",
        "store.p12",
        "release.keystore",
        "passwords.kdbx",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".htpasswd",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.tfvars",
        "service-account.json",
        "my_service_account_prod.json",
        "client_secret_123.json",
        "credentials.json",
        "db-credentials.yml",
        "secrets.yaml",
        "app.secrets.toml",
        "kubeconfig",
        ".bash_history",
        "home/.ssh/config",
        "home/.aws/credentials",
        "home/.kube/config",
        "home/.docker/config.json",
        "home/.gnupg/trustdb.gpg",
        "repo/.git/config",
    ],
)
def test_secret_files_are_known_by_name(name):
    """B59: a file that usually holds secrets is refused by a rule in words, whatever its case or backup suffix."""
    assert secret_file(PurePosixPath("/w") / name)


@pytest.mark.parametrize(
    "name",
    [
        "app.py",
        ".env.example",
        ".env.sample",
        ".env.template",
        "example.env",
        "prod.tfvars.example",
        "id_rsa.pub",
        "home/.ssh/id_ed25519.pub",
        "env.py",
        "environment.ts",
        "secrets.py",
        "secret_files.py",
        "keys.py",
        "tokenizer.json",
        "tokens.json",
        "package.json",
        "config.json",
        "settings.json",
        "credentials.go",
        "monkey.py",
        "README.md",
    ],
)
def test_ordinary_files_are_not_secret(name):
    """Code about secrets, public keys and examples for others to fill in are ordinary files."""
    assert secret_file(PurePosixPath("/w") / name) is None


def test_windows_paths_and_streams_are_known_too():
    """On Windows a stream of a file is the file, and folders are separated by backslashes."""
    assert secret_file(PureWindowsPath(r"C:\w\.env::$DATA"))
    assert secret_file(PureWindowsPath(r"C:\Users\me\.aws\credentials"))
    assert secret_file(PurePosixPath("/w/a:b.env"))


TOKENS = {
    "aws": "AKIA" + "Q7ZK2MWX9RT4LP8V",
    "github": "ghp_" + LETTERS[:36],
    "github fine": "github_pat_" + LETTERS[:60],
    "gitlab": "glpat-" + LETTERS[:20],
    "slack": "xoxb-" + "731846529017-" + LETTERS[:24],
    "stripe": "sk_live_" + LETTERS[:24],
    "google": "AIza" + LETTERS[:35],
    "openai": "sk-" + LETTERS[:48],
    "openai project": "sk-proj-" + LETTERS[:40] + "_" + LETTERS[:30],
    "anthropic": "sk-ant-api03-" + LETTERS[:80] + "-AA",
    "npm": "npm_" + LETTERS[:36],
    "pypi": "pypi-AgEIcHlwaS5vcmc" + LETTERS[:70],
    "hugging face": "hf_" + "qZkmWxRtLpVnBdHjGsFcYaqZkmWxRtLpVn",
    "sendgrid": "SG." + LETTERS[:22] + "." + LETTERS[:43],
    "vault": "hvs." + LETTERS[:40],
    "databricks": "dapi" + HEX[:32],
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NzMiLCJuYW1lIjoiem9lIn0." + LETTERS[:43],
}


@pytest.mark.parametrize("place", ["{}", 'x = "{}"', "see {}, please", "curl -H 'X: {}'", "日本 {} 🙂", "f({})\n"])
@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_of_known_issuers_are_masked(token, place):
    """A token is masked wherever it stands, and only it."""
    text = place.format(token)
    assert masked(text) == place.format("*" * len(token))


NAMED = [
    ('password = "hunter2x"', "hunter2x"),
    ("PASSWORD='Tr0ub4dor&3'", "Tr0ub4dor&3"),
    ('connect(user="a", password="p4ss-w0rd!")', "p4ss-w0rd!"),
    ('API_KEY = "zq9-canary-1"', "zq9-canary-1"),
    ('const apiKey: string = "q7Zk2mWx9Rt4Lp8V"', "q7Zk2mWx9Rt4Lp8V"),
    ('{"client_secret": "q7Zk2mWx9Rt4Lp8V"}', "q7Zk2mWx9Rt4Lp8V"),
    ("aws_secret_access_key = wJq7Zk2mWx9Rt4/Lp8Vn3Bd6Hj5Gs1Fc0YaK7", "wJq7Zk2mWx9Rt4/Lp8Vn3Bd6Hj5Gs1Fc0YaK7"),
    ("  access_token: 9f86d081884c7d65", "9f86d081884c7d65"),
    ('os.environ["AUTH_TOKEN"] = "9f86d081884c7d65"', "9f86d081884c7d65"),
    ("export SECRET_KEY=q7Zk2mWx9Rt4Lp8V", "q7Zk2mWx9Rt4Lp8V"),
    ("Server=db;User=sa;Password=Zk2mWx9Rt4;Timeout=5", "Zk2mWx9Rt4"),
    ("define('DB_PASSWORD', 'q7Zk2mWx');", "q7Zk2mWx"),
    ("<password>q7Zk2mWx</password>", "q7Zk2mWx"),
    ('SECRET_KEY = (\n    "q7Zk2mWx9Rt4Lp8V"\n)', "q7Zk2mWx9Rt4Lp8V"),
    ("deploy --token q7Zk2mWx9Rt4Lp8V --now", "q7Zk2mWx9Rt4Lp8V"),
    ("Authorization: Bearer q7Zk2mWx9Rt4Lp8V", "q7Zk2mWx9Rt4Lp8V"),
    ('headers = {"Authorization": "Basic YWxhZGRpbjpvcGVuc2VzYW1l"}', "YWxhZGRpbjpvcGVuc2VzYW1l"),
    ('"Authorization": f"token q7Zk2mWx9Rt4Lp8V"', "q7Zk2mWx9Rt4Lp8V"),
    ("postgres://app:q7Zk2mWx@db.internal:5432/app", "q7Zk2mWx"),
    ("redis://:q7Zk2mWx@cache", "q7Zk2mWx"),
    ("İİİ token = 'q7Zk2mWx9Rt4'", "q7Zk2mWx9Rt4"),
]


@pytest.mark.parametrize(("text", "value"), NAMED)
def test_values_that_their_name_gives_away_are_masked(text, value):
    """A random-looking value after a secret's name, in a header or in a URL is masked, and nothing else of the line."""
    assert masked(text) == text.replace(value, "*" * len(value))


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenizer.next()",
        "token = self.tokens[i2]",
        "for token in tokens: yield token.text2",
        "key = keys[0]; value = table[key]",
        "password = get_password(user1)",
        "password = getpass.getpass()",
        'password = "changeme"',
        'password = "password1"',
        'API_KEY = "your-api-key"',
        'api_key = "<your key here>"',
        'api_key = "sk-xxxxxxxxxxxxxxxxxxxxxxxx"',
        'token = os.environ["GITHUB_TOKEN_2"]',
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "password: ${DB_PASSWORD}",
        'secret = "{secret1}"',
        'PASSWORD_HASHER = "argon2id13"',
        'token_type = "oauth2"',
        'secret_version = "v2024"',
        'sort_key = "q7Zk2mWx9Rt4"',
        'access_key = "access_key_2"',
        "integrity sha512-" + LETTERS[:86] + "==",
        f'"hash": "sha256:{HEX}"',
        f"commit {HEX[:40]}",
        'id = "550e8400-e29b-41d4-a716-446655440000"',
        "color: #ff00aa; background: #123abc",
        "src='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + LETTERS + "'",
        "postgres://user:password@localhost/db",
        "postgres://postgres:postgres@localhost/db",
        "https://user:${TOKEN}@host/x",
        "http://example.org:8080/a@b",
        "Authorization: Bearer ${token}",
        'if line == "-----BEGIN RSA PRIVATE KEY-----":\n    return load(line, password)\n',
        'BEGIN = "-----BEGIN PRIVATE KEY-----"\nEND = "-----END PRIVATE KEY-----"\n',
        ".sk-fading-circle-container1 .sk-cube-grid-animation2 {}",
        "test_a_very_long_function_name_that_is_longer_than_any_token()",
        "AKIAIOSFODNN7EXAMPLE",
        "class SomeVeryLongCamelCaseClassNameForTests2(Base):",
    ],
)
def test_ordinary_code_stays(text):
    """Identifiers, calls, placeholders, hashes, colours and pictures are no secrets."""
    assert masked(text) == text
    assert not holds_secret(text)


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_masked_line_by_line(kind):
    """The body of a private key goes, its line breaks stay, the code around it stays."""
    body = "\n".join([PEM_LINE] * 5 + ["c2hvcnQ="])
    text = f'KEY = """-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"""\nrun(KEY)\n'
    hidden = masked(text)
    assert len(hidden) == len(text)
    assert hidden.count("\n") == text.count("\n")
    assert PEM_LINE[:8] not in hidden and "c2hvcnQ" not in hidden
    assert hidden.endswith('"""\nrun(KEY)\n')


@pytest.mark.parametrize(
    "text",
    [
        rf'"private_key": "-----BEGIN PRIVATE KEY-----\n{PEM_LINE}\n{PEM_LINE}\n-----END PRIVATE KEY-----\n"',
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2 (Linux)\n\n{PEM_LINE}\n=abCD\n"
        "-----END PGP PRIVATE KEY BLOCK-----",
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{PEM_LINE}\n"
        "-----END RSA PRIVATE KEY-----",
        f"key: |\n  -----BEGIN PRIVATE KEY-----\n  {PEM_LINE}\n  {PEM_LINE}",
        f"{PEM_LINE}\n{PEM_LINE}\n-----END PRIVATE KEY-----\n",
        f"Private-Lines: 2\n{PEM_LINE}\n{PEM_LINE}\nPrivate-MAC: 00\n",
    ],
    ids=["json", "pgp", "encrypted", "no end", "no beginning", "putty"],
)
def test_private_keys_in_other_clothes_are_masked(text):
    """A key in JSON, with headers, or cut off at either end by a window over the text is masked as well."""
    assert PEM_LINE[:16] not in masked(text)


def test_a_suggestion_is_judged_with_what_stands_before_it():
    """B59: a value is a secret when its name is typed already; what stands left of the cursor does not count."""
    assert holds_secret('zq9-canary-1"', before='API_KEY = "')
    assert not holds_secret("tokenizer.next()", before="token = ")
    assert not holds_secret(" + suffix", before='API_KEY = "zq9-canary-1"')
    assert holds_secret(TOKENS["github"])


@given(
    st.lists(st.sampled_from([*TOKENS.values(), *(text for text, _ in NAMED), "日本🙂", "\n", " ", "\u0130", "x = 1"]))
)
def test_masking_moves_nothing(pieces):
    """Length, line breaks and all that is not masked stay, and masking again changes nothing."""
    text = " ".join(pieces)
    hidden = masked(text)
    assert len(hidden) == len(text)
    assert all(new in (old, "*") and (new == "\n") == (old == "\n") for old, new in zip(text, hidden, strict=True))
    assert masked(hidden) == hidden


@given(st.text(alphabet=string.printable + "é日🙂\u0130\ud800", max_size=300))
def test_any_text_can_be_masked(text):
    """No text, however odd, is an error or changes its length."""
    assert len(masked(text)) == len(text)


@pytest.mark.parametrize(
    "piece",
    ["token ", "password=", "key:", "://a:", "sk-", "eyJa.", "-----BEGIN PRIVATE KEY-----", "_a" * 12, "secret,(", "A"],
)
def test_hostile_repetition_ends(piece):
    """A text made of beginnings of secrets is done with at once; a runaway pattern would hang here."""
    text = piece * (300_000 // len(piece))
    assert len(masked(text)) == len(text)


def test_the_real_sources_of_this_project_stay():
    """Our own code, which speaks of tokens and keys on every page, is not touched."""
    sources = [file for package in (engine, lsp_server) for file in Path(package.__file__).parent.glob("*.py")]
    assert sources
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert masked(text) == text, source
