/* text_taps.c - the taps of a convolution as text. */
#include "ir/text.h"

void text_print_taps(const Module *m, const Taps *t, FILE *out)
{
    for (int i = 0; i < t->n; i++) {
        const Tap *x = &t->tap[i];
        fputs(i ? ", " : "=[", out);
        text_print_dim(m, x->dim, out);
        fputs(" at ", out);
        for (int k = 0; k < x->n; k++) {
            fprintf(out, "%d ", (int)x->by[k]);
            text_print_dim(m, x->over[k], out);
            fputs(", ", out);
        }
        fprintf(out, "%lld every %lld", (long long)x->at, (long long)x->every);
    }
    fputc(']', out);
}
