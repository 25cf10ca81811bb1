/* fuzz_watch.c - libFuzzer target: any bytes as metrics.jsonl, read in two pieces; the first byte
 * says where they part. The run is drawn in some sizes and written as a board's JSON. Steps rise in
 * each series, and means lie between least and greatest. */
#include <math.h>
#include <stdlib.h>

#include "compiler/watch/board.h"
#include "compiler/watch/show.h"
#include "tests/fuzz/caught.h"

static void check(const Watched *w)
{
    for (size_t i = 0; i < w->series.n; i++) {
        const Series *s = &w->series.data[i];
        for (size_t k = 0; k < s->bins.n; k++) {
            const Bin *b = &s->bins.data[k];
            if (b->n < 1 || b->n > s->per || b->first > b->last || b->min > b->max ||
                (k && s->bins.data[k - 1].last >= b->first))
                abort();
        }
    }
}

static void draw(const Watched *w, int rows, int columns, bool utf8)
{
    for (int tab = -1; tab < 3; tab++) {
        Arena *a = arena_new();
        const View v = {
            .runs = 1, .tab = tab, .log = tab & 1, .smooth = tab & 2, .zoom = tab > 1 ? 3 : 0};
        const Frame *f = show_run(a, w, &v, rows, columns, utf8, 1e9);
        for (int i = 0; i < f->rows * f->columns; i++)
            if (f->cells[i].c < 0x20 ? f->cells[i].c != 0 : f->cells[i].c > 0x7e && !utf8)
                abort();
        arena_free(a);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const size_t part = 1 + (size - 1) * data[0] / 256;
    Arena *a = arena_new();
    Watched *w = watched_open(a, fuzz_folder(), "run");
    fuzz_file("metrics.jsonl", data + 1, part - 1);
    watched_read(w);
    check(w);
    fuzz_file("metrics.jsonl", data + 1, size - 1);
    watched_read(w);
    check(w);
    draw(w, 24, 80, true);
    draw(w, 40, 130, false);
    draw(w, 12, 50, true);
    json_t *o = board_json(&w, 1, true);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text)
        abort();
    free(text);
    json_decref(o);
    watched_close(w);
    arena_free(a);
    return 0;
}
