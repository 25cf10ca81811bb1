/* Programs over a mesh of two times two ranks: what each collective gives to whom, how results lie,
 * and what is no program. Ranks: (dp 0, tp 0), (0, 1), (1, 0), (1, 1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ir/program.h"

enum { RANKS = 4 };

static char *on_a_mesh(World *w, const char *const *args, const char *body)
{
    size_t head = strlen(program_head);
    char *text = program_text(w->a, args, body, 1);
    return arena_printf(w->a, "%.*saxis dp 2\naxis tp 2\n%s", (int)head, text, text + head);
}

/* ---- what ranks get -------------------------------------------------------------------------- */

typedef struct Case {
    const char *arg, *body;
    const char *data[RANKS], *want[RANKS];
} Case;

static const Case cases[] = {
    {"a: f64[i=2]{partial: tp}",
     "%r: f64[i=2] = all_reduce %a {axes=tp, max=no}\ngive %r",
     {"1 2", "10 20", "3 4", "30 40"},
     {"11 22", "11 22", "33 44", "33 44"}},
    {"a: f64[i=2]{partial: dp.tp}",
     "%r: f64[i=2] = all_reduce %a {axes=dp.tp, max=no}\ngive %r",
     {"1 2", "10 20", "3 4", "30 40"},
     {"44 66", "44 66", "44 66", "44 66"}},
    {"a: f64[i=2]{max: dp}",
     "%r: f64[i=2] = all_reduce %a {axes=dp, max=no}\ngive %r",
     {"1 9", "-5 0", "3 4", "-6 1"},
     {"3 9", "-5 1", "3 9", "-5 1"}},
    {"a: f64[i=2, j=2]{partial: tp}",
     "%r: f64[i=2, j=1@tp] = reduce_scatter %a {dim=j=2, axes=tp}\ngive %r",
     {"1 2 3 4", "10 20 30 40", "5 6 7 8", "50 60 70 80"},
     {"11 33", "22 44", "55 77", "66 88"}},
    {"a: f64[i=2, j=1@tp]",
     "%r: f64[i=2, j=2] = all_gather %a {dim=j=1@tp, axes=tp}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 3 2 4", "1 3 2 4", "5 7 6 8", "5 7 6 8"}},
    {"a: f64[i=1@dp.tp]",
     "%r: f64[i=2@dp] = all_gather %a {dim=i=1@dp.tp, axes=tp}\ngive %r",
     {"1", "2", "3", "4"},
     {"1 2", "1 2", "3 4", "3 4"}},
    {"a: f64[i=1@dp.tp]",
     "%r: f64[i=4] = all_gather %a {dim=i=1@dp.tp, axes=dp.tp}\ngive %r",
     {"1", "2", "3", "4"},
     {"1 2 3 4", "1 2 3 4", "1 2 3 4", "1 2 3 4"}},
    {"a: f64[i=2, j=1@tp]",
     "%r: f64[i=1@tp, j=2] = all_to_all %a {dim=j=1@tp, to=i=2, axes=tp}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 3", "2 4", "5 7", "6 8"}},
    {"a: f64[i=4]",
     "%r: f64[i=1@dp.tp] = shard %a {dim=i=4, axes=dp.tp}\ngive %r",
     {"1 2 3 4", "1 2 3 4", "1 2 3 4", "1 2 3 4"},
     {"1", "2", "3", "4"}},
    /* a dim in two, of which each rank has parts of the outer one, and back */
    {"a: f64[i=4@tp]",
     "%s: f64[o=2@tp, i=2] = split %a {dim=i=2, to=o=2@tp}\n"
     "%t: f64[o=4, i=2] = all_gather %s {dim=o=2@tp, axes=tp}\n"
     "%r: f64[i=8] = merge %t {dim=i=2, to=o=4}\ngive %r",
     {"1 2 3 4", "5 6 7 8", "10 20 30 40", "50 60 70 80"},
     {"1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "10 20 30 40 50 60 70 80", "10 20 30 40 50 60 70 80"}},
    /* in zigzag order: of 2n parts rank r has r and 2n - 1 - r */
    {"a: f64[i=4]",
     "%r: f64[i=2@tp~] = shard %a {dim=i=4, axes=tp, zigzag}\ngive %r",
     {"1 2 3 4", "1 2 3 4", "5 6 7 8", "5 6 7 8"},
     {"1 4", "2 3", "5 8", "6 7"}},
    {"a: f64[i=2@tp~]",
     "%r: f64[i=4] = all_gather %a {dim=i=2@tp~, axes=tp, zigzag}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 3 4 2", "1 3 4 2", "5 7 8 6", "5 7 8 6"}},
    {"a: f64[i=4]{partial: tp}",
     "%r: f64[i=2@tp~] = reduce_scatter %a {dim=i=4, axes=tp, zigzag}\ngive %r",
     {"1 2 3 4", "10 20 30 40", "5 6 7 8", "50 60 70 80"},
     {"11 44", "22 33", "55 88", "66 77"}},
    {"a: f64[i=8]", /* ... and parts of what a rank has */
     "%s: f64[i=4@dp~] = shard %a {dim=i=8, axes=dp, zigzag}\n"
     "%r: f64[i=2@dp~.tp] = shard %s {dim=i=4@dp~, axes=tp}\ngive %r",
     {"1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8"},
     {"1 2", "7 8", "3 4", "5 6"}},
    {"a: f64[i=8]", /* ... which may be in zigzag order in turn */
     "%s: f64[i=4@dp~] = shard %a {dim=i=8, axes=dp, zigzag}\n"
     "%r: f64[i=2@dp~.tp~] = shard %s {dim=i=4@dp~, axes=tp, zigzag}\ngive %r",
     {"1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8"},
     {"1 8", "2 7", "3 6", "4 5"}},
    /* in blocks: rank r has part r of each */
    {"a: f64[i=8]",
     "%r: f64[i=4@tp/2] = shard %a {dim=i=8, axes=tp, blocks=2}\ngive %r",
     {"1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8"},
     {"1 2 5 6", "3 4 7 8", "1 2 5 6", "3 4 7 8"}},
    {"a: f64[i=4@tp/2]",
     "%r: f64[i=8] = all_gather %a {dim=i=4@tp/2, axes=tp, blocks=2}\ngive %r",
     {"1 2 3 4", "5 6 7 8", "10 20 30 40", "50 60 70 80"},
     {"1 2 5 6 3 4 7 8", "1 2 5 6 3 4 7 8", "10 20 50 60 30 40 70 80", "10 20 50 60 30 40 70 80"}},
    {"a: f64[i=4]{partial: tp}",
     "%r: f64[i=2@tp/2] = reduce_scatter %a {dim=i=4, axes=tp, blocks=2}\ngive %r",
     {"1 2 3 4", "10 20 30 40", "5 6 7 8", "50 60 70 80"},
     {"11 33", "22 44", "55 77", "66 88"}},
    {"a: f64[i=8]", /* ... of what a rank has in zigzag order */
     "%s: f64[i=4@dp~] = shard %a {dim=i=8, axes=dp, zigzag}\n"
     "%r: f64[i=2@dp~.tp/2] = shard %s {dim=i=4@dp~, axes=tp, blocks=2}\ngive %r",
     {"1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8"},
     {"1 7", "2 8", "3 5", "4 6"}},
    {"a: f64[i=4@tp/2]",
     "%n: f64[i=4@tp/2] = iota {dim=i=4@tp/2}\n%r: f64[i=4@tp/2] = add %a, %n\ngive %r",
     {"0 0 0 0", "0 0 0 0", "0 0 0 0", "0 0 0 0"},
     {"0 1 4 5", "2 3 6 7", "0 1 4 5", "2 3 6 7"}},
    {"a: f64[v=2@tp/2]", /* a table of which a rank has every second row */
     "%n: i32[i=4] = iota {dim=i=4}\n%x: f64[i=4]{partial: tp} = gather %a, %n {dim=v=2@tp/2}\n"
     "%r: f64[i=4] = all_reduce %x {axes=tp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 3 2 4", "1 3 2 4", "5 7 6 8", "5 7 6 8"}},
    {"a: f64[i=4@dp~]",
     "%n: f64[i=4@dp~] = iota {dim=i=4@dp~}\n%r: f64[i=4@dp~] = add %a, %n\ngive %r",
     {"0 0 0 0", "0 0 0 0", "0 0 0 0", "0 0 0 0"},
     {"0 1 6 7", "0 1 6 7", "2 3 4 5", "2 3 4 5"}},
    {"a: f64[v=2@tp~]",
     "%n: i32[i=4] = iota {dim=i=4}\n%x: f64[i=4]{partial: tp} = gather %a, %n {dim=v=2@tp~}\n"
     "%r: f64[i=4] = all_reduce %x {axes=tp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 3 4 2", "1 3 4 2", "5 7 8 6", "5 7 8 6"}},
    /* within what a rank has on an axis that the mesh has behind this one */
    {"a: f64[i=4@tp]",
     "%r: f64[i=2@tp.dp] = shard %a {dim=i=4@tp, axes=dp}\ngive %r",
     {"1 2 3 4", "5 6 7 8", "1 2 3 4", "5 6 7 8"},
     {"1 2", "5 6", "3 4", "7 8"}},
    {"a: f64[i=2@tp, j=1@dp]",
     "%r: f64[i=1@tp.dp, j=2] = all_to_all %a {dim=j=1@dp, to=i=2@tp, axes=dp}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 5", "3 7", "2 6", "4 8"}},
    {"a: f64[i=1@tp.dp, j=2]",
     "%r: f64[i=2@tp, j=1@dp] = all_to_all %a {dim=i=1@tp.dp, to=j=2, axes=dp}\ngive %r",
     {"1 5", "3 7", "2 6", "4 8"},
     {"1 2", "3 4", "5 6", "7 8"}},
    {"a: f64[i=2@tp.dp]",
     "%n: f64[i=2@tp.dp] = iota {dim=i=2@tp.dp}\n%r: f64[i=2@tp.dp] = add %a, %n\ngive %r",
     {"0 0", "0 0", "0 0", "0 0"},
     {"0 1", "4 5", "2 3", "6 7"}},
    {"a: f64[v=2@tp.dp]",
     "%n: i32[i=8] = iota {dim=i=8}\n"
     "%x: f64[i=8]{partial: dp.tp} = gather %a, %n {dim=v=2@tp.dp}\n"
     "%r: f64[i=8] = all_reduce %x {axes=dp.tp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 2 5 6 3 4 7 8", "1 2 5 6 3 4 7 8", "1 2 5 6 3 4 7 8", "1 2 5 6 3 4 7 8"}},
    /* no query prefers a key: means of the values that are seen, over the keys of all ranks */
    {"v: f64[s=2@tp~, h=1]",
     "%z: f64[] = const {value=0}\n%q: f64[s=2@tp~, h=1] = mul %v, %z\n"
     "%r: f64[s=2@tp~, h=1], %l: f64[s=2@tp~] = attention %q, %q, %v "
     "{over=[h=1], along=s=2@tp~, scale=1, causal=yes}\ngive %r",
     {"1 8", "3 4", "2 8", "4 6"},
     {"1 4", "2 2.6666666666666665", "2 5", "3 4"}},
    {"a: f64[i=2]{partial: dp}",
     "%b: f64[i=2]{partial: dp} = broadcast %a {at=1, axes=tp}\n"
     "%r: f64[i=2] = all_reduce %b {axes=dp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"10 12", "10 12", "10 12", "10 12"}},
    /* positions are those of the whole; rows that a rank has not are 0 there */
    {"a: f64[i=2@dp]",
     "%n: f64[i=2@dp] = iota {dim=i=2@dp}\n%r: f64[i=2@dp] = add %a, %n\ngive %r",
     {"0 0", "0 0", "0 0", "0 0"},
     {"0 1", "0 1", "2 3", "2 3"}},
    {"a: f64[v=2@tp]",
     "%n: i32[i=3] = iota {dim=i=3}\n%x: f64[i=3]{partial: tp} = gather %a, %n {dim=v=2@tp}\n"
     "%r: f64[i=3] = all_reduce %x {axes=tp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"1 2 3", "1 2 3", "5 6 7", "5 6 7"}},
    {"a: f64[s=2]",
     "%n: i32[s=2] = iota {dim=s=2}\n%r: f64[v=1@tp] = scatter_add %a, %n {over=[s=2], "
     "dim=v=1@tp}\ngive %r",
     {"1 2", "1 2", "5 6", "5 6"},
     {"1", "2", "5", "6"}},
    /* a sum over a split dim is partial, and so is a product over one, in a loop, too */
    {"a: f64[l=2, i=1@tp]",
     "%z: f64[]{partial: tp} = const {value=0}\n"
     "%s: f64[]{partial: tp} = repeat %z, %a {dim=l=2, carried=1, reverse=no} {\n"
     "  arg %c: f64[]{partial: tp}\n  arg %x: f64[i=1@tp]\n  arg %k: i32[]\n"
     "  %d: f64[]{partial: tp} = dot %x, %x {over=[i=1@tp]}\n"
     "  %e: f64[]{partial: tp} = add %c, %d\n  give %e\n}\n"
     "%r: f64[] = all_reduce %s {axes=tp, max=no}\ngive %r",
     {"1 2", "3 4", "5 6", "7 8"},
     {"30", "30", "174", "174"}},
};

static void by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        World w;
        world_open(&w);
        const char *args[] = {cases[i].arg, NULL};
        Module *m = world_read(&w, on_a_mesh(&w, args, cases[i].body));
        if (!m || world_verify(&w, m))
            fail_msg("%s\n%s", cases[i].body, world_messages(&w));
        assert_int_equal(mesh_ranks(m), RANKS);
        Tensor64 in[RANKS], out[RANKS];
        for (int r = 0; r < RANKS; r++)
            in[r] = program_args(&w, m, (const char *[]){cases[i].data[r], NULL})[0];
        ir_interpret_ranks(m, m->fns.data[0], in, out, w.a);
        for (int r = 0; r < RANKS; r++)
            assert_numbers(&out[r], cases[i].want[r], cases[i].body);
        /* Its text reads back as it is. */
        const char *text = module_text(w.a, m);
        Module *again = world_read(&w, text);
        assert_non_null(again);
        assert_string_equal(text, module_text(w.a, again));
        world_close(&w);
    }
}

