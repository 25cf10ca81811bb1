/* perplexity.h - --perplexity: the loss of files, token by token. */
#ifndef MG_PERPLEXITY_H
#define MG_PERPLEXITY_H

#include "runtime/run.h"

/* NULL without; ends the program if files or program do not fit. */
typedef struct rt_scored rt_scored;
rt_scored *rt_scored_open(const mg_run *r);
void rt_scored_close(rt_scored *s);
/* Prints two lines for each file, and for all together. */
void rt_perplexity(mg_run *r);

#endif
