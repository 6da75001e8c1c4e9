r"""Make a page that reads handwritten digits: a network trained in Python, run by the browser.

    gnomon compile examples/c/classifier.py:classify --target wasm32 -o libclassify.a
    touch empty.c
    python -m ziglang cc -target wasm32-wasi -mexec-model=reactor -O2 empty.c libclassify.a \
        -Wl,--export=classify -Wl,--export=malloc -o classify.wasm
    python examples/c/classifier.py images.bin
    python examples/web/page.py classify.wasm images.bin digits.html

The page holds the module and the images, and refers to nothing on the network.
"""

import base64
import sys
from pathlib import Path

BATCH, PIXELS = 36, 64

PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<title>Digits</title>
<style>
  body { font: 16px sans-serif; margin: 2em; }
  figure { display: inline-block; margin: 0.5em; text-align: center; }
  canvas { width: 64px; height: 64px; image-rendering: pixelated; border: 1px solid #ccc; }
</style>
<h1>Digits, as a network reads them</h1>
<div id="digits"></div>
<p id="state">computing</p>
<script>
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const images = new Float32Array(bytes("%(images)s").buffer);
const BATCH = %(batch)d, PIXELS = %(pixels)d;

async function main() {
  const module = await WebAssembly.compile(bytes("%(module)s"));
  // The program calls nothing of the system: what C's library imports is never called.
  const imports = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module))
    (imports[from] ??= {})[name] = () => { throw new Error(`call of ${name}`); };
  const {exports} = await WebAssembly.instantiate(module, imports);
  exports._initialize();
  const [input, digits, scores] = [4 * BATCH * PIXELS, 4 * BATCH, 40 * BATCH].map(exports.malloc);
  new Float32Array(exports.memory.buffer, input, images.length).set(images);
  const started = performance.now();
  const status = exports.classify(input, digits, scores, 0);
  const time = performance.now() - started;
  if (status !== 0) throw new Error(`status ${status}`);
  const found = new Int32Array(exports.memory.buffer, digits, BATCH);
  for (let i = 0; i < BATCH; ++i) {
    const figure = document.getElementById("digits").appendChild(document.createElement("figure"));
    const canvas = figure.appendChild(document.createElement("canvas"));
    canvas.width = canvas.height = 8;
    const context = canvas.getContext("2d");
    for (let p = 0; p < PIXELS; ++p) {
      context.fillStyle = `rgba(0, 0, 0, ${images[i * PIXELS + p]})`;
      context.fillRect(p %% 8, p >> 3, 1, 1);
    }
    figure.appendChild(document.createElement("figcaption")).textContent = found[i];
  }
  document.getElementById("state").textContent = `${BATCH} images in ${time.toFixed(2)} ms`;
}
main().catch(error => { document.getElementById("state").textContent = `failed: ${error}`; });
</script>
"""


def page(module, images):
    """The page as text."""
    encoded = [base64.b64encode(data).decode() for data in (images, module)]
    return PAGE % {"images": encoded[0], "module": encoded[1], "batch": BATCH, "pixels": PIXELS}


if __name__ == "__main__":
    module, images, output = map(Path, sys.argv[1:])
    pixels = images.read_bytes()[: 4 * BATCH * PIXELS]
    output.write_text(page(module.read_bytes(), pixels))
