/* level.c - the names of levels of memory. */
#include "base/level.h"

const char *const level_names[LEVEL_count] = {"device", "host", "disk"};
