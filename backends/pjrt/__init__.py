"""The PJRT backend: a binding to the PJRT C API, for TPUs and any other plugin."""
