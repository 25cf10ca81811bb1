/* sources.h - what data sets are read from: token files, the weights of their targets, and shares
 * of several sets. */
#ifndef RT_SOURCES_H
#define RT_SOURCES_H

#include "runtime/run.h"

/* ---- tokens.c ----------------------------------------------------------------------------- */

/* Opens f->path, detects its format, and checks each token; ends the program with 65. */
void rt_tokens_open(rt_file *f, int64_t window, int64_t vocab);
void rt_tokens_read(const rt_file *f, int64_t first, int64_t n, int32_t *out);
/* The index of a Megatron file, a descriptor that the caller closes, and how many sequences it
 * has; -1 if the file has none. Lengths of sequences; the place of one, in tokens. */
int rt_tokens_index(const rt_file *f, int64_t *sequences);
void rt_tokens_lengths(const rt_file *f, int index, int64_t first, int64_t n, int32_t *length);
void rt_tokens_sequence(const rt_file *f, int index, int64_t sequences, int64_t i, int64_t *first,
                        int64_t *n);
char *rt_tokens_changed(const rt_file *f);                            /* as rt_data_changed */
void rt_file_read(const rt_file *f, void *to, int64_t n, int64_t at); /* or ends the program */

/* ---- target_weights.c --------------------------------------------------------------------- */

void rt_targets_open(rt_file *f, bool needed); /* a file that is not needed may be absent */
rt_file *rt_targets_again(const rt_file *w);   /* opens a second descriptor */
void rt_targets_read(const rt_file *f, int64_t first, int64_t n, mg_dtype dtype, void *out);
void rt_targets_close(rt_file *w); /* NULL: nothing */

/* ---- blend.c ------------------------------------------------------------------------------ */

/* Takes ownership of `source` and the data sets in it. */
rt_blend *rt_blend_new(rt_data **source, const double *weight, int n);
rt_blend *rt_blend_like(const rt_blend *b, rt_data **source);
void rt_blend_free(rt_blend *b);
/* The data set of sequence g, and its number *index there; in the fixed order: source after
 * source. */
const rt_data *rt_blend_pick(rt_blend *b, int64_t g, int64_t *index);
const rt_data *rt_blend_in_order(const rt_blend *b, int64_t *index);
uint64_t rt_blend_key(const rt_blend *b); /* hash of the shares */
int rt_blend_sources(const rt_blend *b, rt_data ***source);

#endif
