/* none.c - in place of the folder, in a library that was built where jansson, PCRE2 and utf8proc
 * are not: tokens are bytes or ids, and what asks for text is refused. */
#include "runtime/speech.h"

static rt_speech *open_speech(const mg_run *r)
{
    const rt_options *o = r->options;
    if (o->tokenizer || o->chat_template || o->system || o->batch)
        rt_die(RT_USAGE,
               "this program has no tokenizers: mgc's runtime for its processor was built "
               "without jansson, PCRE2 and utf8proc; prompts are bytes or token ids");
    return NULL;
}

const struct mg_speech mg_speech = {.open = open_speech};
