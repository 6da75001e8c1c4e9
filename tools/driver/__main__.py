"""``python -m gnomon.tools.driver``."""

import sys

from gnomon.tools.driver.command_line import main

sys.exit(main())
