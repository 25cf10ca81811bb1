/* level.c - the names of levels of memory, and of where the optimizer runs. */
#include "base/level.h"

const char *const level_names[LEVEL_count] = {"device", "host", "disk"};
const char *const optimizer_at_names[OPTIMIZER_count] = {"auto", "device", "host"};
