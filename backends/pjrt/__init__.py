"""The PJRT backend: a binding of our own to the PJRT C API, for TPUs and any other plugin."""
