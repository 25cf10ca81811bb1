/* speech.h - text in and out of a model that has a tokenizer.
 *
 * A program that generates has the address of mg_speech, and so links runtime/speech/ and text/; to
 * others it is NULL, and they link neither. rt_speech_of is how the runtime asks for it. */
#ifndef MG_SPEECH_H
#define MG_SPEECH_H

#include "runtime/run.h"

typedef struct rt_speech rt_speech; /* a tokenizer, its template, the ids that end a text */
typedef struct rt_talk rt_talk;     /* a conversation */
typedef struct rt_stream rt_stream; /* ids on their way to text */

struct mg_speech {
    /* The tokenizer of --tokenizer, --init or an adapter's base. NULL: there is none. Ends the
     * program if it is damaged, or larger than the model's vocabulary. */
    rt_speech *(*open)(const mg_run *r);
    void (*close)(rt_speech *s);

    /* The ids of a text (the caller frees them); `begins`: behind those that begin a text. */
    int32_t *(*encode)(rt_speech *s, const char *text, bool begins, int64_t *n);
    bool (*ends)(const rt_speech *s, int32_t id);

    /* Each gives the text that is certain now, of *n bytes, whole characters: until the next call.
     */
    rt_stream *(*stream)(const rt_speech *s);
    const char *(*put)(rt_stream *t, int32_t id, size_t *n);
    const char *(*end)(rt_stream *t, size_t *n);
    void (*drop)(rt_stream *t);

    /* Conversations, by the chat template: `talks` says whether there is one. */
    bool (*talks)(rt_speech *s);
    rt_talk *(*talk)(rt_speech *s, const char *system); /* NULL: without */
    void (*say)(rt_talk *t, const char *role, const char *text, size_t n);
    /* All of it as ids, with the beginning of an answer (the caller frees them). */
    int32_t *(*turn)(rt_talk *t, int64_t *n);
    void (*forget)(rt_talk *t);
    /* A line of --batch as ids; NULL: it is none, and *why (the caller frees it) says why. */
    int32_t *(*question)(rt_speech *s, const char *line, size_t size, int64_t *n, char **why);
};

/* said.c: NULL where tokens are bytes or ids. Opened once. */
rt_speech *rt_speech_of(mg_run *r);
void rt_speech_close(mg_run *r);

#endif
