/* pack.h - documents put into windows. */
#ifndef RT_PACK_H
#define RT_PACK_H

#include "runtime/run.h"

/* Calls put(ctx, first, n) for each document of a file: its first token, how many it has. */
typedef void rt_document_fn(void *ctx, int64_t first, int64_t n);
void rt_documents_each(const rt_file *f, rt_document_fn *put, void *ctx);

/* Opens and checks files as rt_data_open does, for documents that are put into windows; drops: but
 * those that are longer than a window. */
rt_data *rt_data_open_packed(const rt_list *patterns, const char *option, int64_t seq,
                             int64_t window, int64_t vocab, bool drops);
/* Packs: once, when it is known what is held out. d->packing says what became of it. */
void rt_data_pack(rt_data *d);
char *rt_packing_text(const rt_data *d); /* that as a sentence, which the caller frees */
/* The segment that has the window of this number, or the token, where documents are packed. */
const rt_segment *rt_data_segment(const rt_data *d, int64_t number);

/* The windows of d's segments. They depend on the lengths of documents and on seq alone. */
rt_pack *rt_pack_new(const rt_data *d, rt_packing *count);
void rt_pack_free(rt_pack *p); /* NULL: nothing */
/* Window number `window` as the batch's row `number`. key: of the epoch, which says which of the
 * documents of one length is where; 0: the order of the files. */
void rt_pack_row(const rt_data *d, uint64_t key, int64_t window, mg_dtype compute, rt_batch *b,
                 const mg_entry *e, int64_t number);

/* First-fit decreasing: lengths of n pieces, none longer than the one before it nor than
 * `capacity`, one by one go into the first window that has room. window[k]: where piece k is.
 * Returns how many windows there are. */
int64_t rt_pack_fit(const int32_t *length, int64_t n, int64_t total, int32_t capacity,
                    uint32_t *window);

#endif
