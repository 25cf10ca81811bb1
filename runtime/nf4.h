/* nf4.h - NF4, the numbers of 4 bits of QLoRA (Dettmers et al. 2023), as bitsandbytes has them: the
 * quantiles of a normal distribution, from -1 to 1. A byte has two of them. */
#ifndef MG_NF4_H
#define MG_NF4_H

#ifndef MG_NF4_TABLE /* of CUDA its own */
#define MG_NF4_TABLE static const
#define MG_NF4_CODE  static inline
#endif

MG_NF4_TABLE float mg_nf4_number[16] = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};

/* Of the byte `pair` the number of the high bits, or, if `low` is not 0, of the low ones. What is
 * no byte counts as the nearest one, and a NaN as 0. */
MG_NF4_CODE float mg_nf4f(float pair, float low)
{
    const float most = pair < 255.0f ? pair : 255.0f;
    const int byte = (int)(pair > 0.0f ? most : 0.0f);
    return mg_nf4_number[low != 0.0f ? byte & 15 : byte >> 4];
}

MG_NF4_CODE double mg_nf4(double pair, double low)
{
    const double most = pair < 255.0 ? pair : 255.0;
    const int byte = (int)(pair > 0.0 ? most : 0.0);
    return (double)mg_nf4_number[low != 0.0 ? byte & 15 : byte >> 4];
}

#endif
