/* calibrate_host.c - a processor's numbers, from programs that mgc made and ran.
 *
 * calibrate.mg is compiled large, small, in f64, bf16 and f16, calibrate_scan.mg and
 * calibrate_functions.mg once. All programs take turns, round by round, in which each traces some
 * steps of its own (calibrate_rounds.c). From the measured actions follow, in this order: the
 * bandwidth, from all generated kernels, each program counting alike; the rate of products beside
 * their traffic; exponentials and the rate of attention's products, from heads of two sizes; its
 * gradient's; the rate of weights, from a scan's products of few rows; that of what kernels
 * compute, from functions of numbers in a cache. plan/schedule/schedule.c makes times of them
 * again. */
#include "compiler/calibrate.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "compiler/calibrate_rounds.h"

/* Of bf16 the model is as large as of f32: where it is multiplied many times as fast, smaller
 * products would show what is beside them. Heads of 32 and 64 fill the tiles of AMX. */
static const struct Size {
    Way way;
    double head, seq; /* elements of a head; positions */
} sizes[] = {
    {{.name = "large", .precision = "f32", .steps = "2", .trace = "2:2"}, 64, 256},
    {{.name = "small",
      .precision = "f32",
      .steps = "3",
      .trace = "2:3",
      .define = {"hidden=160", "kv_heads=5", "head=32", "ffn=432", "batch=8", "vocab=256"}},
     32,
     256},
    {{.name = "double", .precision = "f64", .steps = "2", .trace = "2:2", .define = {"batch=1"}},
     64,
     256},
    {{.name = "bf16", .precision = "bf16", .steps = "2", .trace = "2:2"}, 64, 256},
    {{.name = "f16", .precision = "f16", .steps = "2", .trace = "2:2", .define = {"batch=2"}},
     64,
     256},
    {{.name = "scan",
      .precision = "f32",
      .steps = "3",
      .trace = "2:3",
      .model = "calibrate_scan.mg"},
     0,
     0},
    {{.name = "functions",
      .precision = "f32",
      .steps = "9",
      .trace = "2:9",
      .model = "calibrate_functions.mg"},
     0,
     0},
};
typedef struct Size Size;
enum { LARGE, SMALL, DOUBLE, BF16, F16, SCAN, FUNCTIONS, SIZES = sizeof sizes / sizeof *sizes };

typedef struct HostRuns {
    Calibration *c;
    Report round[SIZES][CALIBRATE_MOST_ROUNDS];
    double seconds[CALIBRATE_MOST_ROUNDS]; /* of the traced steps of a round */
    int rounds;
    Report run[SIZES]; /* what they say together */
} HostRuns;

/* ---- numbers --------------------------------------------------------------------------------- */

static const ReportLine *kind_of(const Report *r, ActionKind kind)
{
    static const ReportLine none = {.measured = 1, .flops = 1, .bytes = 1};
    for (size_t i = 0; i < r->kinds.n; i++)
        if (!strcmp(r->kinds.data[i].kind, action_info[kind].name))
            return &r->kinds.data[i];
    return &none;
}

static double within(double x, double min, double max)
{
    return x >= min ? (x <= max ? x : max) : min;
}

/* The fastest product of a run, FLOP/s. */
static double fastest(const Report *r)
{
    double best = 1e6;
    for (size_t i = 0; i < r->actions.n; i++) {
        const ReportLine *l = &r->actions.data[i];
        if (l->name && !strcmp(l->kind, action_info[ACT_gemm].name) &&
            l->flops / l->measured * 1e6 > best)
            best = l->flops / l->measured * 1e6;
    }
    return best;
}

/* Seconds of the shortest kernel. */
static double shortest(const Report *r)
{
    double best = 1e-3;
    for (size_t i = 0; i < r->actions.n; i++) {
        const ReportLine *l = &r->actions.data[i];
        if (l->name && !strcmp(l->kind, action_info[ACT_kernel].name) &&
            l->measured / l->calls * 1e-6 < best)
            best = l->measured / l->calls * 1e-6;
    }
    return best;
}

/* Bytes a second of a run's products of few rows: those that multiply next to nothing with what
 * they read. */
