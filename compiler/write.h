/* write.h - from a plan to what the options ask for. */
#ifndef MGC_WRITE_H
#define MGC_WRITE_H

#include "compiler/session.h"

Exit write_outputs(Session *s, const Compiled *c);

#endif
