/* tok_chat.h - conversations: from a record to messages, to text by the tokenizer's template, to
 * the parts of it that are learnt. */
#ifndef MGC_TOK_CHAT_H
#define MGC_TOK_CHAT_H

#include "compiler/tok/tok.h"

typedef enum ChatFormat {
    CHAT_none,
    CHAT_text,
    CHAT_alpaca,
    CHAT_sharegpt,
    CHAT_messages
} ChatFormat;
typedef enum ChatKind {
    CHAT_plain,
    CHAT_pairs,   /* a chosen answer and a rejected one */
    CHAT_labelled /* an answer that is good or bad */
} ChatKind;
typedef enum TrainOn { TRAIN_assistant, TRAIN_last, TRAIN_all } TrainOn;

/* tok_record.c: what a record holds, with messages as OpenAI writes them. */
typedef struct Talk {
    json_t *messages; /* owned */
    size_t answer;    /* messages before it are the prompt of a pair or a label: not learnt */
} Talk;
typedef struct Record {
    Talk talk[2];  /* two of pairs: chosen and rejected */
    json_t *tools; /* owned, or NULL */
    ChatKind kind;
    bool label;
    char why[240];
} Record;
ChatFormat tok_format_of(const json_t *record); /* CHAT_none: by its keys none */
ChatKind tok_kind_of(const json_t *record);
const char *tok_format_name(ChatFormat f);
/* False: see why. In both cases tok_record_free. */
bool tok_record_read(Record *r, const json_t *from, ChatFormat format, bool parsed_arguments);
void tok_record_free(Record *r);

/* tok_mask.c */
typedef struct Masked {
    JinText text;
    VEC(JinPart) part;         /* what is learnt, in order */
    int turns;                 /* answers */
    const JinTemplate *failed; /* with `e`: the template that failed */
    JinError e;
    char why[240];
} Masked;
/* Renders a conversation and finds the answers in it. False: see why. */
bool tok_mask(Masked *m, Arena *a, const Tokenizer *t, const ChatTemplate *c, const Record *r,
              const Talk *talk, TrainOn on);

#endif
