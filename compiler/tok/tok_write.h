/* tok_write.h - the files that tokens go to, and how far they are written. */
#ifndef MGC_TOK_WRITE_H
#define MGC_TOK_WRITE_H

#include "compiler/tok/tok_run.h"

/* A corpus: OUT, or one of a pair's two. */
typedef struct Sink {
    const char *out;
    const char *bin_part, *lengths_part, *weights_part;
    FILE *bin, *lengths, *weights; /* weights: NULL where all tokens weigh the same */
    int64_t tokens;                /* written */
} Sink;

typedef struct Progress {
    int64_t file, offset, number; /* read up to here; the number of the last record */
    int64_t documents;            /* written */
    int64_t tokens[2];
    int64_t turns, learnt, cut, dropped;
    int64_t time; /* of the beginning: what templates call now */
} Progress;

typedef struct TokOutput {
    Sink sink[2];
    int sinks;
    FILE *labels; /* or NULL */
    const char *labels_part, *progress_part, *out;
    int64_t most; /* tokens of a document; 0: any number */
    int width;    /* bytes of a token */
    bool named;   /* weights are for inputs by name: a token file with an index */
    uint64_t key; /* of the command: what is gone on with has to be the same */
    Progress done;
} TokOutput;

Exit tok_failed(Session *s, const char *path, const char *why);
/* Opens what an earlier run of the same command left, and says so; else begins. */
Exit tok_output_begin(Session *s, TokOutput *w, const TokPlan *p, const char *out, uint64_t key);
Exit tok_output_document(Session *s, TokOutput *w, const Document *d, const TokHand *h);
Exit tok_output_save(Session *s, TokOutput *w); /* all of it on the disk, and how far it is */
Exit tok_output_finish(Session *s, TokOutput *w);
bool tok_output_shut(TokOutput *w);
void tok_output_drop(const TokOutput *w); /* once shut, where there is nothing to go on with */
/* tok_other.c: the parts of OUT.other, of those of OUT. */
Exit tok_other(Session *s, const TokOutput *w, Sink *to);

#endif
