/* safetensors.h - safetensors files as mgc's commands read them: headers, and the index of several
 * files. Nothing of a file is believed. */
#ifndef MGC_SAFETENSORS_H
#define MGC_SAFETENSORS_H

#include "compiler/session.h"

#include <jansson.h>

/* The header at the beginning of `in`, an object of its tensors, without "__metadata__"; *data is
 * the byte at which data begin, of *size bytes. Owned by the caller. NULL: *why says what is
 * wrong. */
json_t *safetensors_header(Arena *a, FILE *in, int64_t *data, int64_t *size, const char **why);

/* The files beside it that the text of an index names, each once. False: *why says what is wrong.
 */
bool safetensors_indexed(Arena *a, const char *text, size_t size, Words *files, const char **why);

#endif
