/* words.c - the words of layouts; see words.h. */
#include "grammar/words.h"

#include <string.h>

const char *const setting_names[SETTING_count + 1] = {
    "device", "mesh",    "microbatch", "recompute", "chunk", "assert",
    "pad",    "offload", "optimizer",  "precision", NULL};

const char *const axis_options[AXIS_count + 1] = {"zigzag", "heads",    "ring",   "rows",  "gather",
                                                  "once",   "schedule", "chunks", "group", "bound",
                                                  "pairs",  "stages",   NULL};

const char *const offload_ways[OFFLOAD_WAY_count + 1] = {"none", "auto", NULL};

LayoutSetting setting_named(const char *name)
{
    int k = 0;
    while (setting_names[k] && strcmp(setting_names[k], name))
        k++;
    return (LayoutSetting)k;
}
