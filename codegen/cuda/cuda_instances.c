/* cuda_instances.c - the kernels of attention and of convolutions that a program calls, as
 * instances of the templates of kernels/cuda. */
#include "codegen/cuda/cuda.h"
#include "runtime/attend.h"
#include "runtime/grouped.h"

#include <string.h>

typedef struct Instances {
    Arena *arena;
    VEC(const char *) texts;
    FILE *out;
} Instances;

static void write_instance(Instances *all, const char *text)
{
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
            mg_attend a = mg_attend_of(d, pass, some, t->tf32, sm90, even);
            char text[MG_ATTEND_NAME];
            mg_attend_instance(&a, text);
            write_instance(all, text);
            a.few =
                mg_attend_has_few(&a); /* which of the two, the multiprocessors of the GPU say */
            mg_attend_instance(&a, text);
            write_instance(all, text);
        }
}

/* The kernels of all parts of a convolution, for operands that begin at multiples of 16 bytes and
 * for others. */
static void write_conv(Instances *all, const Train *t, const mg_conv_desc *d)
{
    const char *numbers = mg_conv_numbers(d->dtype, t->tf32);
    mg_conv_parts parts = mg_conv_cut(d, 0, 0, 0);
    mg_conv_part part;
    char text[MG_CONV_NAME];
    while (mg_conv_next(&parts, &part))
        for (int even = 0; even < 4; even++) {
            const mg_conv_way way = mg_conv_way_of(&part.d, even & 1, even & 2);
            if (mg_conv_idle(&part.d, &way))
                continue;
            mg_conv_instance(&way, numbers, text);
            write_instance(all, text);
            snprintf(text, sizeof text, "MG_CONV_SUM(%s)", numbers);
            if (way.splits > 1)
                write_instance(all, text);
        }
}

static void write_grouped(Instances *all, const Train *t, const mg_grouped_desc *d, bool weight)
{
    char text[MG_CONV_NAME];
    for (int even = 0; even < 4; even++) {
        const mg_conv_way way = mg_grouped_way(d, weight, even & 1, even & 2);
        mg_grouped_instance(&way, weight, mg_conv_numbers(d->dtype, t->tf32), text);
        write_instance(all, text);
    }
}

static void write_of_program(Instances *all, const Train *t, const Program *p)
{
    for (size_t i = 0; p && i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        if (a->kind == ACT_conv)
            write_conv(all, t, &a->conv);
        if (a->kind == ACT_grouped || a->kind == ACT_grouped_weight)
            write_grouped(all, t, &a->grouped, a->kind == ACT_grouped_weight);
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

void cuda_instances(const Plan *p, FILE *out)
{
    Arena *a = arena_new();
    Instances all = {.arena = a, .out = out};
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        write_of_program(&all, &p->module->train, p->programs[k]);
    arena_free(a);
}
