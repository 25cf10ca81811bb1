/* words.h - the words of layouts by number: for the front end, which reads them, and for searches,
 * which write layouts. Those of classes, of what is kept and of levels are in ir/layout.h, those of
 * schedules in pipeline/pipeline.h. */
#ifndef MGC_GRAMMAR_WORDS_H
#define MGC_GRAMMAR_WORDS_H

typedef enum LayoutSetting {
    SETTING_device,
    SETTING_mesh,
    SETTING_microbatch,
    SETTING_recompute,
    SETTING_chunk,
    SETTING_assert,
    SETTING_pad,
    SETTING_offload,
    SETTING_optimizer,
    SETTING_precision, /* of `layout auto` alone */
    SETTING_count
} LayoutSetting;
extern const char *const setting_names[SETTING_count + 1]; /* the last is NULL */
/* SETTING_count: it is none. */
LayoutSetting setting_named(const char *name);

/* Options of an axis of a rule: words, then those with a value, of which the last is a list. */
typedef enum AxisOption {
    AXIS_zigzag,
    AXIS_heads,
    AXIS_ring,
    AXIS_rows,
    AXIS_gather,
    AXIS_once,
    AXIS_schedule,
    AXIS_chunks,
    AXIS_group,
    AXIS_bound,
    AXIS_pairs,
    AXIS_stages,
    AXIS_count
} AxisOption;
extern const char *const axis_options[AXIS_count + 1]; /* the last is NULL */

/* `offload none`, `offload auto`. */
typedef enum OffloadWay { OFFLOAD_WAY_none, OFFLOAD_WAY_auto, OFFLOAD_WAY_count } OffloadWay;
extern const char *const offload_ways[OFFLOAD_WAY_count + 1]; /* the last is NULL */

#endif
