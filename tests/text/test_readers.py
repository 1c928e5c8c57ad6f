"""Text that several processes read: the same bytes as from one, its errors, kills, memory."""

import gzip
import lzma
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import zstandard

from helpers import Call, made_up_text, printed, run_apart, snapshot, started, wait_for, write
