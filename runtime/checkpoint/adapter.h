/* adapter.h - an adapter's program: what its checkpoints hold, and what it makes of its base. */
#ifndef MG_ADAPTER_H
#define MG_ADAPTER_H

#include "runtime/run.h"

#define RT_ADAPTER_FILE   "adapter_model.safetensors" /* the names are PEFT's */
#define RT_ADAPTER_CONFIG "adapter_config.json"
#define RT_ADAPTER_PREFIX "base_model.model."

/* The tensors of a catalog that are an adapter's, or those of the model: what is trained whole is
 * of both. It shares forms and names: free `item` alone. */
rt_catalog rt_adapter_part(const rt_catalog *all, bool adapter);
/* The name that a tensor has in the model: what is trained whole has another in an adapter's files.
 */
char *rt_adapter_plain(const rt_external *x);
/* The parameters that --export writes: all but an adapter, and copies that stay as they began. */
rt_catalog rt_exported(const rt_catalog *all);
/* adapter_config.json of a checkpoint; owned by the caller. */
char *rt_adapter_config(const mg_run *r);
/* Whether adapter_config.json in `dir` is of an adapter as this program's; ends the program with
 * 65. */
void rt_adapter_check(const mg_run *r, const char *dir);
/* Magnitudes that no file gave (w, or NULL) begin as the lengths of their matrix' rows. */
void rt_adapter_begin(mg_run *r, const rt_weights *w);
/* The elements of a matrix with what its adapter adds, in the order of files and its dtype; NULL:
 * it has none. Owned by the caller. */
char *rt_adapter_merged(mg_run *r, const rt_external *x);

#endif
