"""The formats of profiles: timelines for Perfetto and TensorBoard, memory for pprof."""
