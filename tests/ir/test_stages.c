/* Layers that are stages on several ranks: what each rank has of them and in which order they run;
 * what is no program. */
#include "tests/ir/program.h"

enum { RANKS = 3 };

/* A program with tensors of stages ("first", ...), over three ranks with 1, 2 and 1 layers. */
static char *in_stages(World *w, const char *const *args, const char *const *at, const char *stages,
                       const char *body, int results)
{
    static const char init[] = "init const 0 0 decay 0 rate 1";
    char *text = program_text(w->a, args, body, results);
    size_t head = strlen(program_head);
    char *all = arena_printf(w->a, "%.*s%s\n", (int)head, text, stages), *next;
    text += head;
    for (int k = 0; (next = strstr(text, init)); k++, text = next + strlen(init))
        all = arena_printf(w->a, "%s%.*s%s at %s", all, (int)(next - text), text, init, at[k]);
    return arena_printf(w->a, "%s%s", all, text);
}

#define ALL    "first middle last"
#define UNEVEN "axis pp 3\npipeline l on pp schedule \"1f1b\" chunks 1 group 0 layers [1, 2, 1]"
#define CHUNKS                                                                                     \
    "axis pp 3\npipeline l on pp schedule \"1f1b\" chunks 2 group 0 layers [1, 2, 1, 0, 2, 1]"

typedef struct Case {
    const char *stages, *args[3], *at[3], *body;
    int results;
    const char *data[RANKS][2], *want[RANKS][2];
} Case;

#define RELAY(out, in, attrs)                                                                      \
    "%x: f64[], %s: f64[l=" out "] = repeat " in ", %w {dim=l=" out ", carried=1, " attrs "} {\n"  \
    "arg %c: f64[]\narg %v: f64[]\narg %n: i32[]\n%t: f64[] = const {value=10}\n"                  \
    "%u: f64[] = mul %c, %t\n%y: f64[] = add %u, %v\ngive %y, %y\n}\n"

static const Case cases[] = {
    /* from the first stage to the last; room that is left stays zero */
    {UNEVEN,
     {"a: f64[]", "w: f64[l=2@pp]"},
     {"first", ALL},
     RELAY("2@pp", "%a",
           "reverse=no, relay") "%r: f64[] = broadcast %x {at=2, axes=pp}\ngive %r, %s",
     2,
     {{"1", "2 99"}, {"7", "3 4"}, {"7", "5 99"}},
     {{"12345", "12 0"}, {"12345", "123 1234"}, {"12345", "12345 0"}}},
    /* and back */
    {UNEVEN,
     {"a: f64[]", "w: f64[l=2@pp]"},
     {"last", ALL},
     RELAY("2@pp", "%a", "reverse=yes, relay") "%r: f64[] = broadcast %x {at=0, axes=pp}\n"
                                               "give %r, %s",
     2,
     {{"7", "2 99"}, {"7", "3 4"}, {"1", "5 99"}},
     {{"15432", "15432 0"}, {"15432", "1543 154"}, {"15432", "15 0"}}},
    /* two chunks a rank; one of them is empty */
    {CHUNKS,
     {"a: f64[]", "w: f64[l=4@pp]"},
     {"first", ALL},
     RELAY("4@pp", "%a",
           "reverse=no, relay") "%r: f64[] = broadcast %x {at=2, axes=pp}\ngive %r, %s",
     2,
     {{"1", "2 99 99 99"}, {"7", "3 4 6 7"}, {"7", "5 99 8 99"}},
     {{"12345678", "12 0 0 0"},
      {"12345678", "123 1234 123456 1234567"},
      {"12345678", "12345 0 12345678 0"}}},
    /* iterations and positions are those of the whole model */
    {CHUNKS,
     {"w: f64[l=4@pp]"},
     {ALL},
     "%i: f64[l=4@pp] = iota {dim=l=4@pp}\n%q: f64[l=4@pp] = add %w, %i\n"
     "%s: f64[l=4@pp] = repeat %w {dim=l=4@pp, carried=0, reverse=no} {\n"
     "arg %v: f64[]\narg %n: i32[]\n%y: f64[] = cast %n\ngive %y\n}\ngive %s, %q",
     2,
     {{"0 0 0 0"}, {"0 0 0 0"}, {"0 0 0 0"}},
     {{"0 0 0 0", "0 1 4 5"}, {"1 2 4 5", "1 2 4 5"}, {"3 0 6 0", "3 4 6 7"}}},
    /* all layers, in their order */
    {CHUNKS,
     {"w: f64[l=4@pp]"},
     {ALL},
     "%g: f64[l=12] = all_gather %w {dim=l=4@pp, axes=pp}\ngive %g",
     1,
     {{"0 1 6 7"}, {"2 3 8 9"}, {"4 5 10 11"}},
     {{"0 1 2 3 4 5 6 7 8 9 10 11"}, {"0 1 2 3 4 5 6 7 8 9 10 11"}, {"0 1 2 3 4 5 6 7 8 9 10 11"}}},
};

