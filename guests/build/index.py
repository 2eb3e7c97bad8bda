"""Where packages are fetched from: what the user's pip would ask.

The settings are read by pip itself, from its PIP_* variables and configuration files, so a mirror, a proxy or a private certificate
that works for `pip install` works here. The default index is the one that `unearth` knows.
"""

import ast
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import Fetcher
from unearth.fetchers.sync import PyPIClient

from guests.build.errors import BuildError

# Later sections win, as in pip. `install` is what a person who reads pip's manual would set; `download` is what we do.
SECTIONS = ("global", "download", "install", ":env:")


def pip_settings() -> dict[str, str]:
    """The settings of `pip config list`, by their plain names."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        last = (listing.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BuildError(f"pip's settings cannot be read ({last}); see `python -m pip config list`")
    return read_settings(listing.stdout)


def read_settings(listing: str) -> dict[str, str]:
    """Reads lines such as `global.index-url='...'`."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listing.splitlines():
        name, equals, value = line.partition("=")
        section, dot, key = name.rpartition(".")
        if equals and dot and section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for section in SECTIONS for key, value in found[section].items() if value}


@contextmanager
def finders(settings: Mapping[str, str]) -> Iterator[list[PackageFinder]]:
    """One finder for each configured place, so that a place that is down does not hide the others."""
    trusted = settings.get("trusted-host", "").split()
    with PyPIClient(
        trusted_hosts=trusted,
        verify=_trust(settings),
        proxy=settings.get("proxy"),
        timeout=float(settings.get("timeout") or settings.get("default-timeout") or 30),
        follow_redirects=True,
    ) as client:
        places = _places(settings, client)
        client.auth = MultiDomainBasicAuth(
            prompting=False, index_urls=[source["url"] for finder in places for source in finder.sources]
        )
        yield places


def _trust(settings: Mapping[str, str]) -> ssl.SSLContext | Literal[True]:
    """The certificates that pip is set up with, or True for the usual ones."""
    bundle, client = settings.get("cert"), settings.get("client-cert")
    if not bundle and not client:
        return True
    folder = bundle is not None and Path(bundle).is_dir()
    try:
        context = ssl.create_default_context(cafile=None if folder else bundle, capath=bundle if folder else None)
        if client:
            context.load_cert_chain(client)
    except OSError as error:
        raise BuildError(
            f"the certificates of pip's settings cannot be read: {error}; see `python -m pip config list`"
        ) from error
    return context


def _places(settings: Mapping[str, str], client: PyPIClient) -> list[PackageFinder]:
    def finder(index_urls: tuple[str, ...] = (), find_links: tuple[str, ...] = ()) -> PackageFinder:
        return PackageFinder(cast(Fetcher, client), index_urls=index_urls, find_links=find_links, no_binary=[":all:"])

    places = []
    if settings.get("no-index", "").lower() not in ("1", "true", "yes", "on"):
        index = settings.get("index-url")
        places.append(finder((index,)) if index else finder())  # without any place, a finder asks the default index
        places += [finder((url,)) for url in settings.get("extra-index-url", "").split()]
    places += [finder(find_links=(url,)) for url in settings.get("find-links", "").split()]
    return places
