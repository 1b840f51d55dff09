"""Imported last where processes are forked from: what each of them would do again is done here, once."""

import gc

from numba.core.registry import cpu_target

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.freeze()  # collections leave out what was imported
