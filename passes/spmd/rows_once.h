/* rows_once.h - rules that send a position's row once to a rank's peers. */
#ifndef MGC_PASSES_ROWS_ONCE_H
#define MGC_PASSES_ROWS_ONCE_H

#include "ir/ir.h"

/* Can each rule with `once` be followed by this program? False: one cannot; told (MG0348). */
bool rows_once_is_possible(const Module *m);

#endif
