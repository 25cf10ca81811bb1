/* product.c - computes one thread's part of a product: chooses the body. */
#include "kernels/product.h"
#include "kernels/amx.h"
#include "kernels/amx_few.h"
#include "kernels/isa.h"
#include "kernels/pairs.h"

#define MGK_BODY "kernels/product_body.h"
#include "kernels/each_isa.h"

typedef void Product(const mgk_product *w, void *scratch);
static Product *const product[][MGK_FLOATS] = MGK_TABLE(product);

void mgk_product_part(const mgk_product *w, void *scratch)
{
    product[mgk_isa()][mgk_float(w->d->dtype, "mg_gemm")](w, scratch);
}
