/* history.h - the losses of a run as metrics.jsonl has them, and as they are drawn; TensorBoard's
 * records. */
#ifndef MG_HISTORY_H
#define MG_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_point {
    int64_t step;
    double value;
} rt_point;
typedef struct rt_points {
    rt_point *item;
    size_t n, cap;
} rt_points;
typedef struct rt_history {
    rt_points loss, val;
} rt_history;
void rt_points_add(rt_points *p, int64_t step, double value);
/* Reads metrics.jsonl up to and including `step`, and cuts off the rest of the file and a torn last
 * line; alerts stay. False with errno if the file could not be rewritten. */
bool rt_history_read(rt_history *h, const char *path, int64_t step);
void rt_history_free(rt_history *h);

typedef struct rt_tfevents rt_tfevents;
size_t rt_tf_header(uint8_t out[64], double wall_time);
size_t rt_tf_scalar(uint8_t out[256], double wall_time, int64_t step, const char *tag, float x);
/* A text, for the tab of that name; the caller frees it. */
uint8_t *rt_tf_text(double wall_time, int64_t step, const char *tag, const char *text,
                    size_t *size);
size_t rt_tf_start(uint8_t out[64], double wall_time, int64_t step);

/* Draws the loss; NULL, or the error. */
const char *rt_svg_write(const char *path, const rt_history *h, const char *title,
                         const char *subtitle);

#endif
