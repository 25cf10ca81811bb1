/* dynamic8.h - numbers of 8 bits that lie the closer the smaller they are, for state of optimizers:
 * the dynamic quantization of bitsandbytes (Dettmers: 8-bit approximations for parallelism in deep
 * learning; 2016), whose `create_dynamic_map` gives the numbers below.
 *
 *   udynamic8  256 numbers from 0 to 1. Seven decades from 1e-7 to 1 have 2, 4, 8, ... 128, the
 *              middles of equal parts; and 0 and 1. The bits are the number's place.
 *   dynamic8   the same with a sign: decades of 1, 2, 4, ... 64 numbers on each side, 0 and 1, but
 *              not -1. The bits are its place, counted from that of 0 in both directions, as an
 *              integer of 8 bits; 128 is 1.
 *
 * So what is all zeros is 0. A float becomes the nearest number; of two that are as near the lower.
 * A float beyond the last number, and a NaN, becomes that number. Two numbers are as far as their
 * middle says, which is a float. bitsandbytes' code is the place, of dynamic8 plus 127. */
#ifndef MG_DYNAMIC8_H
#define MG_DYNAMIC8_H

#include <stdint.h>

#ifndef MG_DYNAMIC8_TABLE /* of CUDA its own */
#define MG_DYNAMIC8_TABLE static const
#define MG_DYNAMIC8_CODE  static inline
#endif

/* clang-format off */
/* Numbers from 0 on, of dynamic8 and of udynamic8, as tests/codegen/dynamic8.py prints them. */
MG_DYNAMIC8_TABLE float mg_dynamic8[129] = {
    0.0f, 5.5000004e-07f, 3.2500002e-06f, 7.75e-06f, 2.1249998e-05f, 4.375e-05f, 6.625e-05f,
    8.875e-05f, 0.00015625001f, 0.00026875004f, 0.00038125002f, 0.00049375003f, 0.0006062501f,
    0.00071875006f, 0.00083125f, 0.0009437501f, 0.0012812499f, 0.00184375f, 0.00240625f,
    0.00296875f, 0.0035312497f, 0.00409375f, 0.0046562497f, 0.0052187503f, 0.00578125f,
    0.00634375f, 0.00690625f, 0.00746875f, 0.00803125f, 0.00859375f, 0.009156249f, 0.00971875f,
    0.01140625f, 0.01421875f, 0.01703125f, 0.019843752f, 0.02265625f, 0.02546875f, 0.028281251f,
    0.03109375f, 0.03390625f, 0.036718752f, 0.03953125f, 0.042343747f, 0.04515625f, 0.04796875f,
    0.05078125f, 0.05359375f, 0.05640625f, 0.059218753f, 0.06203125f, 0.06484375f, 0.067656256f,
    0.070468746f, 0.07328125f, 0.07609375f, 0.07890625f, 0.08171876f, 0.08453125f, 0.08734375f,
    0.09015625f, 0.092968754f, 0.09578126f, 0.09859375f, 0.107031256f, 0.12109375f, 0.13515624f,
    0.14921875f, 0.16328125f, 0.17734376f, 0.19140625f, 0.20546874f, 0.21953125f, 0.23359375f,
    0.24765624f, 0.26171875f, 0.27578127f, 0.28984374f, 0.30390626f, 0.31796873f, 0.33203125f,
    0.34609374f, 0.36015624f, 0.37421876f, 0.38828123f, 0.40234375f, 0.41640624f, 0.43046874f,
    0.44453126f, 0.45859373f, 0.47265625f, 0.4867187f, 0.50078124f, 0.5148437f, 0.5289062f,
    0.54296875f, 0.5570313f, 0.5710938f, 0.58515626f, 0.5992187f, 0.61328125f, 0.6273438f,
    0.6414063f, 0.65546876f, 0.6695312f, 0.68359375f, 0.6976563f, 0.7117188f, 0.72578126f,
    0.7398437f, 0.75390625f, 0.7679688f, 0.78203124f, 0.79609376f, 0.8101562f, 0.82421875f,
    0.8382813f, 0.85234374f, 0.86640626f, 0.8804687f, 0.89453125f, 0.9085938f, 0.92265624f,
    0.93671876f, 0.9507812f, 0.96484375f, 0.9789063f, 0.99296874f, 1.0f};
