/* history.c - reads metrics.jsonl back, and cuts it off after the step that is resumed. Alerts
 * stay: they are of machines, and not of steps that are done again. */
#include "runtime/log/history.h"
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/json.h"

void rt_points_add(rt_points *p, int64_t step, double value)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 1024;
        p->item = rt_grow(p->item, p->cap, sizeof *p->item);
    }
    p->item[p->n++] = (rt_point){step, value};
}

void rt_history_free(rt_history *h)
{
    free(h->loss.item);
    free(h->val.item);
    *h = (rt_history){0};
}

typedef struct line {
    int64_t step;
    double loss, val_loss;
    bool has_step, has_loss, has_val;
    bool is_alert; /* of --health */
} line;

/* Parses a whole object with a step; other keys may have any value. */
static bool parse_line(const char *text, size_t n, line *l)
{
    rt_json j;
    rt_json_begin(&j, text, n);
    *l = (line){0};
    rt_json_enter(&j, '{');
    while (rt_json_key(&j)) {
        if (strcmp(j.text, "step") == 0)
            l->has_step = rt_json_int(&j, &l->step);
        else if (strcmp(j.text, "loss") == 0)
            l->has_loss = !rt_json_null(&j) && rt_json_number(&j, &l->loss);
        else if (strcmp(j.text, "val_loss") == 0)
            l->has_val = !rt_json_null(&j) && rt_json_number(&j, &l->val_loss);
        else if (strcmp(j.text, "event") == 0)
            l->is_alert = rt_json_string(&j) && strcmp(j.text, "alert") == 0;
        else
            rt_json_skip(&j);
    }
    bool good = rt_json_end(&j) && l->has_step;
    rt_json_free(&j);
    return good;
}

/* Of no file, no text. */
static char *read_whole(const char *path, size_t *n)
{
    char *text = rt_file_whole(path, O_NOFOLLOW, INT64_MAX, n);
    return text || errno != ENOENT ? text : rt_alloc(1, 1);
}

/* Replaces the file by text[0..n), atomically. */
static bool rewrite(const char *path, const char *text, size_t n)
{
    char *tmp = rt_printf("%s.tmp", path);
    FILE *f = rt_file_create(tmp);
    bool good = f && fwrite(text, 1, n, f) == n && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f))
        good = false;
    good = good && rename(tmp, path) == 0;
    int e = errno;
    if (!good)
        unlink(tmp);
    free(tmp);
    errno = e;
    return good;
}

bool rt_history_read(rt_history *h, const char *path, int64_t step)
{
    size_t n, kept = 0;
    char *text = read_whole(path, &n);
    if (!text)
        return false;
    for (size_t at = 0; at < n;) {
        char *newline = memchr(text + at, '\n', n - at);
        line l;
        if (!newline) /* torn by a kill */
            break;
        size_t length = (size_t)(newline - text) + 1 - at;
        if (parse_line(text + at, length, &l) && (l.step <= step || l.is_alert)) {
            if (l.has_loss)
                rt_points_add(&h->loss, l.step, l.loss);
            if (l.has_val)
                rt_points_add(&h->val, l.step, l.val_loss);
            memmove(text + kept, text + at, length);
            kept += length;
        }
        at += length;
    }
    bool good = kept == n || rewrite(path, text, kept);
    free(text);
    return good;
}
