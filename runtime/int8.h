/* int8.h - numbers in 8 bits with one absmax a row, as bitsandbytes' int8_vectorwise_quant has
 * them: codes from -127 to 127, here with 128 added, in units of absmax / 127. */
#ifndef MG_INT8_H
#define MG_INT8_H

#define MG_INT8_ZERO 128
#define MG_INT8_UNIT 7.874015718698502e-3f /* 1 / 127, as bitsandbytes multiplies by it */

#endif
