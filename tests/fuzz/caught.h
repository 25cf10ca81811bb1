/* caught.h - calls of the runtime that end the program when they refuse something, for fuzz
 * targets: rt_die (linked with --wrap) comes back to caught(), and what was allocated and opened is
 * let go. */
#ifndef FUZZ_CAUGHT_H
#define FUZZ_CAUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if fn(ctx) returned, false if it refused. Frees all that it left. */
bool caught(void fn(void *ctx), void *ctx);

/* A folder of its own, which stays; and a file in it. */
const char *fuzz_folder(void);
void fuzz_file(const char *name, const void *data, size_t size);
void fuzz_no_file(const char *name);

/* The next part of an input: a length of two bytes, then so many bytes (or as many as there are).
 */
typedef struct FuzzPart {
    const uint8_t *data;
    size_t size;
} FuzzPart;
FuzzPart fuzz_part(FuzzPart *rest);

#endif
