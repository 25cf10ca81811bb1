/* ends.h - SIGINT, SIGTERM and SIGHUP as a question, for what goes on until it is told to end. */
#ifndef MGC_WATCH_ENDS_H
#define MGC_WATCH_ENDS_H

#include <stdbool.h>

void ends_catch(void);
bool ends_now(void); /* one of them came since */

#endif
