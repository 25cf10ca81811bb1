/* tok.h - mgc tok, and tokenizers as the driver reads them. */
#ifndef MGC_TOK_H
#define MGC_TOK_H

#include "compiler/session.h"
#include "text/chat.h"
#include "text/tok.h"

/* tok_files.c: the tokenizer, or the chat template of --tokenizer's; NULL after telling why not. */
Tokenizer *tok_read(Session *s, const char *path);
ChatTemplate *tok_template(Session *s);
/* A place in a template that was read. */
Span tok_span(Session *s, const ChatSource *from, size_t begin, size_t end);

/* tok_run.c */
Exit command_tok(Session *s);

#endif
