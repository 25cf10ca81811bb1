/* sample.h - texts that are generated: private to sample.c, texts.c, choose.c and shown.c. */
#ifndef MG_SAMPLE_H
#define MG_SAMPLE_H

#include "runtime/run.h"

/* ---- texts.c: what a model says of the next token ------------------------------------------- */

typedef struct rt_text {
    int32_t *token; /* of the prompt, then those that were chosen */
    int64_t n, cap;
    int64_t from;     /* the program sees tokens from this one on */
    int64_t known;    /* tokens from there that its caches have */
    int64_t computed; /* tokens that were, so far */
    double *logit;    /* of the next token: [vocab] */
    bool done;        /* no next token is asked for */
} rt_text;

/* As many texts as a program goes on at once. */
int rt_texts_most(const mg_program *p);
/* So many of them, one after another, answer one prompt of a person or a file. */
int rt_texts_each(const mg_program *p);
/* Sets logit of each of the n texts that is not done. Text k is sequence k of the program. */
void rt_texts_next(mg_run *r, rt_text *t, int n);
void rt_text_push(rt_text *t, int32_t token);
/* Other tokens from now on; the caches keep as many of the first ones as are the same, where the
 * program can cut them back to these, and else all or nothing. */
void rt_text_become(rt_text *t, const mg_program *p, const int32_t *token, int64_t n);
void rt_text_free(rt_text *t);

/* ---- sample.c: of --prompts ------------------------------------------------------------------
 */

/* Adds the tokens of a text (by a tokenizer, if there is one; where the vocabulary is 256 bytes are
 * tokens), or of a list of ids, that `option` gives; ends the program if they are none. */
void rt_read_tokens(rt_text *t, mg_run *r, const char *text, const char *option);
/* A number from [0, 1) for token i of a text; `rollout`: 0, but in later rollouts of a run. */
double rt_token_draw(int64_t seed, int64_t text, int64_t i, int64_t rollout);

/* Ends the program if it is no prompt. */
void rt_prompt_check(mg_run *r, const char *prompt);
/* At most `tokens` more of a prompt, as text number `number` draws them (the caller frees it). */
char *rt_sample_text(mg_run *r, const char *prompt, int number, int64_t tokens);

/* ---- choose.c: which token is next ---------------------------------------------------------- */

typedef struct rt_choice {
    double temperature; /* 0: the likeliest */
    int64_t top_k;      /* of the k likeliest; 0: of all */
    double top_p;       /* of the likeliest that have this probability together; 1: of all */
    double min_p;       /* of those with this share of the likeliest's probability; 0: of all */
    double penalty; /* logits of tokens that were there are made smaller by it; 1: they are not */
} rt_choice;

rt_choice rt_choice_of(const rt_options *o); /* sample.c */
/* generation_config.c: the options of a program that generates, and beneath them what the file of
 * that name beside --init says, which is told. */
rt_choice rt_choice_of_model(mg_run *r);
/* u: a number from [0, 1). z[n] may be changed. */
int32_t rt_choose(const rt_choice *c, double *z, int64_t n, const rt_text *t, double u);

/* ---- shown.c: bytes that are safe for a terminal ----------------------------------------------
 */

typedef struct rt_screen { /* bytes of an incomplete character */
    unsigned char byte[4];
    int n, want;
} rt_screen;
void rt_screen_byte(rt_screen *s, unsigned char c);
void rt_screen_flush(rt_screen *s);

/* ---- said.c: text of a model that has a tokenizer --------------------------------------------
 */

typedef enum rt_why { RT_SAID_MORE, RT_SAID_END, RT_SAID_STOP } rt_why;
typedef struct rt_said {
    mg_run *r;
    struct rt_stream *stream;
    char *text; /* of the answer, so far, without the stop that ends it; may be NULL */
    size_t n, cap;
    size_t sure, shown; /* bytes of it that no stop can take away; that were shown */
    rt_why why;         /* it ends: MORE while it does not */
} rt_said;

/* A new text; `behind`: the tokens that it goes on with, or NULL. */
void rt_said_begin(rt_said *t, mg_run *r, const rt_text *behind);
void rt_said_free(rt_said *t);
/* False: the text ends with this token. */
bool rt_said_token(rt_said *t, int32_t token);
/* No token follows: nothing is held back any more. */
void rt_said_end(rt_said *t);
void rt_said_show(rt_said *t, rt_screen *screen);

/* ---- sample.c and batch.c: --batch ----------------------------------------------------------- */

/* A place for one text at a time. */
typedef struct rt_output {
    rt_text text;
    int64_t prompt, shown; /* tokens of the prompt; those that were shown, with it */
    int64_t number;        /* of the text, for its draws */
    int64_t drawn;         /* so many tokens were chosen so far */
    rt_said said;          /* with a tokenizer */
    rt_screen screen;
    bool begun;
} rt_output;
typedef struct rt_sampler rt_sampler;
rt_sampler *rt_sampler_new(mg_run *r);
void rt_sampler_free(rt_sampler *s);
/* Adds a token to each of n texts that is not done. */
void rt_sampler_grow(rt_sampler *s, rt_output *o, int n);
int64_t rt_answer_most(mg_run *r); /* tokens of an answer */
void rt_batch_answer(mg_run *r);

#endif