MG_DYNAMIC8_TABLE float mg_udynamic8[256] = {
    0.0f, 3.2500003e-07f, 7.75e-07f, 2.1249998e-06f, 4.3749997e-06f, 6.625e-06f, 8.874999e-06f,
    1.5624999e-05f, 2.6875001e-05f, 3.8125e-05f, 4.9374998e-05f, 6.0625003e-05f, 7.1875e-05f,
    8.312499e-05f, 9.4375e-05f, 0.000128125f, 0.000184375f, 0.00024062501f, 0.00029687502f,
    0.00035312498f, 0.00040937503f, 0.00046562502f, 0.00052187504f, 0.000578125f, 0.000634375f,
    0.00069062505f, 0.000746875f, 0.0008031251f, 0.00085937505f, 0.000915625f, 0.00097187504f,
    0.001140625f, 0.001421875f, 0.001703125f, 0.001984375f, 0.002265625f, 0.0025468748f,
    0.002828125f, 0.0031093748f, 0.0033906251f, 0.003671875f, 0.003953125f, 0.0042343745f,
    0.004515625f, 0.0047968747f, 0.005078125f, 0.005359375f, 0.0056406246f, 0.005921875f,
    0.0062031248f, 0.006484375f, 0.0067656254f, 0.0070468746f, 0.007328125f, 0.0076093744f,
    0.007890625f, 0.008171875f, 0.008453124f, 0.008734375f, 0.009015624f, 0.0092968745f,
    0.009578126f, 0.009859375f, 0.010703126f, 0.012109376f, 0.013515624f, 0.014921876f,
    0.016328124f, 0.017734377f, 0.019140625f, 0.020546874f, 0.021953126f, 0.023359375f,
    0.024765624f, 0.026171876f, 0.027578129f, 0.028984373f, 0.030390626f, 0.031796873f,
    0.033203125f, 0.034609374f, 0.036015626f, 0.03742188f, 0.038828123f, 0.040234376f,
    0.041640624f, 0.043046873f, 0.044453125f, 0.045859374f, 0.047265626f, 0.04867187f,
    0.050078124f, 0.051484372f, 0.052890625f, 0.054296877f, 0.05570313f, 0.057109382f,
    0.058515627f, 0.059921872f, 0.061328124f, 0.06273438f, 0.06414063f, 0.06554688f, 0.06695312f,
    0.068359375f, 0.06976563f, 0.07117188f, 0.072578125f, 0.07398438f, 0.07539063f, 0.07679688f,
    0.07820313f, 0.07960938f, 0.081015624f, 0.08242188f, 0.08382813f, 0.085234374f, 0.086640626f,
    0.08804687f, 0.08945312f, 0.090859376f, 0.09226563f, 0.09367188f, 0.095078126f, 0.09648438f,
    0.09789063f, 0.099296875f, 0.103515625f, 0.11054687f, 0.11757813f, 0.12460937f, 0.13164061f,
    0.13867188f, 0.14570314f, 0.15273437f, 0.15976563f, 0.16679686f, 0.17382812f, 0.18085939f,
    0.18789062f, 0.19492188f, 0.20195311f, 0.20898438f, 0.21601564f, 0.22304687f, 0.23007813f,
    0.23710936f, 0.24414062f, 0.25117186f, 0.25820312f, 0.26523438f, 0.2722656f, 0.27929688f,
    0.28632814f, 0.29335937f, 0.3003906f, 0.30742186f, 0.31445312f, 0.3214844f, 0.32851562f,
    0.33554685f, 0.3425781f, 0.34960938f, 0.35664064f, 0.36367187f, 0.3707031f, 0.37773436f,
    0.38476562f, 0.3917969f, 0.39882812f, 0.40585935f, 0.4128906f, 0.41992188f, 0.42695314f,
    0.43398437f, 0.4410156f, 0.44804686f, 0.45507812f, 0.4621094f, 0.46914062f, 0.47617185f,
    0.4832031f, 0.49023438f, 0.4972656f, 0.5042969f, 0.5113281f, 0.51835936f, 0.5253906f,
    0.5324218f, 0.53945315f, 0.54648435f, 0.5535157f, 0.5605469f, 0.56757814f, 0.5746094f,
    0.5816406f, 0.5886719f, 0.5957031f, 0.6027344f, 0.60976565f, 0.61679685f, 0.6238282f,
    0.6308594f, 0.63789064f, 0.6449219f, 0.6519531f, 0.6589844f, 0.6660156f, 0.6730469f,
    0.68007815f, 0.68710935f, 0.6941407f, 0.7011719f, 0.70820314f, 0.7152344f, 0.7222656f,
    0.7292969f, 0.7363281f, 0.7433594f, 0.75039065f, 0.75742185f, 0.7644532f, 0.7714844f,
    0.7785156f, 0.7855469f, 0.7925781f, 0.7996094f, 0.8066406f, 0.8136718f, 0.82070315f,
    0.82773435f, 0.8347657f, 0.8417969f, 0.8488281f, 0.8558594f, 0.8628906f, 0.8699219f,
    0.8769531f, 0.8839843f, 0.89101565f, 0.89804685f, 0.9050782f, 0.9121094f, 0.9191406f,
    0.9261719f, 0.9332031f, 0.9402344f, 0.9472656f, 0.9542968f, 0.96132815f, 0.96835935f,
    0.9753907f, 0.9824219f, 0.9894531f, 0.9964844f, 1.0f};
