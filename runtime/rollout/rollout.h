/* rollout.h - steps that learn what the program generates: prompts, their answers, the rewards of a
 * command, and the inputs of a step that follow from them. */
#ifndef RT_ROLLOUT_H
#define RT_ROLLOUT_H

#include "runtime/run.h"

/* ---- prompt_set.c: --data of such a program -------------------------------------------------- */

typedef struct rt_prompt {
    int32_t *token;
    int64_t n;
    const char *record; /* its line of JSON; NULL: it is of a token file */
} rt_prompt;
typedef struct rt_prompt_set {
    rt_prompt *prompt;
    int64_t n;
    char **text; /* of the files of JSON, which the records are in */
    int files;
} rt_prompt_set;

/* Reads all prompts; ends the program with 65 if one is wrong, or longer than `most` tokens. */
void rt_prompt_set_open(rt_prompt_set *s, mg_run *r, int64_t most);
void rt_prompt_set_close(rt_prompt_set *s);
/* Prompt number `index` of the endless sequence, each epoch of it in another order. */
const rt_prompt *rt_prompt_set_at(const rt_prompt_set *s, uint64_t seed, int64_t index);

/* ---- answers.c: what a model answers --------------------------------------------------------- */

typedef struct rt_answer {
    const rt_prompt *prompt;
    int32_t *token; /* of the prompt, then of the answer */
    int64_t n;
    bool ended; /* by a --stop, which is a part of it, or as the tokenizer says */
} rt_answer;

/* Generates n answers, text k of them drawn as text k of a program that does nothing else, in the
 * first rollout; those of later ones by its number too. False: a signal stopped it. */
bool rt_answers(mg_run *r, int64_t rollout, rt_answer *a, int64_t n);
/* Tokens [from, n) of a text as UTF-8; NULL: this program does not know what they say. Freed by the
 * caller. */
char *rt_tokens_text(mg_run *r, const int32_t *token, int64_t from, int64_t n);

/* ---- reward.c: the command of --reward ------------------------------------------------------- */

typedef struct rt_reward rt_reward;
/* Starts it; ends the program if that fails. */
rt_reward *rt_reward_start(const mg_run *r);
/* Sends n lines and reads as many numbers; ends the program if they do not come. `first`: the
 * number of lines before these. False: a signal stopped it. */
bool rt_reward_ask(rt_reward *w, char *const *line, int64_t n, double *reward);
void rt_reward_end(rt_reward *w);

/* ---- rollout.c ------------------------------------------------------------------------------- */

typedef struct rt_rollout rt_rollout;
/* NULL: the program learns what its data has. */
rt_rollout *rt_rollout_open(mg_run *r);
void rt_rollout_close(rt_rollout *o);
int64_t rt_rollout_prompts(const rt_rollout *o); /* so many there are */
/* Before a step: generates if it is the first that learns these answers. False: a signal stopped
 * it, and nothing of the step happened. */
bool rt_rollout_next(mg_run *r);
void rt_rollout_put(mg_run *r); /* the inputs of the step */
/* May a checkpoint be here? Not between the updates that learn the same answers. */
bool rt_rollout_done(const mg_run *r);
/* The numbers of a step, as JSON (",\"reward\":...") or for people; freed by the caller. */
char *rt_rollout_text(const mg_run *r, bool json);
/* Calls `tell` with each of its numbers. */
void rt_rollout_each(const mg_run *r, void (*tell)(void *ctx, const char *name, double x),
                     void *ctx);

#endif
