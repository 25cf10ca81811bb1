/* vjp_rules.h - private to vjp.c and vjp_text.c. */
#ifndef MGC_VJP_RULES_H
#define MGC_VJP_RULES_H

#include "ir/vjp.h"

void vjp_pointwise(Vjp *v);

#endif
