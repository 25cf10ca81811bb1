/* diff.h - mgc diff: two plans side by side. */
#ifndef MGC_DIFF_H
#define MGC_DIFF_H

#include "compiler/session.h"

/* The two words of the command line: as text on standard output, and with --report as a page. */
Exit command_diff(Session *s);

#endif
