/* tok_run.h - what a run of mgc tok is told, and the documents on their way through it. */
#ifndef MGC_TOK_RUN_H
#define MGC_TOK_RUN_H

#include "compiler/tok/tok_chat.h"

/* The treatment of each document; made once, then only read. */
typedef struct TokPlan {
    const Options *o;
    Tokenizer *t;
    ChatFormat format;
    ChatKind kind;
    ChatTemplate *chat; /* NULL of texts */
    TrainOn on;
    int64_t most; /* tokens of a document, or 0 */
    bool drop;    /* longer ones, instead of cutting them */
    bool weighted;
    int32_t eod; /* after each document, or -1 */
} TokPlan;

/* The tools of a thread. */
typedef struct TokHand {
    TokWorker *w;
    bool weighted;
    uint8_t *weight; /* malloc'ed, where tokens are weighted: of each id of w */
    size_t cap;
} TokHand;

/* A record before, and its tokens after; two parts of a pair. */
typedef struct Document {
    char *text; /* malloc'ed */
    size_t size;
    int64_t number; /* of the line or record; 0: the text is the whole file */
    int worker;
    int parts; /* 0: dropped */
    struct {
        size_t begin, n, learnt;
    } part[2]; /* in the ids of its worker */
    int turns;
    bool label, cut;
    char *wrong; /* malloc'ed: what is wrong with it */
    const JinTemplate *failed;
    JinError e;
} Document;

/* tok_encode.c */
void tok_document(const TokPlan *p, TokHand *h, Document *d);

/* tok_plan.c: reads the options, and the first record where they do not say what records are. */
Exit tok_plan_make(Session *s, TokPlan *p);
bool tok_options(const Options *o); /* whether any of mgc tok's is given */

#endif
