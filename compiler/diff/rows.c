/* rows.c - see rows.h. */
#include "compiler/diff/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

typedef enum Unit { UNIT_seconds, UNIT_bytes, UNIT_share, UNIT_rate, UNIT_count } Unit;

static double number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static const char *string(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

static const json_t *in(const json_t *o, const char *name)
{
    return json_object_get(o, name);
}

/* ---- one row --------------------------------------------------------------------------------- */

static const char *amount(Arena *a, Unit unit, double x)
{
    switch (unit) {
    case UNIT_seconds:
        return x > 0 ? text_seconds(a, x) : "0";
    case UNIT_bytes:
        return x > 0 ? text_bytes(a, x) : "0";
    case UNIT_share:
        return arena_printf(a, "%.1f%%", 100 * x);
    case UNIT_rate:
        return text_rate(a, x);
    case UNIT_count:
        break;
    }
    return arena_printf(a, "%.0f", x);
}

/* "+24 ms, +5.8%" */
static const char *beside(Arena *a, Unit unit, double x, double y)
{
    const char *sign = y > x ? "+" : "-";
    if (unit == UNIT_share)
        return arena_printf(a, "%s%.1f points", sign, 100 * fabs(y - x));
    const char *by = arena_printf(a, "%s%s", sign, amount(a, unit, fabs(y - x)));
    return x > 0 && y > 0 ? arena_printf(a, "%s, %s%.1f%%", by, sign, 100 * fabs(y / x - 1)) : by;
}

static void add(Diff *d, int part, DiffRow row)
{
    vec_push(d->a, &d->part[part].rows, row);
}

/* A number of both; whole: of what it is a part, for its weight; 0: it has none. */
static void add_number(Diff *d, int part, const char *name, Unit unit, double x, double y,
                       double whole)
{
    DiffRow r = {name, amount(d->a, unit, x), amount(d->a, unit, y), "", false, 0, false};
    r.differs = fabs(x - y) > 1e-6 * fmax(fabs(x), fabs(y));
    if (r.differs)
        r.by = beside(d->a, unit, x, y);
    if (r.differs && whole > 0)
        r.weight = fabs(x - y) / whole;
    add(d, part, r);
}

/* Parts of a number before it: not among the largest differences again. */
static void add_part(Diff *d, int part, const char *name, Unit unit, double x, double y,
                     double whole)
{
    if (!(x > 0) && !(y > 0))
        return;
    add_number(d, part, name, unit, x, y, whole);
    d->part[part].rows.data[d->part[part].rows.n - 1].part = true;
}

static void add_text(Diff *d, int part, const char *name, const char *x, const char *y)
{
    const bool differs = strcmp(x, y) != 0;
    if (*x || *y)
        add(d, part,
            (DiffRow){name, *x ? x : "-", *y ? y : "-", differs ? "differs" : "", differs, 0,
                      false});
}

/* Keys of either of two objects, A's in their order first. */
static void keys_of(Diff *d, const json_t *x, const json_t *y, Words *to)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)x, key, value) {
        vec_push(d->a, to, key);
    }
    json_object_foreach((json_t *)y, key, value) {
        if (!json_object_get(x, key))
            vec_push(d->a, to, key);
    }
}

