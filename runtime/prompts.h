/* prompts.h - --prompts: texts that go on while a model trains. */
#ifndef MG_PROMPTS_H
#define MG_PROMPTS_H

#include "runtime/run.h"

/* NULL without; ends the program if the file or a prompt is none. */
typedef struct rt_prompts rt_prompts;
rt_prompts *rt_prompts_open(mg_run *r);
void rt_prompts_close(rt_prompts *p);
/* Goes on with all of them, and logs that. */
void rt_prompts_log(mg_run *r);

#endif
