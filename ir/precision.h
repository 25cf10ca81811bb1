/* precision.h - what numbers a program computes in, in words, and who decided it. */
#ifndef MGC_PRECISION_H
#define MGC_PRECISION_H

/* The one who chose the precision: a text of the IR, the train block, --precision; or nobody, and
 * it is the default of the device. */
typedef enum PrecisionBy {
    PRECISION_by_text,
    PRECISION_by_source,
    PRECISION_by_option,
    PRECISION_by_gpu,
    PRECISION_by_processor
} PrecisionBy;

struct Train;
const char *precision_name(const struct Train *t); /* as the setting has it: "bf16" */
const char *precision_reason(const struct Train *t);

#endif
