"""kafka-storage, but for `format`, which Ottla refuses."""

import re

from compat_tests.support.tools import Printed

BROKERS = ("Ottla",)
_NODE = "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=2@localhost:9093\ncontroller.listener.names=C\n"
FILES = {
    "missing-directory.properties": "log.dirs=missing\n",
    "several.properties": "log.dirs=here,elsewhere\n",
    "file.properties": "log.dirs=file.properties\n",
    "unformatted.properties": "log.dirs=.\n",
}
FILES = {name: _NODE + content for name, content in FILES.items()}
COMMANDS = {
    "storage: the tables of a release are printed": """
        storage version-mapping
        storage version-mapping --release-version 3.9
        storage version-mapping -r 4.1
        storage version-mapping -r bogus
        storage feature-dependencies
        storage feature-dependencies --feature group.version=1 -f metadata.version=20
        storage feature-dependencies -f eligible.leader.replicas.version=1
        storage feature-dependencies -f group.version=9
        storage feature-dependencies -f group.version=x
        storage feature-dependencies -f metadata.version=99
        storage feature-dependencies -f bogus=1
        storage feature-dependencies -f bogus
    """,
    "storage: directories are described": """
        storage info -c missing-directory.properties
        storage info -c several.properties
        storage info -c file.properties
        storage info -c unformatted.properties
        storage info
    """,
    "storage: an id is made up": """
        storage random-uuid
        storage random-uuid extra
    """,
    "storage: wrong usage is refused": """
        storage
        storage --help
        storage frob
        storage format
        storage format -t AAAAAAAAAAAAAAAAAAAAAg
        storage format --standalone --no-initial-controllers
        storage random-uid
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out the random id."""
    return printed._replace(stdout=re.sub(r"^[\w-]{22}$", "ID", printed.stdout, flags=re.MULTILINE))
