/* format.c - the canonical text, as mgc fmt has it: one edit, of the lines that differ. */
#include "grammar/grammar.h"
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

json_t *format(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s, (void)params;
    const Index *x = document_index(d);
    char *text = NULL;
    size_t size = 0, same = 0, end = 0;
    if (!x || !x->whole)
        return refuse(r, RPC_failed, "a text with errors of syntax has no canonical form");
    FILE *out = open_memstream(&text, &size);
    mg_fmt(x->ast, out);
    fclose(out);
    const char *old = d->text.data;
    const size_t had = d->text.size;
    while (same < size && same < had && text[same] == old[same])
        same++;
    while (same && text[same - 1] != '\n')
        same--;
    while (end < size - same && end < had - same && text[size - 1 - end] == old[had - 1 - end])
        end++;
    while (end && (text[size - end] & 0xC0) == 0x80) /* inside of a character */
        end--;
    json_t *edits = json_array();
    if (size != had || same < had)
        json_array_append_new(edits,
                              json_pack("{s:o, s:o}", "range", range_json(d, same, had - end),
                                        "newText", json_stringn(text + same, size - same - end)));
    free(text);
    return edits;
}