/* Numbers of two objects by their keys. */
static void add_object(Diff *d, int part, const json_t *x, const json_t *y, Unit unit, double scale,
                       double whole, const char *form)
{
    Words keys = {0};
    keys_of(d, x, y, &keys);
    for (size_t i = 0; i < keys.n; i++)
        add_part(d, part, arena_printf(d->a, "%s%s", form, keys.data[i]), unit,
                 scale * number(x, keys.data[i]), scale * number(y, keys.data[i]), whole);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void add_time(Diff *d, const json_t *x, const json_t *y)
{
    const double step = number(x, "step_ms") * 1e-3;
    const json_t *px = in(x, "parts"), *py = in(y, "parts");
    static const char *const part[][2] = {{"before_ms", "before the microbatches"},
                                          {"forward_ms", "forward of one"},
                                          {"backward_ms", "backward of one"},
                                          {"after_ms", "after them"}};
    d->part[0].title = "Time of a step";
    add_number(d, 0, "step", UNIT_seconds, step, number(y, "step_ms") * 1e-3, step);
    add_number(d, 0, "tokens/s", UNIT_rate, number(in(x, "step"), "tokens_per_second"),
               number(in(y, "step"), "tokens_per_second"), 0);
    add_number(d, 0, "of the peak FLOP/s", UNIT_share, number(x, "mfu"), number(y, "mfu"), 0);
    add_number(d, 0, "microbatches", UNIT_count, number(px, "microbatches"),
               number(py, "microbatches"), 0);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        add_part(d, 0, part[i][1], UNIT_seconds, number(px, part[i][0]) * 1e-3,
                 number(py, part[i][0]) * 1e-3, step);
    add_part(d, 0, "computed again", UNIT_seconds, number(in(x, "recompute"), "again_ms") * 1e-3,
             number(in(y, "recompute"), "again_ms") * 1e-3, step);
    add_part(d, 0, "bubble", UNIT_share, number(x, "bubble"), number(y, "bubble"), 0);
}

static void add_kinds(Diff *d, const json_t *x, const json_t *y)
{
    d->part[1].title = "Time by kind of action";
    add_object(d, 1, in(x, "kinds_ms"), in(y, "kinds_ms"), UNIT_seconds, 1e-3,
               number(x, "step_ms") * 1e-3, "");
    for (size_t i = 0; i < d->part[1].rows.n; i++)
        d->part[1].rows.data[i].part = false;
}

static double planned(const json_t *o)
{
    return number(o, "arena_bytes") + number(o, "scratch_bytes") +
           number(in(o, "outside"), "bytes");
}

static void add_memory(Diff *d, const json_t *x, const json_t *y)
{
    Arena *a = d->a;
    const double whole = planned(x);
    Words levels = {0};
    d->part[2].title = "Memory of a rank at the peak";
    add_number(d, 2, "all", UNIT_bytes, whole, planned(y), whole);
    add_number(d, 2, "of the device's", UNIT_share, whole / number(x, "capacity_bytes"),
               planned(y) / number(y, "capacity_bytes"), 0);
    add_object(d, 2, in(x, "memory"), in(y, "memory"), UNIT_bytes, 1, whole, "");
    for (size_t i = 0; i < d->part[2].rows.n; i++)
        d->part[2].rows.data[i].part = i == 0;
    add_part(d, 2, "scratch of threads", UNIT_bytes, number(x, "scratch_bytes"),
             number(y, "scratch_bytes"), whole);
    add_part(d, 2, "beside the arena", UNIT_bytes, number(in(x, "outside"), "bytes"),
             number(in(y, "outside"), "bytes"), whole);
    d->part[2].rows.data[0].part = false;
    keys_of(d, in(x, "offloaded"), in(y, "offloaded"), &levels);
    for (size_t i = 0; i < levels.n; i++)
        add_part(d, 2, arena_printf(a, "on the %s", levels.data[i]), UNIT_bytes,
                 number(in(in(x, "levels"), levels.data[i]), "bytes"),
                 number(in(in(y, "levels"), levels.data[i]), "bytes"), whole);
}

static void add_waits(Diff *d, const json_t *x, const json_t *y)
{
    const double step = number(x, "step_ms") * 1e-3;
    d->part[3].title = "Exposed (nothing computes meanwhile)";
    add_number(d, 3, "communication", UNIT_seconds, number(x, "exposed_comm_ms") * 1e-3,
               number(y, "exposed_comm_ms") * 1e-3, step);
    add_object(d, 3, in(x, "exposed_ms"), in(y, "exposed_ms"), UNIT_seconds, 1e-3, step, "along ");
    add_number(d, 3, "transfers between levels", UNIT_seconds,
               number(in(x, "levels"), "exposed_ms") * 1e-3,
               number(in(y, "levels"), "exposed_ms") * 1e-3, step);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A row of `collectives` stands for one kind of message along one set of axes. */
static const char *message_name(Arena *a, const json_t *v)
{
    return arena_printf(a, "%s along %s%s", string(v, "kind"), string(v, "axis"),
                        json_is_true(in(v, "scalars")) ? ", numbers" : "");
}

/* Those of that name together: count, bytes, ms, exposed. */
static void message_sum(Diff *d, const json_t *plan, const char *name, double sum[4])
{
    static const char *const field[4] = {"count", "bytes", "ms", "exposed_ms"};
    size_t i;
    json_t *v;
    json_array_foreach(in(plan, "collectives"), i, v) {
        for (int k = 0; k < 4 && !strcmp(message_name(d->a, v), name); k++)
            sum[k] += number(v, field[k]);
    }
}

static const char *message_text(Arena *a, const double sum[4])
{
    if (!(sum[0] > 0))
        return "-";
    const char *exposed =
        sum[3] > 0 ? arena_printf(a, ", %s exposed", text_seconds(a, sum[3] * 1e-3)) : "";
    return arena_printf(a, "%.0f x, %s, %s%s", sum[0], text_bytes(a, sum[1]),
                        text_seconds(a, sum[2] * 1e-3), exposed);
}

static bool has_row(const DiffPart *p, const char *name)
{
    for (size_t i = 0; i < p->rows.n; i++)
        if (!strcmp(p->rows.data[i].name, name))
            return true;
    return false;
}

static void add_messages(Diff *d, const json_t *x, const json_t *y)
{
    Arena *a = d->a;
    DiffPart *part = &d->part[4];
    part->title = "Messages that a rank sends in a step";
    for (int side = 0; side < 2; side++) {
        size_t i;
        json_t *v;
        json_array_foreach(in(side ? y : x, "collectives"), i, v) {
            const char *name = message_name(a, v);
            double p[4] = {0}, q[4] = {0};
            if (has_row(part, name))
                continue;
            message_sum(d, x, name, p);
            message_sum(d, y, name, q);
            DiffRow r = {name, message_text(a, p), message_text(a, q), "", false, 0, false};
            r.differs = strcmp(r.a, r.b) != 0;
            if (r.differs)
                r.by = p[2] > q[2] || q[2] > p[2]
                           ? beside(a, UNIT_seconds, p[2] * 1e-3, q[2] * 1e-3)
                           : "differs";
            add(d, 4, r);
        }
    }
}

/* ---- the layout, and what mgc decided -------------------------------------------------------- */

/* "dp 2, tp 4"; axes of one rank are left out. */
static const char *mesh_of(Arena *a, const json_t *plan)
{
    const char *key, *text = "";
    json_t *v;
    json_object_foreach((json_t *)in(plan, "mesh"), key, v) {
        if (json_number_value(v) > 1)
            text =
                arena_printf(a, "%s%s%s %.0f", text, *text ? ", " : "", key, json_number_value(v));
    }
    return *text ? text : "one rank";
}

/* Texts of an object: "parameters f32, state bf16". */
static const char *texts_of(Arena *a, const json_t *o)
{
    const char *key, *text = "";
    json_t *v;
    json_object_foreach((json_t *)o, key, v) {
        if (json_is_string(v))
            text = arena_printf(a, "%s%s%s %s", text, *text ? ", " : "", key, json_string_value(v));
    }
    return text;
}

static const char *tensors_text(Arena *a, int n)
{
    return arena_printf(a, "%d tensor%s", n, n == 1 ? "" : "s");
}

/* The name of a row that says how many tensors are split so: "ffn over tp". */
static const char *split_name(Arena *a, const json_t *split)
{
    return arena_printf(a, "%s over %s", string(split, "dim"), string(split, "axis"));
}

static int split_count(Diff *d, const json_t *plan, const char *name)
{
    int n = 0;
    size_t i, k;
    json_t *tensor, *split;
    json_array_foreach(in(plan, "tensors"), i, tensor) {
        json_array_foreach(in(tensor, "split"), k, split) {
            n += !strcmp(split_name(d->a, split), name);
        }
    }
    return n;
}

static void add_splits(Diff *d, const json_t *x, const json_t *y)
{
    for (int side = 0; side < 2; side++) {
        size_t i, k;
        json_t *tensor, *split;
        json_array_foreach(in(side ? y : x, "tensors"), i, tensor) {
            json_array_foreach(in(tensor, "split"), k, split) {
                const char *name = split_name(d->a, split);
                if (!has_row(&d->part[5], name))
                    add_text(d, 5, name, tensors_text(d->a, split_count(d, x, name)),
                             tensors_text(d->a, split_count(d, y, name)));
            }
        }
    }
}

/* A field as it is in the file, without the marks of JSON: "forward pieces 2, turns true". */
static const char *as_written(Arena *a, const json_t *plan, const char *name)
{
    char *text = json_dumps(in(plan, name), JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY |
                                                JSON_REAL_PRECISION(4));
    char *copy = arena_alloc(a, text ? 2 * strlen(text) + 1 : 1), *to = copy;
    for (const char *c = text; c && *c; c++) {
        if (strchr("{}\"[]", *c))
            continue;
        *to++ = *c == ':' ? ' ' : *c;
        if (*c == ',')
            *to++ = ' ';
    }
    *to = 0;
    free(text);
    return copy;
}

static void add_layout(Diff *d, const json_t *x, const json_t *y)
{
    Arena *a = d->a;
    static const char *const more[] = {"pieces", "context", "experts",
                                       "stages", "scans",   "adapter"};
    d->part[5].title = "Layout";
    add_text(d, 5, "device", string(x, "device"), string(y, "device"));
    add_text(d, 5, "layout", string(x, "layout"), string(y, "layout"));
    add_number(d, 5, "ranks", UNIT_count, number(x, "ranks"), number(y, "ranks"), 0);
    add_text(d, 5, "mesh", mesh_of(a, x), mesh_of(a, y));
    add_number(d, 5, "parameters", UNIT_count, number(x, "params"), number(y, "params"), 0);
    add_number(d, 5, "sequences a step", UNIT_count, number(in(x, "step"), "sequences"),
               number(in(y, "step"), "sequences"), 0);
    add_number(d, 5, "tokens of one", UNIT_count, number(in(x, "step"), "length"),
               number(in(y, "step"), "length"), 0);
    add_number(d, 5, "at once", UNIT_count, number(in(x, "step"), "at_once"),
               number(in(y, "step"), "at_once"), 0);
    add_text(d, 5, "precision", string(x, "precision"), string(y, "precision"));
    add_text(d, 5, "kept in", texts_of(a, in(x, "kept")), texts_of(a, in(y, "kept")));
    add_splits(d, x, y);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        add_text(d, 5, more[i], as_written(a, x, more[i]), as_written(a, y, more[i]));
}

/* "layers 0 to 11 keep q, k, v; 12 to 31, 4 at a time, keep their input" */
static const char *ranges_of(Arena *a, const json_t *plan)
{
    const char *text = "";
    size_t i;
    json_t *v;
    json_array_foreach(in(in(plan, "recompute"), "ranges"), i, v) {
        const double first = number(v, "first"), n = number(v, "iterations");
        const double segment = number(v, "segment");
        text = arena_printf(a, "%s%s%s %.0f to %.0f%s keep %s", text, *text ? "; " : "",
                            string(v, "repeat"), first, first + n - 1,
                            segment > 1 ? arena_printf(a, ", %.0f at a time,", segment) : "",
                            string(v, "keep"));
    }
    return text;
}

/* "params 1.2 GiB, optimizer 3 GiB" */
static const char *bytes_of(Arena *a, const json_t *o)
{
    const char *key, *text = "";
    json_t *v;
    json_object_foreach((json_t *)o, key, v) {
        text = arena_printf(a, "%s%s%s %s", text, *text ? ", " : "", key,
                            text_bytes(a, json_number_value(v)));
    }
    return text;
}

static void add_decisions(Diff *d, const json_t *x, const json_t *y)
{
    Arena *a = d->a;
    Words levels = {0};
    d->part[6].title = "What mgc decided";
    add_text(d, 6, "recompute", string(in(x, "recompute"), "policy"),
             string(in(y, "recompute"), "policy"));
    add_text(d, 6, "layers keep", ranges_of(a, x), ranges_of(a, y));
    keys_of(d, in(x, "offloaded"), in(y, "offloaded"), &levels);
    for (size_t i = 0; i < levels.n; i++)
        add_text(d, 6, arena_printf(a, "offloaded to the %s", levels.data[i]),
                 bytes_of(a, in(in(x, "offloaded"), levels.data[i])),
                 bytes_of(a, in(in(y, "offloaded"), levels.data[i])));
    add_part(d, 6, "updates on the host", UNIT_seconds,
             number(in(x, "levels"), "host_kernels_ms") * 1e-3,
             number(in(y, "levels"), "host_kernels_ms") * 1e-3, 0);
}

/* Ranks of a pipeline, some of which compute more: the first has tables, the last the loss. */
static void add_stages(Diff *d, double step)
{
    d->part[7].title = "Computing, by rank of the pipeline";
    for (size_t i = 0; i < d->stages.n; i++) {
        const DiffStage *s = &d->stages.data[i];
        if (s->row[0] && s->row[1])
            add_number(d, 7, s->name, UNIT_seconds, number(s->row[0], "computes"),
                       number(s->row[1], "computes"), step);
    }
    for (size_t i = 0; i < d->part[7].rows.n; i++)
        d->part[7].rows.data[i].part = true;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static const char *more_or_less(Arena *a, Unit unit, double x, double y, const char *as)
{
    if (fabs(x - y) <= 1e-6 * fmax(x, y))
        return as;
    return arena_printf(a, "%s (%.1f%%) %s than A", amount(a, unit, fabs(y - x)),
                        x > 0 ? 100 * fabs(y / x - 1) : 0, y > x ? "more" : "less");
}

static const char *verdict(Arena *a, const json_t *x, const json_t *y)
{
    const double s = number(x, "step_ms") * 1e-3, t = number(y, "step_ms") * 1e-3;
    const double p = number(in(x, "step"), "tokens_per_second");
    const double q = number(in(y, "step"), "tokens_per_second");
    const char *rate =
        p > 0 ? arena_printf(a, " It trains %s times as many tokens a second.", text_rate(a, q / p))
              : "";
    return arena_printf(a, "B takes %s a step, %s, and %s of memory, %s.%s", text_seconds(a, t),
                        more_or_less(a, UNIT_seconds, s, t, "as long as A"),
                        text_bytes(a, planned(y)),
                        more_or_less(a, UNIT_bytes, planned(x), planned(y), "as much as A"), rate);
}

void diff_rows(Diff *d)
{
    const json_t *x = d->side[0].plan, *y = d->side[1].plan;
    add_time(d, x, y);
    add_kinds(d, x, y);
    add_memory(d, x, y);
    add_waits(d, x, y);
    add_messages(d, x, y);
    add_layout(d, x, y);
    add_decisions(d, x, y);
    diff_stages(d);
    add_stages(d, number(x, "step_ms") * 1e-3);
    d->verdict = verdict(d->a, x, y);
}
