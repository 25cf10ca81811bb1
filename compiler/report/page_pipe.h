/* page_pipe.h - see page_pipe.c. */
#ifndef MGC_PAGE_PIPE_H
#define MGC_PAGE_PIPE_H

#include "plan/plan.h"

#include <jansson.h>

/* Of each rank along the axis of stages what it does when, how long it is idle (seconds) and how
 * many slots it has. The caller's; NULL: the step has no pipeline. */
json_t *page_pipeline(const Plan *p);

#endif