/* clang-format on */

/* The place of the number nearest to a, 0 <= a <= 1; `first` is how many the lowest decade has. As
 * a decade's numbers lie in equal steps, arithmetic finds the place or the one below it, and one
 * comparison the place. up: of two that are as near the second, else the first. */
MG_DYNAMIC8_CODE int mg_dynamic8_place(float a, const float *size, int first, int up)
{
    float scale = (float)first * (1e6f / 0.9f), count = (float)first;
    for (int d = 1; d < 7; d++) {
        const int k = (first << d) - first;
        const int above = a > (size[k] + size[k + 1]) * 0.5f;
        scale = above ? scale * 0.2f : scale;
        count = above ? count * 2 : count;
    }
    float at = a * scale + count * (8.0f / 9) - 0.5f;
    at = at < count ? count : at > 2 * count - 1 ? 2 * count - 1 : at;
    const int k = (int)at - (first - 1);
    const float middle = (size[k] + size[k + 1]) * 0.5f, least = size[1] * 0.5f;
    return (up ? a >= least : a > least) ? k + (up ? a >= middle : a > middle) : 0;
}

MG_DYNAMIC8_CODE float mg_from_udynamic8(uint8_t bits)
{
    return mg_udynamic8[bits];
}

MG_DYNAMIC8_CODE uint8_t mg_to_udynamic8(float x)
{
    return (uint8_t)mg_dynamic8_place(x <= 1 ? x > 0 ? x : 0 : 1, mg_udynamic8, 2, 0);
}

MG_DYNAMIC8_CODE float mg_from_dynamic8(uint8_t bits)
{
    return bits > 128 ? -mg_dynamic8[256 - bits] : mg_dynamic8[bits];
}

MG_DYNAMIC8_CODE uint8_t mg_to_dynamic8(float x)
{
    const float size = x < 0 ? -x : x;
    const int k = mg_dynamic8_place(size <= 1 ? size : 1, mg_dynamic8, 1, x < 0);
    return (uint8_t)(x < 0 ? (k < 127 ? -k : -127) : k);
}

#endif
