/* The tables of actions and collectives: each kind has a row, and what people are told a kind is
 * called is the row's name, in the schedule as in the emitted program. */
#include "codegen/emit/emit_c.h"
#include "ir/collective.h"
#include "plan/show.h"
#include "runtime/sizes.h"
#include "tests/plan/planned.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void kinds_have_rows(void **state)
{
    (void)state;
    for (int k = 0; k < ACT_count; k++) {
        const ActionInfo *a = &action_info[k];
        assert_non_null(a->name);
        assert_true(a->name[0] &&
                    strspn(a->name, "abcdefghijklmnopqrstuvwxyz_") == strlen(a->name));
        assert_int_equal(kind_is_mark((ActionKind)k),
                         k == ACT_loop || k == ACT_end || k == ACT_phase);
        assert_true(!a->function || strncmp(a->function, "mg_", 3) == 0);
        assert_true(!a->descriptor || a->function);
        for (int i = 0; i < k; i++)
            assert_string_not_equal(a->name, action_info[i].name);
    }
}

/* Those that the runtime looks for by name: runtime/log/surprise.c leaves them out, bench/
 * counts products. */
static void names_the_runtime_knows(void **state)
{
    (void)state;
    assert_string_equal(action_info[ACT_comm].name, "communication");
    assert_string_equal(action_info[ACT_receive].name, "receive");
    assert_string_equal(action_info[ACT_send].name, "send");
    assert_string_equal(action_info[ACT_guard].name, "guard");
    assert_string_equal(action_info[ACT_gemm].name, "product");
}

/* The abi's name of a kind is the op's in capitals, so no row has another's; and to and fro. */
static void collectives_have_rows(void **state)
{
    (void)state;
    int n = 0;
    for (int op = 0; op < OP_count; op++) {
        const Collective *c = collective_of((Op)op);
        assert_int_equal(c != NULL, op_is((Op)op, COMM));
        if (!c)
            continue;
        char abi[64] = "MG_";
        for (size_t i = 0; i <= strlen(op_info[op].name); i++)
            abi[3 + i] = (char)toupper((unsigned char)op_info[op].name[i]);
        assert_string_equal(c->abi, abi);
        assert_ptr_equal(collective_of_kind(c->kind), c);
        assert_int_equal(c->op, op);
        const int does = mg_comm_does(c->kind);
        assert_int_equal(c->sends == SEND_nothing, does == MG_CUTS);
        assert_int_equal(op_is((Op)op, SUMS), (does & MG_SUMS) != 0);
        n++;
    }
#define MG_KIND(number, kind, does) n--;
    MG_COLLECTIVES(MG_KIND)
#undef MG_KIND
    assert_int_equal(n, 0);
}

/* The bytes that a row says a rank sends equal its formula, of the whole tensor. */
static void formulas_are_bytes(void **state)
{
    (void)state;
    const double n = 4, x = 1024;
    for (int op = 0; op < OP_count; op++) {
        const Collective *c = collective_of((Op)op);
        if (!c)
            continue;
        /* a rank has all of the tensor, or one part of n */
        double whole = op == OP_all_gather || strcmp(c->formula, "B / n") == 0 ? n * x : x;
        double says = strcmp(c->formula, "2 (n - 1) / n B") == 0 ? 2 * (n - 1) / n * whole
                      : strcmp(c->formula, "(n - 1) / n B") == 0 ? (n - 1) / n * whole
                      : strcmp(c->formula, "B / n") == 0         ? whole / n
                                                                 : 0;
        assert_true(collective_bytes(c->kind, x, n) == says);
        assert_int_equal(collective_steps(c->kind, n) > 0, says > 0);
    }
}

typedef struct Text {
    char *at;
    size_t size;
} Text;

static void write_text(Text *t, const Plan *p, void write(const Plan *, FILE *))
{
    FILE *out = open_memstream(&t->at, &t->size);
    write(p, out);
    fclose(out);
}

static void emitted(const Plan *p, FILE *out)
{
    codegen_emit_c(p, "", false, out);
}

/* The kind of action `id` in the emitted table: [id] = ACTION("name", "kind", ...); that of a
 * KERNEL is in its macro. */
static void emitted_kind(const char *program, uint32_t id, char *kind, size_t room)
{
    char entry[32];
    snprintf(entry, sizeof entry, "[%u] = ", id);
    const char *at = strstr(strstr(program, "mg_action actions[] = {"), entry);
    assert_non_null(at);
    at += strlen(entry);
    const char *before = "\", ";
    if (!strncmp(at, "KERNEL(", 7)) {
        at = strstr(program, "#define KERNEL(");
        before = "WRITES(";
    }
    at = strstr(at, before);
    assert_non_null(at);
    at = strchr(at + strlen(before), '"');
    assert_non_null(at);
    size_t n = strcspn(++at, "\"");
    assert_true(n < room);
    memcpy(kind, at, n);
    kind[n] = 0;
}

/* Of the line of the schedule that an action has: "  12 s0 product   name ...". */
static void scheduled_kind(const char *schedule, uint32_t id, char *kind)
{
    for (const char *line = schedule; line && *line; line = strchr(line, '\n') + 1) {
        unsigned number, stream;
        if (sscanf(line, " %u s%u %63s", &number, &stream, kind) == 3 && number == id)
            return;
        if (!strchr(line, '\n'))
            break;
    }
    fail_msg("action %u is not in the schedule", id);
}

static int names_of(const Plan *p, const Program *g, const char *schedule, const char *program,
                    bool *seen)
{
    int n = 0;
    for (size_t i = 0; g && i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        char kind[64];
        if (action_is_mark(a))
            continue;
        assert_true(a->id < p->nactions);
        scheduled_kind(schedule, a->id, kind);
        assert_string_equal(kind, action_info[a->kind].name);
        emitted_kind(program, a->id, kind, sizeof kind);
        assert_string_equal(kind, action_info[a->kind].name);
        seen[a->kind] = true;
        n++;
    }
    return n;
}

static void names_are_the_rows(void **state)
{
    (void)state;
    bool seen[ACT_count] = {false};
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        open_model(&t, &small_models[k], DT_f64);
        lower_physical(&t);
        const Plan *p = plan_for(&t, &test_device);
        Text schedule, program;
        write_text(&schedule, p, plan_print_schedule);
        write_text(&program, p, emitted);
        int n = names_of(p, p->train, schedule.at, program.at, seen) +
                names_of(p, p->eval, schedule.at, program.at, seen) +
                names_of(p, p->sample, schedule.at, program.at, seen);
        assert_int_equal(n, p->nactions);
        free(schedule.at);
        free(program.at);
        model_close(&t);
    }
    const ActionKind all[] = {ACT_kernel,         ACT_gemm,           ACT_attention,
                              ACT_attention_grad, ACT_gather,         ACT_head,
                              ACT_head_loss,      ACT_scatter_add,    ACT_top,
                              ACT_slots,          ACT_dispatch,       ACT_combine,
                              ACT_guard,          ACT_combine_weight, ACT_ends,
                              ACT_grouped,        ACT_grouped_weight};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!seen[all[i]])
            fail_msg("no model has an action of the kind '%s'", action_info[all[i]].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_have_rows), cmocka_unit_test(names_the_runtime_knows),
        cmocka_unit_test(collectives_have_rows), cmocka_unit_test(formulas_are_bytes),
        cmocka_unit_test(names_are_the_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
