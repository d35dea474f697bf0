"""`python -m embed_ab` is `embed-ab`."""

import sys

from embed_ab.cli import main

sys.exit(main())
