"""A folder as DSpace exports it (Simple Archive Format), with theses, their files and what DSpace keeps for itself."""

from __future__ import annotations

from pathlib import Path

CORE = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<dublin_core schema="dc">
  <dcvalue element="contributor" qualifier="advisor" language="">Souza, João</dcvalue>
  <dcvalue element="contributor" qualifier="author" language="pt_BR">Silva, Maria</dcvalue>
  <dcvalue element="date" qualifier="accessioned">2022-02-28T09:00:00Z</dcvalue>
  <dcvalue element="date" qualifier="issued">2021</dcvalue>
  <dcvalue element="description" qualifier="provenance" language="en">Submitted by Ana (ana@example.org)</dcvalue>
  <dcvalue element="description" qualifier="none">Mestrado</dcvalue>
  <dcvalue element="description" qualifier="abstract" language="pt_BR">Estudo do mangue &amp; do mar.</dcvalue>
  <dcvalue element="identifier" qualifier="uri">http://dspace.example.org/handle/{handle}</dcvalue>
  <dcvalue element="identifier" qualifier="issn">1234-5679</dcvalue>
  <dcvalue element="language" qualifier="iso">pt_BR</dcvalue>
  <dcvalue element="rights" qualifier="none">{rights}</dcvalue>
  <dcvalue element="rights" qualifier="uri">http://creativecommons.org/licenses/by/4.0/</dcvalue>
  <dcvalue element="title" qualifier="none" language="pt_BR">A maré e o mangue {number}</dcvalue>
  <dcvalue element="type" qualifier="none">Dissertação</dcvalue>
</dublin_core>
"""
THESIS = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<dublin_core schema="thesis"><dcvalue element="degree" qualifier="grantor">UV</dcvalue></dublin_core>
"""
CONTENTS = (
    "tese.pdf\tbundle:ORIGINAL\tprimary:true \tdescription:Texto completo\n"
    "dados.csv\tbundle:ORIGINAL\n"
    "tese.pdf.txt\tbundle:TEXT\n"
    "license.txt\tbundle:LICENSE\n"
)


def export(folder: Path, numbers: tuple[int, ...] = (1, 2), rights: str = "Acesso Aberto") -> Path:
    """Write an export of the theses of these numbers, which `oai_repository.thesis` tells of, too."""
    for number in numbers:
        item = folder / str(number)
        item.mkdir(parents=True)
        handle = f"123456789/{number}"
        core = CORE.format(handle=handle, number=number, rights=rights)
        for name, text in {
            "dublin_core.xml": core,
            "metadata_thesis.xml": THESIS,
            "handle": f"{handle}\n",
            "collections": "123456789/100\n",
            "contents": CONTENTS,
            "tese.pdf": f"%PDF-1.4 tese {number}",
            "dados.csv": "a;b\n",
            "tese.pdf.txt": "tese",
            "license.txt": "licença",
        }.items():
            (item / name).write_text(text, encoding="utf-8")
    return folder
