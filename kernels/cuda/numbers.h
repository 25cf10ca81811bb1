/* numbers.h - exponentials and logarithms of the compute types; halves that are read and written
 * two in a word. */
#ifndef MG_CUDA_NUMBERS_H
#define MG_CUDA_NUMBERS_H

/* ---- exponentials ------------------------------------------------------------------------- */

__device__ static inline float mg_exp(float x)
{
    return expf(x);
}
__device__ static inline double mg_exp(double x)
{
    return exp(x);
}
__device__ static inline float mg_log(float x)
{
    return logf(x);
}
__device__ static inline double mg_log(double x)
{
    return log(x);
}
__device__ static inline float mg_log2(float x)
{
    return log2f(x);
}
__device__ static inline double mg_log2(double x)
{
    return log2(x);
}

/* 2^x to 2 ulp; 0 if the result is below the least normal number; a NaN stays a NaN. */
#ifdef MG_SHIM
__device__ static inline float mg_exp2(float x)
{
    return exp2f(x);
}
#else
__device__ static inline float mg_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
__device__ static inline double mg_exp2(double x)
{
    return exp2(x);
}

/* The greater one; of a number and a NaN, the number: one instruction. */
__device__ static inline float mg_max_number(float a, float b)
{
    return fmaxf(a, b);
}
__device__ static inline double mg_max_number(double a, double b)
{
    return fmax(a, b);
}

/* ---- words of halves ---------------------------------------------------------------------- */

/* Packs two numbers, rounded to halves, into a word: `low` into its low half. mg_unpack is the
 * other way. The compiler needs more instructions for halves that are apart. */
template <class T> __device__ static inline uint32_t mg_pack(float low, float high);
template <class T> __device__ static inline void mg_unpack(uint32_t word, float *x);
#ifdef MG_SHIM
template <class T> __device__ static inline uint32_t mg_pack(float low, float high)
{
    return (uint32_t)mg_narrow<T>(high).bits << 16 | mg_narrow<T>(low).bits;
}
template <class T> __device__ static inline void mg_unpack(uint32_t word, float *x)
{
    x[0] = mg_wide(T{(uint16_t)word});
    x[1] = mg_wide(T{(uint16_t)(word >> 16)});
}
#else
#define MG_PACK(T, name)                                                                           \
    template <> __device__ inline uint32_t mg_pack<T>(float low, float high)                       \
    {                                                                                              \
        uint32_t r;                                                                                \
        asm("cvt.rn." name ".f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));                    \
        return r;                                                                                  \
    }
MG_PACK(mg_bf16, "bf16x2")
MG_PACK(mg_f16, "f16x2")
template <> __device__ inline void mg_unpack<mg_bf16>(uint32_t word, float *x)
{
    x[0] = __uint_as_float(word << 16);
    x[1] = __uint_as_float(word & 0xffff0000u);
}
template <> __device__ inline void mg_unpack<mg_f16>(uint32_t word, float *x)
{
    asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %2;\n\t"
        "cvt.f32.f16 %0, low;\n\tcvt.f32.f16 %1, high;\n\t}"
        : "=f"(x[0]), "=f"(x[1])
        : "r"(word));
}
#endif

/* ---- vectors in their compute type -------------------------------------------------------- */

template <class T> struct mg_is_half {
    enum { value = 0 };
};
template <> struct mg_is_half<mg_bf16> {
    enum { value = 1 };
};
template <> struct mg_is_half<mg_f16> {
    enum { value = 1 };
};

template <class T, int N, bool words> struct mg_vector_of {
    typedef typename mg_wider<T>::type A;
    __device__ static void read(const T *p, A *x)
    {
        const mg_vec<T, N> v = *(const mg_vec<T, N> *)p;
        MG_UNROLL
        for (int i = 0; i < N; i++)
            x[i] = mg_wide(v.x[i]);
    }
    __device__ static void write(T *p, const A *x)
    {
        mg_vec<T, N> v;
        MG_UNROLL
        for (int i = 0; i < N; i++)
            v.x[i] = mg_narrow<T>(x[i]);
        *(mg_vec<T, N> *)p = v;
    }
};
template <class T, int N> struct mg_vector_of<T, N, true> {
    typedef mg_vec<uint32_t, N / 2> words;
    __device__ static void read(const T *p, float *x)
    {
        const words v = *(const words *)p;
        MG_UNROLL
        for (int i = 0; i < N / 2; i++)
            mg_unpack<T>(v.x[i], x + 2 * i);
    }
    __device__ static void write(T *p, const float *x)
    {
        words v;
        MG_UNROLL
        for (int i = 0; i < N / 2; i++)
            v.x[i] = mg_pack<T>(x[2 * i], x[2 * i + 1]);
        *(words *)p = v;
    }
};

/* Reads N elements from p on at once, as x in their compute type; or writes them, rounded. p is a
 * multiple of their size in bytes. */
template <int N, class T, class A> __device__ static inline void mg_read(const T *p, A *x)
{
    mg_vector_of<T, N, mg_is_half<T>::value && N % 2 == 0>::read(p, x);
}
template <int N, class T, class A> __device__ static inline void mg_write(T *p, const A *x)
{
    mg_vector_of<T, N, mg_is_half<T>::value && N % 2 == 0>::write(p, x);
}

/* Elements of 16 bytes. */
template <class T> struct mg_wide_vector {
    enum { n = 16 / sizeof(T) };
};

#endif
