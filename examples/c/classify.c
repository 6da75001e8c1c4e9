/* Classify handwritten digits with a network that was trained in Python: see classifier.py. */

#include <stdio.h>
#include <stdlib.h>

#include "classify.h"

enum { PIXELS = 64, BATCH = CLASSIFY_SIZE_images / PIXELS, DIGITS = 10, IMAGES = 360 };

static float images[IMAGES * PIXELS];
static int32_t labels[IMAGES];

int main(int count, char **arguments) {
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (file == NULL || fread(images, sizeof *images, IMAGES * PIXELS, file) != IMAGES * PIXELS ||
      fread(labels, sizeof *labels, IMAGES, file) != IMAGES) {
    fprintf(stderr, "usage: classify FILE, which classifier.py writes\n");
    return 2;
  }
  fclose(file);

  /* All calls share one workspace; with NULL each call would allocate its own. */
  void *workspace = malloc(CLASSIFY_WORKSPACE);
  int right = 0;
  for (int first = 0; first < IMAGES; first += BATCH) {
    int32_t digits[BATCH];
    float scores[BATCH * DIGITS];
    if (classify(images + first * PIXELS, digits, scores, workspace) != 0) return 1;
    for (int i = 0; i < BATCH; ++i) {
      right += digits[i] == labels[first + i];
      printf("%d %.9g\n", digits[i], scores[i * DIGITS + digits[i]]);
    }
  }
  free(workspace);
  fprintf(stderr, "%d of %d images are read as the right digit\n", right, IMAGES);
  return 0;
}
