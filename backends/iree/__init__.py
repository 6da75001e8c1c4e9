"""The IREE backend: portable StableHLO in, executables and device buffers out."""
