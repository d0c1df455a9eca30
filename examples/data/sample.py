#!/usr/bin/env python3
"""Makes the sample, and counts what is in an index; README.md beside this file says why and how.

    sample.py make Packages sample.gz    cut a sample out of a full index
    sample.py count FILE                 the totals of an index, plain or gzip
"""

import collections
import gzip
import re
import sys

# What the models use, and nothing else.
FIELDS = [
    "Package", "Version", "Installed-Size", "Maintainer", "Architecture",
    "Pre-Depends", "Depends", "Description", "Section", "Size",
]
# Whole sections, the basic system, and a package that the index has in two versions.
SECTIONS = {"editors", "games", "mail", "shells", "vcs", "web"}
PRIORITIES = {"required", "important", "standard"}
NAMES = {"linux-doc", "linux-source"}


def read(path):
    """The stanzas of an index, as dictionaries."""
    opened = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        stanza, field = {}, None
        for line in lines:
            line = line.rstrip("\n")
            if not line.strip():
                if stanza:
                    yield stanza
                stanza = {}
            elif line[0] in " \t":
                stanza[field] += "\n" + line
            else:
                field, _, value = line.partition(":")
                stanza[field] = value.strip()
        if stanza:
            yield stanza


def depends(stanza):
    """The names that a stanza depends on, each once: alternatives count, versions and architectures do not."""
    text = stanza.get("Pre-Depends", "") + "," + stanza.get("Depends", "")
    names = (re.split(r"[\s:(\[<]", part.strip())[0] for part in re.split("[,|]", text))
    return set(filter(None, names))


def make(source, target):
    stanzas = list(read(source))
    by_name = collections.defaultdict(list)
    for stanza in stanzas:
        by_name[stanza["Package"]].append(stanza)
    todo = [
        s["Package"] for s in stanzas
        if s["Section"] in SECTIONS or s.get("Priority") in PRIORITIES or s["Package"] in NAMES
    ]
    keep = set(todo)
    while todo:
        for stanza in by_name[todo.pop()]:
            new = {name for name in depends(stanza) if name in by_name} - keep
            keep |= new
            todo += new
    lines = []
    for stanza in stanzas:
        if stanza["Package"] in keep:
            stanza["Maintainer"] = re.sub(r"\s*<[^>]*>", "", stanza["Maintainer"])
            lines += [f"{f}: {stanza[f].splitlines()[0]}" for f in FIELDS if f in stanza] + [""]
    text = "\n".join(lines)
    assert not re.search(r"\w@\w", text), "the sample has an e-mail address"
    with open(target, "wb") as out:
        out.write(gzip.compress(text.encode(), 9, mtime=0))


def count(path):
    stanzas = list(read(path))
    required = collections.Counter(name for stanza in stanzas for name in depends(stanza))
    names = {stanza["Package"] for stanza in stanzas}
    missing = {name: n for name, n in required.items() if name not in names}
    print("packages        ", len(stanzas), "of", len(names), "names")
    print("maintainers     ", len({stanza["Maintainer"] for stanza in stanzas}))
    print("sections        ", len({stanza["Section"] for stanza in stanzas}))
    print("dependency edges", sum(required.values()))
    print("most required   ", required.most_common(3))
    outliers = [name for name, n in required.items() if n > 200 and name in names]
    print("outliers        ", len(outliers), "names that more than 200 depend on")
    print("missing         ", len(missing), "names in", sum(missing.values()), "edges")
    print("                ", collections.Counter(missing).most_common(3))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", source, target]:
            make(source, target)
        case ["count", path]:
            count(path)
        case _:
            sys.exit(__doc__)
