"""What a resolution costs: messages, waiting, a fan-out to all, Archives that hang, and a million hints in memory.

    python -m bench.resolving [--full] [--dir DIR] [--only WHAT]

The resolver runs as its keeper runs it, in one process on one core; the Archives are those of `bench.stubs`, on the
other core together with the load. Items are asked for as people ask: the n-th most popular one 1/n times as often as
the first (Zipf). `--full` takes longer runs and up to 1,000 Archives everywhere; without it, a minute and a half.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import statistics
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.asking import ARCHIVES as OF_A_FAN_OUT
from bench.asking import CLIENTS, ROUNDS_AT_ONCE
from bench.disk import add_option, surroundings, workplace
from bench.figures import Figure, figure, table
from bench.processes import SERVER_CORE, NotStarted, Server, hold_this_process, run, serving, wrk
from bench.resolving_load import Load, Said, items_script
from bench.stubs import ip_of, item_of, query_of, service_of, stubs, tell