static double weights_rate(const Report *r)
{
    enum { FEW = 4 }; /* FLOP a byte: 4 rows of floats make 2 */
    double bytes = 0, seconds = 1e-9;
    for (size_t i = 0; i < r->actions.n; i++) {
        const ReportLine *l = &r->actions.data[i];
        if (!l->name || strcmp(l->kind, action_info[ACT_gemm].name) || l->flops > FEW * l->bytes)
            continue;
        bytes += l->bytes;
        seconds += l->measured * 1e-6;
    }
    return bytes / seconds;
}

/* Additions a second that generated kernels compute: by how much those that compute much with
 * what they read took longer than was said of them, each counting alike. priced: by what that was
 * said. */
static double operations(const Report *r, double priced)
{
    enum { MUCH = 10 }; /* FLOP a byte */
    double by = 0;
    int n = 0;
    for (size_t i = 0; i < r->actions.n; i++) {
        const ReportLine *l = &r->actions.data[i];
        if (!l->name || strcmp(l->kind, action_info[ACT_kernel].name) || l->flops < MUCH * l->bytes)
            continue;
        by += log(l->predicted / l->measured);
        n++;
    }
    return n ? priced * exp(by / n) : priced;
}

typedef struct Numbers {
    double flops, flops_f64, flops_bf16, flops_f16, share, attention, gradient, exps, bandwidth;
    double weights, launch, operations;
} Numbers;

/* Seconds of attention's arithmetic, without what is done beside its pairs. */
static double arithmetic(const ReportLine *l, const Size *size, bool grad, double bandwidth)
{
    return (l->measured * 1e-6 - l->bytes / bandwidth) /
           (1 + attention_beside(grad, 0.5 * size->seq, true, false));
}

/* The peak of products of halves in a run: what becomes of them on the way, and back, counts as
 * arithmetic. A processor may multiply them many times as fast as floats. */
static double of_halves(const Report *r, const Numbers *n)
{
    const ReportLine *l = kind_of(r, ACT_gemm);
    const double rest = l->measured * 1e-6 - l->bytes / n->bandwidth;
    return within(l->flops / (rest > 0 ? rest : 1e-9) / n->share, 0.05 * n->flops, 16 * n->flops);
}

static Numbers numbers_of(const HostRuns *c)
{
    const Report *large = &c->run[LARGE], *small = &c->run[SMALL];
    const ReportLine *p = kind_of(large, ACT_gemm), *q = kind_of(small, ACT_gemm);
    Numbers n = {.bandwidth = 1};
    for (int k = 0; k < SCAN;
         k++) { /* kernels of the scan are too short to say anything of memory */
        const ReportLine *l = kind_of(&c->run[k], ACT_kernel);
        n.bandwidth *= pow(l->bytes / l->measured * 1e6, 1.0 / SCAN);
    }
    n.flops = fastest(large);
    n.flops_f64 = fastest(&c->run[DOUBLE]);
    /* Products: arithmetic and traffic, one after the other. Each run counts alike. */
    double a = p->flops / (p->measured * 1e-6 - p->bytes / n.bandwidth);
    double b = q->flops / (q->measured * 1e-6 - q->bytes / n.bandwidth);
    n.share = within(sqrt(a * b) / n.flops, 0.05, 1);
    n.flops_bf16 = of_halves(&c->run[BF16], &n);
    n.flops_f16 = of_halves(&c->run[F16], &n);
    /* Attention: seconds = (flops x + exponentials y) more + bytes / bandwidth, for heads of two
     * sizes; more: what is computed beside, as ir_cost has it. */
    const ReportLine *f = kind_of(large, ACT_attention), *g = kind_of(small, ACT_attention);
    double ef = f->flops / (4 * sizes[0].head), eg = g->flops / (4 * sizes[1].head);
    double tf = arithmetic(f, &sizes[0], false, n.bandwidth),
           tg = arithmetic(g, &sizes[1], false, n.bandwidth);
    double det = f->flops * eg - g->flops * ef;
    double x = (tf * eg - tg * ef) / det, y = (f->flops * tg - g->flops * tf) / det;
    n.attention = within(x > 0 ? 1 / x / n.flops : 1, 0.05, 1);
    n.exps = y > 0 ? within(1 / y, 1e7, 1e15) : 1e12;
    const ReportLine *df = kind_of(large, ACT_attention_grad);
    const ReportLine *dg = kind_of(small, ACT_attention_grad);
    const double rest = arithmetic(df, &sizes[0], true, n.bandwidth) +
                        arithmetic(dg, &sizes[1], true, n.bandwidth) - 2 * (ef + eg) / n.exps;
    n.gradient = within((df->flops + dg->flops) / (rest > 0 ? rest : 1e-9) / n.flops, 0.05, 1);
    n.launch = within(shortest(large), 1e-7, 1e-3);
    n.operations = within(operations(&c->run[FUNCTIONS], c->c->operations), 1e7, 1e15);
    n.weights = within(weights_rate(&c->run[SCAN]) / n.bandwidth, 0.1, 10);
    return n;
}

