"""A static library of kernels in a C program: it links, and lists its kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gnomon.tools.driver import main

# IREE's interface of executable libraries, version 6, as far as the program reads it.
PROGRAM = """
#include <stdint.h>
#include <stdio.h>

struct header { uint32_t version; const char *name; uint32_t features, sanitizer; };
struct library {
  const struct header *header;
  struct { uint32_t count; const void *symbols; } imports;
  struct { uint32_t count; int (**functions)(const void *, const void *, const void *); } exports;
};
extern const struct library *QUERY(uint32_t newest_version, const void *environment);

int main(void) {
  static const char environment[1024];
  const struct library *library = QUERY(6, environment);
  if (library == 0 || QUERY(0, environment) != 0) return 1;
  for (uint32_t i = 0; i < library->exports.count; ++i)
    if (library->exports.functions[i] == 0) return 2;
  printf("version %u, %u imports, %u kernels, %s", library->header->version,
         library->imports.count, library->exports.count, library->header->name);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_kernels_are_linked_into_a_c_program(model: Path) -> None:
    assert (
        main(["compile", f"{model}:loss", "--grad", "--emit=iree-static-library", "-o", "lib"]) == 0
    )
    (query,) = re.findall(r"^(\w+_library_query)\($", Path("lib/kernels.h").read_text(), re.M)
    Path("program.c").write_text(PROGRAM)
    build = ["cc", "-Wall", "-Werror", f"-DQUERY={query}", "program.c", "lib/kernels.o", "-lm"]
    subprocess.run([*build, "-o", "program"], check=True)
    found = subprocess.run(["./program"], check=True, capture_output=True, text=True).stdout
    kernels = re.fullmatch(rf"version 6, 0 imports, (\d+) kernels, {query[:-14]}", found)
    assert kernels is not None, found
    assert int(kernels[1]) > 1
