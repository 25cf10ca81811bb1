/* cuda_attention.c - the kernels of attention that a program calls, as instances of the templates
 * of kernels/cuda. */
#include "codegen/cuda/cuda.h"
#include "runtime/attend.h"

#include <string.h>

typedef struct Instances {
    Arena *arena;
    VEC(const char *) texts;
    FILE *out;
} Instances;

static void write_instance(Instances *all, const mg_attend *a)
{
    char text[MG_ATTEND_NAME];
    mg_attend_instance(a, text);
    for (size_t i = 0; i < all->texts.n; i++)
        if (strcmp(all->texts.data[i], text) == 0)
            return;
    vec_push(all->arena, &all->texts, arena_strdup(all->arena, text));
    fprintf(all->out, "%s\n", text);
}

/* The kernels of a pass on any GPU; of halves also those for rows that begin anywhere, because not
 * all addresses are known here. */
static void write_pass(Instances *all, const Train *t, const mg_attention_desc *d,
                       mg_attend_pass pass, bool some)
{
    for (int sm90 = 0; sm90 < 2; sm90++)
        for (int even = 0; even < 2; even++) {
            const mg_attend a = mg_attend_of(d, pass, some, t->tf32, sm90, even);
            write_instance(all, &a);
        }
}

static void write_of_program(Instances *all, const Train *t, const Program *p)
{
    for (size_t i = 0; p && i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        if (a->kind == ACT_attention)
            write_pass(all, t, &a->attention, MG_ATTEND_FORWARD, a->noperands > 5);
        if (a->kind == ACT_attention_bias_grad)
            write_pass(all, t, &a->attention, MG_ATTEND_DBIAS, false);
        if (a->kind != ACT_attention_grad)
            continue;
        const bool some = a->noperands > 9 && a->operand[9].value;
        write_pass(all, t, &a->attention, MG_ATTEND_DQ, some);
        write_pass(all, t, &a->attention, MG_ATTEND_DKV, some);
    }
}

void cuda_attention_kernels(const Plan *p, FILE *out)
{
    Arena *a = arena_new();
    Instances all = {.arena = a, .out = out};
    write_of_program(&all, &p->module->train, p->train);
    write_of_program(&all, &p->module->train, p->eval);
    write_of_program(&all, &p->module->train, p->sample);
    arena_free(a);
}
