/* stats.c - see stats.h. */
#include "tests/programs/stats.h"

#include "ir/ir.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Empty: an op that the language has no function for. */
static const char *const words[] = {
#define PRIMITIVE(name, operands, takes, flags, ...) (flags) & FUNCTION ? #name "(" : "",
#define COMPOSED                                     PRIMITIVE
#include "ir/ops.def"
#define BUILTIN(name, ...) #name "(",
#include "grammar/builtin.def"
    "relu(",
    "silu(",
    "gelu(",
    "gelu_tanh(",
    "softmax(",
    "rmsnorm(",
    "layernorm(",
    "rope(",
    "rope_llama3(",
    "attention(",
    "fused",
    "cross_entropy(",
    "scores_of(",
    "imbalance(",
    "in_top(",
    "document_start(",
    "# each position sees",
    "@",
    "->",
    "dim ",
    "const ",
    "block ",
    ": block ",
    "train loss_",
    "repeat ",
    " at n",
    "scan ",
    "metric ",
    "param[",
    "return ",
    "along ",
    "over ",
    "causal",
    "scale =",
    ": token(",
    "weight[",
    "normal(over",
    "~ normal(",
    "~ uniform(",
    "tokens[",
    "next(",
    "last(next",
    "as \"",
    ".{}.weight",
    "[(",
    "adamw",
    "adam(",
    "sgd",
    "lion",
    "adafactor",
    "muon",
    "constant(",
    "linear(",
    "cosine(",
    "wsd(",
    "inverse_sqrt(",
    "warmup(",
    "warmup_cosine(",
    "clip ",
    "as_ready",
    "together",
    "f32",
    "f64",
    "tf32",
    "bf16",
    "f16",
    "fp8",
    "scales = tile",
    "scales = mx",
    "reduce = tree",
    "master =",
    "decay ",
    "rate ",
    "frozen ",
    "adapter ",
    "lora(",
    "dora(",
    "base = nf4",
    "base = int8",
    "average ",
    " follows ",
    "rank ",
    "config ",
    "device cpu\n",
    "device cpus",
    "device h100",
    "mesh ",
    "dp = 2",
    "cp = 2",
    "tp = 2",
    "ep = 2",
    "pp = 2",
    "pp = 4",
    "batch -> ",
    "seq -> ",
    "zigzag",
    "(ring)",
    "(heads)",
    "state -> ",
    "state, grads ->",
    "state, grads, params ->",
    "schedule = gpipe",
    "schedule = 1f1b",
    "schedule = interleaved",
    "schedule = zb-h1",
    "group = 2",
    "stages = [",
    "microbatch ",
    "recompute none",
    "recompute all",
    "recompute auto",
    "recompute keep",
    "pad ",
    "assert ",
    ": default",
    NULL};
_Static_assert(sizeof words / sizeof *words <= WORDS + 1, "a word has no counter");

static void count_words(Stats *s, const char *text, const Tried *t)
{
    for (int i = 0; words[i]; i++) {
        const char *at = *words[i] ? text : NULL;
        while (at && (at = strstr(at, words[i])) && at > text &&
               isalnum((unsigned char)words[i][0]) &&
               (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            at++;
        s->said[i] += at != NULL;
        s->accepted[i] += at && t->outcome == TRY_accepted;
        s->planned[i] += at && t->compared & COMPARED_plan;
    }
}

void stats_add(Stats *s, const char *text, bool changed, const Tried *t)
{
    s->outcome[changed][t->outcome]++;
    if (t->code < CODES && t->outcome != TRY_accepted)
        s->code[changed][t->code]++;
    s->loss += (t->compared & COMPARED_loss) != 0;
    s->gradients += (t->compared & COMPARED_gradients) != 0;
    s->plan += (t->compared & COMPARED_plan) != 0;
    s->padded += (t->compared & COMPARED_padding) != 0;
    s->generated += (t->compared & COMPARED_generated) != 0;
    s->apart += (t->compared & COMPARED_ranks) != 0;
    s->not_finite += (t->compared & NOT_FINITE) != 0;
    s->ranks += t->ranks > 1 && t->compared & COMPARED_plan;
    count_words(s, text, t);
}

void stats_table(const Stats *s)
{
    printf("%-26s %9s %9s %9s\n", "", "programs", "accepted", "compared");
    for (int i = 0; words[i]; i++)
        if (*words[i])
            printf("%-26.*s %9d %9d %9d\n", (int)strcspn(words[i], "\n"), words[i], s->said[i],
                   s->accepted[i], s->planned[i]);
    printf("\n%-26s %9s %9s\n", "first error", "drawn", "changed");
    for (int i = 0; i < CODES; i++)
        if (s->code[0][i] + s->code[1][i])
            printf("MG%04d %29d %9d\n", i, s->code[0][i], s->code[1][i]);
    printf("\n");
}

void stats_summary(const Stats *s)
{
    for (int i = 0; i < TRY_count; i++)
        if (s->outcome[0][i] + s->outcome[1][i])
            printf("%-18s %6d drawn %6d changed\n", outcome_names[i], s->outcome[0][i],
                   s->outcome[1][i]);
    printf("compared: loss of %d, gradients of %d, plan of %d (%d of them of several ranks); %d "
           "with and without padding; what %d generate (%d of them over several ranks); %d not "
           "finite\n",
           s->loss, s->gradients, s->plan, s->ranks, s->padded, s->generated, s->apart,
           s->not_finite);
}

/* Is n of `count` fewer than chance makes of a share, by four standard deviations? */
static bool is_too_few(int n, double share, int count)
{
    return n < share * count - 4 * sqrt(share * (1 - share) * count);
}

/* The shares are somewhat below what is drawn: 28% accepted, 29% planned, 9% on several
 * ranks, 2% generate. */
bool stats_show_something(const Stats *s, int count)
{
    return !is_too_few(s->outcome[0][TRY_accepted], 0.25, count) &&
           !is_too_few(s->plan, 0.26, count) && !is_too_few(s->gradients, 0.26, count) &&
           !is_too_few(s->ranks, 0.08, count) && !is_too_few(s->generated, 0.018, count);
}
