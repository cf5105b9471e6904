"""All tests here run on one thread; see `one_thread`."""

from one_thread import one_thread as one_thread
