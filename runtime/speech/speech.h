/* speech.h - private to this folder: a tokenizer with what lies beside it. */
#ifndef MG_SPEECH_PARTS_H
#define MG_SPEECH_PARTS_H

#include "runtime/speech.h"
#include "base/arena.h"
#include "text/chat.h"
#include "text/tok.h"

struct rt_speech {
    const mg_run *r;
    Arena *a;
    const char *path; /* of tokenizer.json */
    Tokenizer *t;
    TokWorker *w;
    ChatTemplate *chat; /* NULL: none, */
    bool looked;        /* and before it was looked for */
    VEC(int32_t) end;   /* ids that end a text */
};

/* The bytes of a file, with a 0 behind them, in the arena `ctx`; ends the program where it cannot
 * be read. */
const char *rt_speech_file(void *ctx, const char *path, size_t *n);
/* Ends the program, with what is wrong. */
_Noreturn void rt_speech_wrong(const TextError *e);

/* ends.c: fills in s->end from the folder of the tokenizer, and that of the weights. */
void rt_speech_ends(rt_speech *s);

/* talk.c: the last part of mg_speech. */
bool rt_speech_talks(rt_speech *s);
rt_talk *rt_talk_new(rt_speech *s, const char *system);
void rt_talk_say(rt_talk *t, const char *role, const char *text, size_t n);
int32_t *rt_talk_turn(rt_talk *t, int64_t *n);
void rt_talk_free(rt_talk *t);
int32_t *rt_talk_question(rt_speech *s, const char *line, size_t size, int64_t *n, char **why);
/* Of the text, without the ids that begin one, or with them. */
int32_t *rt_speech_encode(rt_speech *s, const char *text, size_t size, bool begins, int64_t *n);

#endif