/* ---- what is no program ---------------------------------------------------------------------- */

typedef struct Bad {
    const char *args[4], *body, *says;
} Bad;

#define GIVE "\ngive %r"
static const Bad bad[] = {
    {{"a: f64[i=1@tp~]"}, "%r: f64[i=1@tp~] = neg %a" GIVE, "cannot be in zigzag order"},
    {{"q: f64[s=2, h=2]", "k: f64[s=2, h=2]", "n: i32[s=2]"},
     "%r: f64[s=2, h=2], %l: f64[s=2] = attention %q, %k, %k, %n "
     "{over=[h=2], along=s=2, scale=1, causal=no, share=2}" GIVE,
     "a share of 2 of what each query sees"},
    {{"a: f64[i=2@tp~]"},
     "%r: f64[i=4] = all_gather %a {dim=i=2@tp~, axes=tp}" GIVE,
     "in zigzag order on tp"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[i=4] = all_gather %a {dim=i=2@tp, axes=tp, zigzag}" GIVE,
     "not in zigzag order on tp"},
    {{"a: f64[i=2@tp~]", "b: f64[i=2@tp]"},
     "%r: f64[i=2@tp~] = add %a, %b" GIVE,
     "in zigzag order here and not there"},
    {{"a: f64[i=2]"},
     "%r: f64[i=1@tp~] = shard %a {dim=i=2, axes=tp, zigzag}" GIVE,
     "not split evenly on tp"},
    {{"a: f64[i=6]"},
     "%r: f64[i=3@tp/2] = shard %a {dim=i=6, axes=tp, blocks=2}" GIVE,
     "not split evenly on tp"},
    {{"a: f64[i=4@tp/2]"},
     "%r: f64[i=8] = all_gather %a {dim=i=4@tp/2, axes=tp}" GIVE,
     "is in 2 blocks on tp"},
    {{"a: f64[i=4@tp/2]", "b: f64[i=4@tp]"},
     "%r: f64[i=4@tp/2] = add %a, %b" GIVE,
     "in other blocks here and there"},
    {{"a: f64[i=8]"},
     "%r: f64[i=2@dp.tp/2] = shard %a {dim=i=8, axes=dp.tp, blocks=2}" GIVE,
     "which is not one axis in its order"},
    {{"a: f64[i=4@dp/2]"},
     "%r: f64[i=2@dp.tp/2] = shard %a {dim=i=4@dp/2, axes=tp}" GIVE,
     "is split in blocks already"},
    {{"a: f64[i=3@tp/2]"},
     "%r: f64[i=3@tp/2] = neg %a" GIVE,
     "cannot be in zigzag order, or in blocks"},
    {{"a: f64[i=8]"},
     "%r: f64[i=2@dp~.tp~] = shard %a {dim=i=8, axes=dp.tp, zigzag}" GIVE,
     "which is not one axis"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[i=2@tp] = ring_shift %a {axes=tp}" GIVE,
     "another part of it than its type says"},
    {{"q: f64[s=2@tp, h=2]", "k: f64[s=2@tp, h=2]", "n: i32[s=2@tp]"},
     "%r: f64[s=2@tp, h=2], %l: f64[s=2@tp] = attention %q, %k, %k, %n "
     "{over=[h=2], along=s=2@tp, scale=1, causal=no}" GIVE,
     "numbers of keys for each query where keys are split on tp"},
    {{"q: f64[s=2, h=2]", "k: f64[s=2, h=2]", "n: i32[s=2]"},
     "%r: f64[s=2, h=2], %l: f64[s=2] = attention %q, %k, %k, %n "
     "{over=[h=2], along=s=2, scale=1, causal=yes}" GIVE,
     "a causal mask and a number of keys"},
    {{"q: f64[s=2, h=2]", "k: f64[s=2, h=2]", "n: i32[h=2]"},
     "%r: f64[s=2, h=2], %l: f64[s=2] = attention %q, %k, %k, %n "
     "{over=[h=2], along=s=2, scale=1, causal=no}" GIVE,
     "what each query sees is i32 along 's'"},
    /* query groups that share keys are on several ranks: each has the gradients of its own */
    {{"q: f64[s=2, g=1@tp, h=2]", "k: f64[s=2, h=2]", "l: f64[s=2, g=1@tp]"},
     "%d: f64[s=2, g=1@tp, h=2], %r: f64[s=2, h=2], %v: f64[s=2, h=2] = attention_grad %q, %k, %k, "
     "%q, %l, %q {over=[h=2], along=s=2, scale=1, causal=yes}" GIVE,
     "partial over other axes than by the rule"},
    {{"a: f64[i=2]"},
     "%r: f64[i=2] = all_reduce %a {axes=tp, max=no}" GIVE,
     "is not partial over tp"},
    {{"a: f64[i=2]{partial: dp}"},
     "%r: f64[i=2] = all_reduce %a {axes=tp, max=no}" GIVE,
     "is not partial over tp"},
    {{"a: f64[i=2]{partial: tp}"}, "%r: f64[i=2] = exp %a" GIVE, "where its sum is wanted"},
    {{"a: f64[i=2]{partial: tp}"},
     "%r: f64[i=2] = all_reduce %a {axes=tp, max=no, tree}" GIVE,
     "a tree over tp, which has none"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[]{partial: tp} = sum %a {over=[i=2@tp], whole}" GIVE,
     "looked at as a whole"},
    {{"a: f64[i=2]{partial: tp}", "b: f64[i=2]"},
     "%r: f64[i=2]{partial: tp} = add %a, %b" GIVE,
     "partial over 'tp' and operand 2 over ''"},
    {{"a: f64[i=2]{partial: tp}"},
     "%r: f64[i=2]{partial: tp} = mul %a, %a" GIVE,
     "both sides are partial over tp"},
    {{"a: f64[i=2]{partial: tp}", "b: f64[i=2]"},
     "%r: f64[i=2] = mul %a, %b" GIVE,
     "partial over other axes than by the rule"},
    {{"a: f64[i=2@tp]"}, "%r: f64[] = sum %a {over=[i=2@tp]}" GIVE, "over other axes than"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[]{max: tp} = rmax %a {over=[i=2@tp]}\n%s: f64[] = neg %r\ngive %s",
     "the largest of a rank where that of all is wanted"},
    {{"a: f64[i=2@tp]", "b: f64[i=2@dp]"},
     "%r: f64[i=2@tp] = add %a, %b" GIVE,
     "split on other axes here and there"},
    {{"a: f64[i=2@tp]", "b: f64[j=2@tp]"},
     "%r: f64[i=2@tp, j=2@tp] = mul %a, %b" GIVE,
     "axis tp would be used twice"},
    {{"a: f64[i=2@tp]"}, "%r: f64[i=4] = all_gather %a {dim=i=2@tp, axes=dp}" GIVE, "not the last"},
    {{"a: f64[i=2@dp.tp]"},
     "%r: f64[i=4@tp] = all_gather %a {dim=i=2@dp.tp, axes=dp}" GIVE,
     "not the last"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[i=1@tp.dp] = shard %a {dim=i=2@tp, axes=dp, zigzag}" GIVE,
     "does not come before dp in the mesh"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[i=1@dp.tp] = shard %a {dim=i=2@tp, axes=dp}" GIVE,
     "the result has not the dims of the rule"},
    {{"a: f64[i=1@tp.dp]"},
     "%r: f64[i=2@dp] = all_gather %a {dim=i=1@tp.dp, axes=tp}" GIVE,
     "not the last"},
    {{"a: f64[i=1@tp.dp]"},
     "%r: f64[i=4] = all_gather %a {dim=i=1@tp.dp, axes=dp.tp}" GIVE,
     "not the last"},
    {{"a: f64[i=1@tp.dp]", "b: f64[i=1@dp.tp]"},
     "%r: f64[i=1@tp.dp] = add %a, %b" GIVE,
     "in another order here and there"},
    {{"a: f64[i=2@tp~.dp]"}, "%r: f64[i=2@tp~.dp] = neg %a" GIVE, "is split within dp"},
    {{"a: f64[i=3]"}, "%r: f64[i=1@tp] = shard %a {dim=i=3, axes=tp}" GIVE, "not split evenly"},
    {{"a: f64[i=2@tp, j=2]"},
     "%r: f64[i=2@tp, j=1@tp] = shard %a {dim=j=2, axes=tp}" GIVE,
     "axis tp is in use"},
    {{"a: f64[i=2]{partial: tp}"},
     "%r: f64[i=1@tp] = shard %a {dim=i=2, axes=tp}" GIVE,
     "axis tp is in use"},
    {{"a: f64[i=2]{partial: tp}"},
     "%r: f64[i=1@dp] = reduce_scatter %a {dim=i=2, axes=dp}" GIVE,
     "is not partial over dp"},
    {{"a: f64[i=2@tp, j=2]"},
     "%r: f64[i=4, j=1@dp] = all_to_all %a {dim=i=2@tp, to=j=2, axes=dp}" GIVE,
     "not the last"},
    {{"a: f64[i=4@tp]"},
     "%r: f64[o=2, i=2] = split %a {dim=i=2, to=o=2}" GIVE,
     "does not lie over the mesh as 'o'"},
    {{"a: f64[i=4@tp~]"},
     "%r: f64[o=2@tp, i=2] = split %a {dim=i=2, to=o=2@tp}" GIVE,
     "does not lie over the mesh as 'o'"},
    {{"a: f64[o=2, i=2@tp]"},
     "%r: f64[i=4@tp] = merge %a {dim=i=2@tp, to=o=2}" GIVE,
     "looked at as a whole"},
    {{"a: f64[i=2@tp]"}, "%r: f64[i=2@tp] = broadcast %a {at=0, axes=tp}" GIVE, "have parts of"},
    {{"a: f64[i=2]"}, "%r: f64[i=2] = broadcast %a {at=2, axes=tp}" GIVE, "is at place 2"},
    {{"a: f64[i=2@tp]"}, "%r: f64[] = pick %a {dim=i=2@tp, at=0}" GIVE, "looked at as a whole"},
    {{"a: f64[i=2@tp]"}, "%r: f64[i=2@tp] = rotate %a {dim=i=2@tp}" GIVE, "looked at as a whole"},
    {{"a: f64[i=2@tp]"},
     "%r: f64[i=1@tp] = window %a {along=i=1@tp, at=0}" GIVE,
     "looked at as a whole"},
    {{"a: f64[s=4, h=2@tp]"},
     "%r: f64[s=4, h=2@tp], %m: f64[s=4] = attention %a, %a, %a "
     "{over=[h=2@tp], along=s=4, scale=1, causal=no}" GIVE,
     "looked at as a whole"},
    {{"a: f64[i=2, k=2@tp]", "c: f64[i=2]"},
     "%r: f64[i=2] = dot %a, %a, %c {over=[k=2@tp]}" GIVE,
     "what it is added to over ''"},
    {{"a: f64[i=2]{partial: tp}"},
     "%z: f64[i=2] = neg %a\n%r: f64[i=2] = repeat %z {dim=l=2, carried=1, reverse=no} {\n"
     "  arg %x: f64[i=2]\n  arg %n: i32[]\n  give %x\n}" GIVE,
     "partial over other axes"},
};

