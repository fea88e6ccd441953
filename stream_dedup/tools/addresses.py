"""Show addresses without secrets."""

import re
from urllib.parse import unquote, urlsplit

# A parameter holds a secret if its name has one of these words (api_key, X-Auth-Token, accessToken), is "code", or
# signs a link to a cloud's storage.
_SECRET_WORDS = frozenset((
    "access", "accesskey", "accesstoken", "apikey", "apitoken", "auth", "authentication", "authkey", "authorization",
    "authtoken", "bearer", "credential", "credentials", "hmac", "jsessionid", "jwt", "key", "oauth", "otp", "pass",
    "passphrase", "passwd", "password", "phpsessid", "pwd", "secret", "secretkey", "sessid", "session", "sessionid",
    "sid", "sig", "signature", "ticket", "token",
))  # fmt: skip
_SIGNING = ("x-amz-", "x-goog-", "x-oss-")
_PARAMETER = re.compile(r"(?<=;)([^=&;?#]*)=[^&;?#]*|(?<=[?&])([^=&;?#]*)=[^&;#]*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def _without_secret(parameter: re.Match[str]) -> str:
    raw = parameter[1] or parameter[2] or ""
    name = unquote(raw)
    is_secret = not _SECRET_WORDS.isdisjoint(word.lower() for word in _WORD.findall(name))
    is_secret = is_secret or name.lower() == "code" or name.lower().startswith(_SIGNING)
    return f"{raw}=***" if is_secret else parameter[0]


def public_url(url: str) -> str:
    """Return a URL without user, password, fragment, and values of parameters that are named like a secret.

    The text may be an invalid URL: whatever stands before an @ may be a password.

    >>> public_url("https://ann:pw@a.example:8443/rss?api_key=abc&topic=sea#top")
    'https://a.example:8443/rss?api_key=***&topic=sea'
    >>> public_url("ftp://ann:p/w@a.example"), public_url("https://a.example/@ann"), public_url("ann:pw@a.example")
    ('ftp://a.example', 'https://a.example/@ann', 'a.example')
    """
    plain = re.sub(r"#(?!.*@).*", "", url)
    try:
        parts = urlsplit(plain)
        parts.port  # noqa: B018 - raises for an invalid port, such as a part of a password
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    user = r"(?<=//)[^/?#]*@" if is_url else r"^(\w[\w+.-]*://)?.*@"
    return _PARAMETER.sub(_without_secret, re.sub(user, "" if is_url else r"\1", plain).partition("#")[0])
