/* generated.c - see generated.h. */
#include "tests/passes/generated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/grammar.h"

enum { TEXTS = GENERATED_TEXTS };

static Module *elaborate(Model *t, const char *path, const char *text, const char *const *define,
                         int64_t sequences, int64_t group)
{
    const uint32_t file = diag_add_file(t->m->diag, path, text, strlen(text));
    ElaborateOptions o = {
        .define = define, .sequences = sequences, .group = group, .precision = "f64", .prefill = 4};
    while (define && o.ndefine < 12 && define[o.ndefine])
        o.ndefine++;
    Diag *d = t->m->diag;
    Names *names = names_new(t->a);
    const Ast *ast = mg_parse(t->a, names, d, file);
    return ast ? mg_elaborate(t->a, names, d, ast, &o) : NULL;
}

static bool open(Model *t, const char *path, const char *text, const char *const *define,
                 int64_t sequences, int64_t group, int64_t head)
{
    model_open(t);
    Module *m = elaborate(t, path, text, define, sequences, group);
    if (!m)
        return false;
    t->m = m;
    must_pass(t, pass_attention);
    if (sequences)
        module_fn(m, "generate")->head = head;
    if (sequences && try_pass(t, pass_generate) != PASS_ok)
        return false;
    must_pass(t, pass_precision);
    if (group)
        must_pass(t, pass_spread);
    return true;
}

bool generated_open(Model *t, const char *path, const char *text, const char *const *define,
                    int64_t sequences, int64_t head)
{
    return open(t, path, text, define, sequences, 0, head);
}

bool generated_open_shared(Model *t, const char *path, const char *text, const char *const *define,
                           int64_t head)
{
    return open(t, path, text, define, TEXTS, TEXTS, head);
}

/* The tokens of the texts, as they are now. */
typedef struct Texts {
    int32_t *token[TEXTS];
    int64_t n;
    int versions; /* so often one was cut back */
} Texts;

/* Other tokens of a text, from a position on. */
static void say(Texts *s, int text, int64_t from, int64_t vocab)
{
    for (int64_t at = from; at < s->n; at++) {
        uint64_t state = (uint64_t)(s->versions * TEXTS + text) * 1000 + (uint64_t)at;
        s->token[text][at] = draw_int(&state, (int)vocab);
    }
    s->versions++;
}

static Texts texts_of(Model *t)
{
    Texts s = {.n = t->m->seq.size};
    for (int k = 0; k < TEXTS; k++) {
        s.token[k] = NEW_ARRAY(t->a, int32_t, s.n);
        say(&s, k, 0, t->m->vocab);
    }
    return s;
}

/* Parameters are drawn by their number, so that both programs have the same. */
static Tensor64 *arguments(Model *t, const Fn *fn)
{
    return inputs_for(t, fn, 7, -0.8, 0.8);
}

static Tensor64 *argument(const Fn *fn, Tensor64 *args, ArgRole role)
{
    for (size_t i = 0; i < fn->args.n; i++)
        if (fn->args.data[i].role == role)
            return &args[i];
    return NULL;
}

/* Arguments of @sample for the logits at `pos`. */
static Tensor64 *whole_arguments(Model *t, const Fn *fn, const Texts *s, int text, int64_t pos)
{
    Tensor64 *args = arguments(t, fn);
    for (int64_t k = 0; k < t->m->seq.size; k++)
        argument(fn, args, ARG_tokens)->data[k] = s->token[text][k];
    argument(fn, args, ARG_pos)->data[0] = (double)pos;
    return args;
}

/* Caches of the texts, the same of @prefill and @decode. */
typedef struct Caches {
    Tensor64 at[64];
} Caches;

static Tensor64 *call(Model *t, const Fn *fn, const Texts *s, const int64_t *begin,
                      const int64_t *count, Caches *c)
{
    Tensor64 *args = arguments(t, fn), *tokens = argument(fn, args, ARG_tokens);
    const int64_t n = tokens->type.dims[1].size, rows = tokens->type.dims[0].size;
    for (int text = 0; text < rows; text++) {
        argument(fn, args, ARG_begin)->data[text] = (double)begin[text];
        argument(fn, args, ARG_count)->data[text] = (double)count[text];
        for (int64_t k = 0; k < n; k++) /* what is behind is no token, and has no effect */
            tokens->data[text * n + k] = k < count[text] ? s->token[text][begin[text] + k] : 0;
    }
    for (size_t i = 0; i < fn->args.n; i++)
        if (fn->args.data[i].role == ARG_cache && c->at[fn->args.data[i].tensor].data)
            args[i].data = c->at[fn->args.data[i].tensor].data;
    Tensor64 *results = run_fn(t, fn, args);
    for (size_t i = 0; i < fn->results.n; i++)
        if (fn->results.data[i].role == RES_cache)
            c->at[fn->results.data[i].tensor] = results[i];
    return results;
}