static void refused(void **state)
{
    (void)state;
    bool seen[OP_count] = {false};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        World w;
        world_open(&w);
        Module *m = world_read(&w, on_a_mesh(&w, bad[i].args, bad[i].body));
        if (!m)
            fail_msg("not read: %s\n%s", bad[i].body, world_messages(&w));
        if (!world_verify(&w, m) || !strstr(world_messages(&w), bad[i].says))
            fail_msg("%s\nwanted: %s\nsaid: %s", bad[i].body, bad[i].says, world_messages(&w));
        seen[m->fns.data[0]->body->ins.data[0]->op] = true;
        world_close(&w);
    }
    for (Op op = OP_none + 1; op < OP_count; op++)
        if (op_is(op, COMM) && !seen[op])
            fail_msg("nothing is refused to %s", op_info[op].name);
}

/* An axis that is not there; a place in the mesh. */
static void texts(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"a: f64[i=2@up]", NULL};
    assert_null(world_read(&w, on_a_mesh(&w, args, "%r: f64[i=2] = neg %a\ngive %r")));
    assert_non_null(strstr(world_messages(&w), "error[MG0412]"));
    world_close(&w);

    world_open(&w);
    const char *none[] = {"a: f64[i=2]", NULL};
    Module *m = world_read(&w, on_a_mesh(&w, none, "%r: f64[i=2] = neg %a\ngive %r"));
    assert_int_equal(mesh_coordinate(m, 2, 0), 1);
    assert_int_equal(mesh_coordinate(m, 2, 1), 0);
    assert_int_equal(mesh_place(m, 3, 3), 3);
    assert_int_equal(mesh_place(m, 3, 2), 1);
    assert_int_equal(mesh_size(m, 2), 2);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(refused),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