static void by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        World w;
        world_open(&w);
        Module *m = world_read(&w, in_stages(&w, c->args, c->at, c->stages, c->body, c->results));
        if (!m || world_verify(&w, m))
            fail_msg("%s\n%s", c->body, world_messages(&w));
        size_t nargs = m->fns.data[0]->args.n;
        Tensor64 in[RANKS * 2], out[RANKS * 2];
        for (int r = 0; r < RANKS; r++)
            memcpy(&in[(size_t)r * nargs], program_args(&w, m, c->data[r]), nargs * sizeof *in);
        ir_interpret_ranks(m, m->fns.data[0], in, out, w.a);
        for (int r = 0; r < RANKS; r++)
            for (int k = 0; k < c->results; k++)
                assert_numbers(&out[r * c->results + k], c->want[r][k], c->body);
        const char *text = module_text(w.a, m);
        Module *again = world_read(&w, text);
        assert_non_null(again);
        assert_string_equal(text, module_text(w.a, again));
        world_close(&w);
    }
}

/* ---- what is no program ---------------------------------------------------------------------- */

typedef struct Bad {
    const char *args[3], *at[3], *body, *says;
} Bad;

#define ARGS    {"a: f64[]", "w: f64[l=2@pp]"}
#define SENT    "%r: f64[] = broadcast %x {at=2, axes=pp}\ngive %r"
#define BODY(v) "{\narg %c: f64[]\narg %n: i32[]\n" v "give %y\n}\n"
static const Bad bad[] = {
    {ARGS, {"first", ALL}, RELAY("2@pp", "%a", "reverse=no, relay") "give %x", "does not end"},
    {ARGS,
     {"first", ALL},
     RELAY("2@pp", "%a", "reverse=no, relay") "%r: f64[] = broadcast %x {at=0, axes=pp}\ngive %r",
     "does not end"},
    {ARGS,
     {"last", ALL},
     RELAY("2@pp", "%a", "reverse=no, relay") SENT,
     "is needed where it is not"},
    {ARGS, {"first", "first"}, RELAY("2@pp", "%a", "reverse=no, relay") SENT, "needed where"},
    {ARGS, {"first", ALL}, "%x: f64[] = neg %a\ngive %x", "is needed where it is not"},
    {ARGS, {"first", ALL}, "%x: f64[] = neg %a\n" SENT, "is needed where it is not"},
    {ARGS,
     {"first", ALL},
     "%x: f64[] = repeat %a {dim=l=2@pp, carried=1, reverse=no, relay} " BODY(
         "%y: f64[] = add %c, %a\n") SENT,
     "is needed where it is not"},
    {ARGS, {"first", ALL}, RELAY("2@pp", "%a", "reverse=no") SENT, "hand on what is carried"},
    {ARGS,
     {"first", ALL},
     "%s: f64[l=2@pp] = repeat %w {dim=l=2@pp, carried=0, reverse=no, relay} {\narg %v: f64[]\n"
     "arg %n: i32[]\ngive %v\n}\ngive %s",
     "hands nothing on"},
    {ARGS,
     {"first", ALL},
     "%x: f64[] = repeat %a {dim=k=2, carried=1, reverse=no, relay} " BODY("%y: f64[] = neg %c\n")
         SENT,
     "a relay of what are no layers"},
    {ARGS,
     {"first", ALL},
     "%x: f64[] = repeat %a {dim=l=3@pp, carried=1, reverse=no, relay} " BODY(
         "%y: f64[] = neg %c\n") SENT,
     "a loop over all layers"},
    {ARGS,
     {"first", ALL},
     "%x: f64[] = repeat %a {dim=l=2, carried=1, reverse=no, relay} " BODY("%y: f64[] = neg %c\n")
         SENT,
     "a loop over all layers"},
    {ARGS,
     {"first", ALL},
     RELAY("2@pp", "%a", "reverse=no, relay") "%d: f64[] = broadcast %x {at=2, axes=pp}\n"
                                              "%e: f64[] = repeat %d {dim=l=2@pp, carried=1, "
                                              "reverse=no, relay} {\narg %o: f64[]\n"
                                              "arg %p: i32[]\n%q: f64[] = neg %o\ngive %q\n}\n%r: "
                                              "f64[] = broadcast %e {at=2, axes=pp}\ngive %r",
     "a second relay"},
    {ARGS,
     {"first", ALL},
     RELAY("2@pp", "%a", "reverse=yes, relay") "%d: f64[] = broadcast %x {at=0, axes=pp}\n"
                                               "%e: f64[] = repeat %d {dim=l=2@pp, carried=1, "
                                               "reverse=no, relay} {\narg %o: f64[]\n"
                                               "arg %p: i32[]\n%q: f64[] = neg %o\ngive %q\n}\n%r: "
                                               "f64[] = broadcast %e {at=2, axes=pp}\ngive %r",
     "goes back before it went forward"},
    {ARGS,
     {ALL, ALL},
     "%x: f64[] = repeat %a {dim=k=2, carried=1, reverse=no} " BODY(
         "%y: f64[] = broadcast %c {at=0, axes=pp}\n") "give %x",
     "elsewhere in their loops"},
    {ARGS,
     {"first", ALL},
     "%x: f64[] = repeat %a {dim=l=2@pp, carried=1, reverse=no, relay} " BODY(
         "%y: f64[] = broadcast %c {at=0, axes=pp}\n") SENT,
     "elsewhere in their loops"},
    {{"a: f64[]", "w: f64[k=2@pp]"}, {ALL, ALL}, "give %a", "is split as stages are"},
    {{"a: f64[]", "w: f64[l=3@pp]"}, {ALL, ALL}, "give %a", "is split as stages are"},
    {ARGS, {ALL, "last"}, "give %a", "tensor 'w' is at 4"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        World w;
        world_open(&w);
        Module *m = world_read(&w, in_stages(&w, bad[i].args, bad[i].at, UNEVEN, bad[i].body, 1));
        if (!m)
            fail_msg("not read: %s\n%s", bad[i].body, world_messages(&w));
        if (!world_verify(&w, m) || !strstr(world_messages(&w), "invariant I12") ||
            !strstr(world_messages(&w), bad[i].says))
            fail_msg("%s\nwanted: %s\nsaid: %s", bad[i].body, bad[i].says, world_messages(&w));
        world_close(&w);
    }
}

/* Stages that the text has more or fewer of than ranks and chunks make. */
static void texts(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"a: f64[]", NULL}, *at[] = {ALL};
    assert_null(world_read(
        &w,
        in_stages(&w, args, at,
                  "axis pp 3\npipeline l on pp schedule \"1f1b\" chunks 1 group 0 layers [1, 2]",
                  "give %a", 1)));
    assert_non_null(strstr(world_messages(&w), "error[MG0403]"));
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