/* The logits of one text behind a call, against its whole window. */
static void compare_text(Model *whole, const Texts *s, int text, int64_t pos, const double *logits,
                         Generated *g)
{
    const Fn *fn = module_fn(whole->m, "sample");
    Tensor64 *args = whole_arguments(whole, fn, s, text, pos);
    const double *want = run_fn(whole, fn, args)[0].data;
    for (int64_t c = 0; c < whole->m->vocab; c++) {
        const double off = fabs(logits[c] - want[c]) / fmax(1, fabs(want[c]));
        if (off > g->worst || !isfinite(off)) {
            g->worst = isfinite(off) ? off : INFINITY;
            g->args = args;
        }
    }
}

Generated generated_compare(Model *t, Model *whole, int turns, uint64_t seed)
{
    Generated g = {0};
    Caches caches = {0};
    const Fn *prefill = module_fn(t->m, "prefill"), *decode = module_fn(t->m, "decode");
    const int64_t most = t->m->seq.size;
    const int64_t window = argument(prefill, arguments(t, prefill), ARG_tokens)->type.dims[1].size;
    int64_t begin[TEXTS] = {0};
    uint64_t state = seed;
    Texts s = texts_of(t);
    for (int turn = 0; turn < turns; turn++) {
        const Fn *fn = turn % 3 && !(prefill->whole && turn == 1) ? decode : prefill;
        int64_t count[TEXTS];
        for (int k = 0; k < TEXTS; k++) {
            if (begin[k] && begin[k] <= decode->cuts && draw_int(&state, 4) == 0) {
                begin[k] = draw_int(&state, (int)begin[k]);
                say(&s, k, begin[k], t->m->vocab);
                g.cuts++;
            }
            const int64_t room = most - begin[k];
            const int64_t some = fn == decode     ? draw_int(&state, 4) > 0
                                 : prefill->whole ? window * draw_int(&state, 2)
                                                  : draw_int(&state, (int)window + 1);
            count[k] = some > room ? 0 : some;
        }
        const Tensor64 *z = call(t, fn, &s, begin, count, &caches);
        const int64_t row = z[0].type.dims[1].size; /* the vocabulary, perhaps padded */
        for (int k = 0; k < TEXTS; k++) {
            begin[k] += count[k];
            g.tokens += count[k];
            if (count[k])
                compare_text(whole, &s, k, begin[k] - 1, z[0].data + k * row, &g);
        }
    }
    return g;
}

/* Gives texts that are told to what the prompt left. */
static void spread(Model *t, const bool *taken, Caches *c)
{
    const Fn *fn = module_fn(t->m, "spread");
    if (!fn) /* there are no caches */
        return;
    Tensor64 *args = arguments(t, fn);
    for (int text = 0; text < TEXTS; text++)
        argument(fn, args, ARG_count)->data[text] = taken[text];
    for (size_t i = 0; i < fn->args.n; i++)
        if (fn->args.data[i].role == ARG_cache && c->at[fn->args.data[i].tensor].data)
            args[i].data = c->at[fn->args.data[i].tensor].data;
    const Tensor64 *results = run_fn(t, fn, args);
    for (size_t i = 0; i < fn->results.n; i++)
        c->at[fn->results.data[i].tensor] = results[i];
}

Generated generated_compare_shared(Model *t, Model *whole, int turns, uint64_t seed)
{
    Generated g = {0};
    Caches caches = {0};
    const Fn *prefill = module_fn(t->m, "prefill"), *decode = module_fn(t->m, "decode");
    const int64_t most = t->m->seq.size;
    const int64_t window = argument(prefill, arguments(t, prefill), ARG_tokens)->type.dims[1].size;
    static const bool taken[TEXTS] = {true, false, true};
    uint64_t state = seed;
    Texts s = texts_of(t);
    int64_t read = 0, prompt = 1 + draw_int(&state, (int)most - 1);
    if (prefill->whole)
        prompt -= prompt % window;
    for (int text = 0; text < TEXTS; text++)
        for (int64_t at = 0; at < prompt && taken[text]; at++)
            s.token[text][at] = s.token[0][at];
    for (int64_t count; read < prompt; read += count) {
        count = prefill->whole ? window : 1 + draw_int(&state, (int)window);
        count = count < prompt - read ? count : prompt - read;
        const Tensor64 *z = call(t, prefill, &s, &read, &count, &caches);
        compare_text(whole, &s, 0, read + count - 1, z[0].data, &g);
        g.tokens += count;
    }
    if (prompt)
        spread(t, taken, &caches);
    int64_t begin[TEXTS] = {0};
    for (int text = 0; text < TEXTS; text++)
        begin[text] = taken[text] ? prompt : 0;
    for (int turn = 0; turn < turns; turn++) {
        int64_t count[TEXTS];
        for (int k = 0; k < TEXTS; k++)
            count[k] = begin[k] < most && draw_int(&state, 4) > 0;
        const Tensor64 *z = call(t, decode, &s, begin, count, &caches);
        const int64_t row = z[0].type.dims[1].size;
        for (int k = 0; k < TEXTS; k++) {
            begin[k] += count[k];
            g.tokens += count[k];
            if (count[k])
                compare_text(whole, &s, k, begin[k] - 1, z[0].data + k * row, &g);
        }
    }
    return g;
}