double calibrate_digits(double x)
{
    double scale = pow(10, floor(log10(x)) - 2);
    return round(x / scale) * scale;
}

static Exit write_device(Session *s, const HostRuns *c)
{
    Numbers n = numbers_of(c);
    double t = c->c->threads;
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:f, "
        "s:f, s:f, "
        "s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:i}",
        "name", "cpu", "target", "host", "known", "measured", "known_by",
        "mgc calibrate, on this machine; its network is guessed", "memory", "host", "threads",
        "host", "flops_f32_per_thread", calibrate_digits(n.flops / t), "flops_f64_per_thread",
        calibrate_digits(n.flops_f64 / t), "flops_tf32_per_thread", calibrate_digits(n.flops / t),
        "flops_bf16_per_thread", calibrate_digits(n.flops_bf16 / t), "flops_f16_per_thread",
        calibrate_digits(n.flops_f16 / t), "product_share", calibrate_digits(n.share),
        "product_rows", 0, "product_columns", 0, "attention_share", calibrate_digits(n.attention),
        "attention_grad_share", calibrate_digits(n.gradient), "exponentials_per_thread",
        calibrate_digits(n.exps / t), "operations_per_thread", calibrate_digits(n.operations / t),
        "bandwidth_per_thread", calibrate_digits(n.bandwidth / t), "bandwidth",
        calibrate_digits(n.bandwidth), "weights_share", calibrate_digits(n.weights),
        "launch_seconds", calibrate_digits(n.launch),
        /* Ranks of a processor send through its memory: a write and a read. */
        "link_bandwidth", calibrate_digits(n.bandwidth / 2), "link_seconds", 2e-6, "link_slowdown",
        1.0,
        /* A guess: the network between machines is not measured. Ten gigabits of Ethernet. */
        "node_ranks", 256, "node_bandwidth", 1.1e9, "node_seconds", 3e-5, "streams", 1);
    calibrate_disk(o);
    Output out;
    Exit status = output_open(s, &out, s->o->out);
    if (!status) {
        json_dumpf(o, out.file, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
        fputc('\n', out.file);
        status = output_close(s, &out, true);
    }
    json_decref(o);
    return status;
}

/* All programs once, one after the other. */
static Exit run_round(HostRuns *h)
{
    Arena *a = h->c->s->arena;
    const int n = h->rounds;
    h->seconds[n] = 0;
    for (int k = 0; k < SIZES; k++) {
        Report *r = &h->round[k][n];
        int status;
        const char *out = arena_printf(a, "%s/%s-run%d", h->c->dir, sizes[k].way.name, n);
        const Exit wrong = calibrate_run(h->c, &sizes[k].way, out, r, &status);
        if (wrong)
            return wrong;
        h->seconds[n] += r->measured * 1e-3;
    }
    h->rounds++;
    return EXIT_done;
}

static Exit run_rounds(HostRuns *h)
{
    Exit wrong = EXIT_done;
    while (!wrong && !calibrate_settled(h->seconds, h->rounds))
        wrong = run_round(h);
    if (!wrong)
        fprintf(stderr,
                "mgc calibrate: %d rounds; the slow half took %.2f times as long as the fast one\n",
                h->rounds, calibrate_scatter(h->seconds, h->rounds));
    for (int k = 0; k < SIZES && !wrong; k++)
        h->run[k] = calibrate_typical(h->c->s->arena, h->round[k], h->seconds, h->rounds);
    return wrong;
}

Exit calibrate_host(Calibration *c)
{
    HostRuns *h = NEW(c->s->arena, HostRuns);
    Exit wrong = EXIT_done;
    h->c = c;
    for (int k = 0; k < SIZES && !wrong; k++)
        wrong = calibrate_make(c, &sizes[k].way);
    wrong = wrong ? wrong : run_rounds(h);
    return wrong ? wrong : write_device(c->s, h);
}
