/* abi.c - the name of this runtime's ABI: abi_types.h. It lies apart, so that programs with a main
 * of their own (tests) find it, too. */
#include "runtime/abi.h"

const int MG_ABI_OBJECT = MG_ABI;
