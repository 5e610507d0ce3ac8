/* OpenCL C for CUDA's compiler at run time (NVRTC): stands before a text of kernels/opencl, so that both backends launch
 * the same kernels. Only what those texts use, on a GPU, is here. Functions that a text defines are the device's
 * (-default-device).
 *
 * EMULATED: what is written in PTX is somebody else's. GRID_Y, GRID_Z: where there are more groups in these dimensions than CUDA counts there, all lie in the first. */
#define CUDA 1
#define GLOBAL
#define local
#define __global
#define __kernel extern "C" __global__
#define restrict __restrict__
#define SHARED __shared__
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif
#define MAKE(type) type
#define CHOOSE(which, a, b) braid_choose(which, a, b)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* --- places --------------------------------------------------------------------------------------------------------
 */
#ifdef GRID_Y
#define BRAID_GROUPS (gridDim.x / ((unsigned long)GRID_Y * GRID_Z))
inline unsigned long get_group_id(int d) {
  const unsigned long at = blockIdx.x;
  return d == 0 ? at % BRAID_GROUPS : d == 1 ? at / BRAID_GROUPS % GRID_Y : at / BRAID_GROUPS / GRID_Y;
}
#else
inline unsigned long get_group_id(int d) {
  return d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z;
}
#endif
/* Groups have one work-item in the other dimensions. */
inline unsigned long get_local_id(int d) {
  return d == 0 ? threadIdx.x : 0;
}
inline unsigned long get_global_id(int d) {
  return d == 0 ? get_group_id(0) * blockDim.x + threadIdx.x : get_group_id(d);
}
#define CLK_LOCAL_MEM_FENCE
#define CLK_GLOBAL_MEM_FENCE
#define barrier(fence) __syncthreads()

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
template <class T>
inline T clamp(T x, T least, T most) {
  return x < least ? least : x > most ? most : x;
}
inline int clz(unsigned long x) {
  return __clzll((long long)x);
}
inline int clz(unsigned int x) {
  return __clz((int)x);
}
inline unsigned mul_hi(unsigned a, unsigned b) {
  return __umulhi(a, b);
}
#ifndef EMULATED
inline float braid_half_to_float(ushort x) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x));
  return out;
}
inline ushort braid_float_to_half(float x) {
  ushort out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
  return out;
}
/* Two of them in a word, the first in its lower half. */
inline void braid_halves_to_floats(unsigned word, float &first, float &second) {
  asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;}"
      : "=f"(first), "=f"(second)
      : "r"(word));
}
inline unsigned braid_floats_to_halves(float first, float second) {
  unsigned word;
  asm("{.reg .b16 low, high;\n cvt.rn.f16.f32 low, %1;\n cvt.rn.f16.f32 high, %2;\n mov.b32 %0, {low, high};}"
      : "=r"(word)
      : "f"(first), "f"(second));
  return word;
}
#endif
template <class C, class T>
inline T braid_choose(C which, T a, T b) {
  return which ? a : b;
}
inline unsigned atomic_or(volatile unsigned *at, unsigned x) {
  return atomicOr((unsigned *)at, x);
}
inline unsigned atomic_add(volatile unsigned *at, unsigned x) {
  return atomicAdd((unsigned *)at, x);
}

/* --- vectors -------------------------------------------------------------------------------------------------------
 * As OpenCL has them: element by element, numbers stand for vectors of themselves; comparisons give -1 and 0. */
template <class T>
struct braid_signed {
  typedef T type;
};
template <>
struct braid_signed<float> {
  typedef int type;
};
template <>
struct braid_signed<unsigned> {
  typedef int type;
};
template <>
struct braid_signed<uchar> {
  typedef char type;
};
template <>
struct braid_signed<ushort> {
  typedef short type;
};
template <>
struct braid_signed<ulong> {
  typedef long type;
};

#define BRAID_EACH2(X) X(0) X(1)
#define BRAID_EACH4(X) X(0) X(1) X(2) X(3)
#define BRAID_EACH8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define BRAID_ALL(i) s##i = x;
#define BRAID_FROM(i) out.s##i = from[i];
#define BRAID_INTO(i) to[i] = x.s##i;
#define BRAID_CAST(i) out.s##i = (U)s##i;

#define BRAID_BINARY(V, EACH, name, expression)                                                                        \
  friend inline V name(const V &a, const V &b) {                                                                       \
    V out;                                                                                                             \
    EACH(expression) return out;                                                                                       \
  }
#define BRAID_COMPARE(V, W, EACH, name, expression)                                                                    \
  friend inline W name(const V &a, const V &b) {                                                                       \
    W out;                                                                                                             \
    EACH(expression) return out;                                                                                       \
  }
#define BRAID_UNARY(V, EACH, name, expression)                                                                         \
  friend inline V name(const V &a) {                                                                                   \
    V out;                                                                                                             \
    EACH(expression) return out;                                                                                       \
  }
#define BRAID_ASSIGN(V, op)                                                                                            \
  inline V &operator op##=(const V &b) {                                                                               \
    return *this = *this op b;                                                                                         \
  }
#define BRAID_PLUS(i) out.s##i = (T)(a.s##i + b.s##i);
#define BRAID_MINUS(i) out.s##i = (T)(a.s##i - b.s##i);
#define BRAID_TIMES(i) out.s##i = (T)(a.s##i * b.s##i);
#define BRAID_OVER(i) out.s##i = (T)(a.s##i / b.s##i);
#define BRAID_AND(i) out.s##i = (T)(a.s##i & b.s##i);
#define BRAID_OR(i) out.s##i = (T)(a.s##i | b.s##i);
#define BRAID_XOR(i) out.s##i = (T)(a.s##i ^ b.s##i);
#define BRAID_LEFT(i) out.s##i = (T)(a.s##i << b.s##i);
#define BRAID_RIGHT(i) out.s##i = (T)(a.s##i >> b.s##i);
#define BRAID_LESS(i) out.s##i = a.s##i < b.s##i ? -1 : 0;
#define BRAID_MORE(i) out.s##i = a.s##i > b.s##i ? -1 : 0;
#define BRAID_LEAST(i) out.s##i = a.s##i >= b.s##i ? -1 : 0;
#define BRAID_MOST(i) out.s##i = a.s##i <= b.s##i ? -1 : 0;
#define BRAID_SMALLER(i) out.s##i = b.s##i < a.s##i ? b.s##i : a.s##i;
#define BRAID_LARGER(i) out.s##i = a.s##i < b.s##i ? b.s##i : a.s##i;
#define BRAID_FMIN(i) out.s##i = fminf(a.s##i, b.s##i);
#define BRAID_FMAX(i) out.s##i = fmaxf(a.s##i, b.s##i);
#define BRAID_MUL_HI(i) out.s##i = __umulhi(a.s##i, b.s##i);
#define BRAID_NEGATED(i) out.s##i = (T)-a.s##i;
#define BRAID_FLOOR(i) out.s##i = floorf(a.s##i);
#define BRAID_ABS(i) out.s##i = a.s##i < 0 ? -(uint)a.s##i : (uint)a.s##i;
#define BRAID_ISNAN(i) out.s##i = a.s##i != a.s##i ? -1 : 0;
#define BRAID_FMA(i) out.s##i = fmaf(a.s##i, b.s##i, c.s##i);
#define BRAID_CHOSEN(i) out.s##i = which.s##i ? a.s##i : b.s##i;

#define BRAID_VECTOR(V, N, PARTS)                                                                                      \
  template <class T>                                                                                                   \
  struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) V {                                                          \
    typedef V<typename braid_signed<T>::type> truth;                                                                   \
    PARTS                                                                                                              \
    V() = default;                                                                                                     \
    inline V(T x) {                                                                                                    \
      BRAID_EACH##N(BRAID_ALL)                                                                                         \
    }                                                                                                                  \
    template <class U>                                                                                                 \
    inline V<U> as() const {                                                                                           \
      V<U> out;                                                                                                        \
      BRAID_EACH##N(BRAID_CAST) return out;                                                                            \
    }                                                                                                                  \
    BRAID_BINARY(V, BRAID_EACH##N, operator+, BRAID_PLUS)                                                              \
    BRAID_BINARY(V, BRAID_EACH##N, operator-, BRAID_MINUS)                                                             \
    BRAID_BINARY(V, BRAID_EACH##N, operator*, BRAID_TIMES)                                                             \
    BRAID_BINARY(V, BRAID_EACH##N, operator/, BRAID_OVER)                                                              \
    BRAID_BINARY(V, BRAID_EACH##N, operator&, BRAID_AND)                                                               \
    BRAID_BINARY(V, BRAID_EACH##N, operator|, BRAID_OR)                                                                \
    BRAID_BINARY(V, BRAID_EACH##N, operator^, BRAID_XOR)                                                               \
    BRAID_BINARY(V, BRAID_EACH##N, operator<<, BRAID_LEFT)                                                             \
    BRAID_BINARY(V, BRAID_EACH##N, operator>>, BRAID_RIGHT)                                                            \
    BRAID_COMPARE(V, truth, BRAID_EACH##N, operator<, BRAID_LESS)                                                      \
    BRAID_COMPARE(V, truth, BRAID_EACH##N, operator>, BRAID_MORE)                                                      \
    BRAID_COMPARE(V, truth, BRAID_EACH##N, operator<=, BRAID_MOST)                                                     \
    BRAID_COMPARE(V, truth, BRAID_EACH##N, operator>=, BRAID_LEAST)                                                    \
    BRAID_BINARY(V, BRAID_EACH##N, min, BRAID_SMALLER)                                                                 \
    BRAID_BINARY(V, BRAID_EACH##N, max, BRAID_LARGER)                                                                  \
    BRAID_BINARY(V, BRAID_EACH##N, fmin, BRAID_FMIN)                                                                   \
    BRAID_BINARY(V, BRAID_EACH##N, fmax, BRAID_FMAX)                                                                   \
    BRAID_BINARY(V, BRAID_EACH##N, mul_hi, BRAID_MUL_HI)                                                               \
    BRAID_UNARY(V, BRAID_EACH##N, operator-, BRAID_NEGATED)                                                            \
    BRAID_UNARY(V, BRAID_EACH##N, floor, BRAID_FLOOR)                                                                  \
    BRAID_ASSIGN(V, +) BRAID_ASSIGN(V, -) BRAID_ASSIGN(V, *) BRAID_ASSIGN(V, |) BRAID_ASSIGN(V, ^)                     \
    friend inline V<uint> abs(const V &a) {                                                                            \
      V<uint> out;                                                                                                     \
      BRAID_EACH##N(BRAID_ABS) return out;                                                                             \
    }                                                                                                                  \
    friend inline truth isnan(const V &a) {                                                                            \
      truth out;                                                                                                       \
      BRAID_EACH##N(BRAID_ISNAN) return out;                                                                           \
    }                                                                                                                  \
    friend inline V fma(const V &a, const V &b, const V &c) {                                                          \
      V out;                                                                                                           \
      BRAID_EACH##N(BRAID_FMA) return out;                                                                             \
    }                                                                                                                  \
    friend inline V clamp(const V &x, const V &least, const V &most) {                                                 \
      return min(max(x, least), most);                                                                                 \
    }                                                                                                                  \
    friend inline V braid_choose(const truth &which, const V &a, const V &b) {                                         \
      V out;                                                                                                           \
      BRAID_EACH##N(BRAID_CHOSEN) return out;                                                                          \
    }                                                                                                                  \
  };                                                                                                                   \
  template <class T>                                                                                                   \
  inline V<T> vload##N(unsigned long which, const T *from) {                                                           \
    V<T> out;                                                                                                          \
    from += which * N;                                                                                                 \
    BRAID_EACH##N(BRAID_FROM) return out;                                                                              \
  }                                                                                                                    \
  template <class T>                                                                                                   \
  inline void vstore##N(const V<T> &x, unsigned long which, T *to) {                                                   \
    to += which * N;                                                                                                   \
    BRAID_EACH##N(BRAID_INTO)                                                                                          \
  }                                                                                                                    \
  template <class U>                                                                                                   \
  inline V<char> convert_char##N(const V<U> &x) {                                                                      \
    return x.template as<char>();                                                                                      \
  }                                                                                                                    \
  template <class U>                                                                                                   \
  inline V<int> convert_int##N(const V<U> &x) {                                                                        \
    return x.template as<int>();                                                                                       \
  }                                                                                                                    \
  template <class U>                                                                                                   \
  inline V<uint> convert_uint##N(const V<U> &x) {                                                                      \
    return x.template as<uint>();                                                                                      \
  }                                                                                                                    \
  template <class U>                                                                                                   \
  inline V<short> convert_short##N(const V<U> &x) {                                                                    \
    return x.template as<short>();                                                                                     \
  }                                                                                                                    \
  template <class U>                                                                                                   \
  inline V<long> convert_long##N(const V<U> &x) {                                                                      \
    return x.template as<long>();                                                                                      \
  }

#define BRAID_PARTS2                                                                                                   \
  T s0, s1;                                                                                                            \
  inline braid_vector2(T a, T b) : s0(a), s1(b) {}
#define BRAID_PARTS4                                                                                                   \
  union {                                                                                                              \
    struct {                                                                                                           \
      T s0, s1, s2, s3;                                                                                                \
    };                                                                                                                 \
    struct {                                                                                                           \
      braid_vector2<T> lo, hi;                                                                                         \
    };                                                                                                                 \
  };                                                                                                                   \
  inline braid_vector4(T a, T b, T c, T d) : s0(a), s1(b), s2(c), s3(d) {}                                             \
  inline braid_vector4(const braid_vector2<T> &a, const braid_vector2<T> &b) : lo(a), hi(b) {}
#define BRAID_PARTS8                                                                                                   \
  union {                                                                                                              \
    struct {                                                                                                           \
      T s0, s1, s2, s3, s4, s5, s6, s7;                                                                                \
    };                                                                                                                 \
    struct {                                                                                                           \
      braid_vector4<T> lo, hi;                                                                                         \
    };                                                                                                                 \
  };                                                                                                                   \
  inline braid_vector8(const braid_vector4<T> &a, const braid_vector4<T> &b) : lo(a), hi(b) {}
BRAID_VECTOR(braid_vector2, 2, BRAID_PARTS2)
BRAID_VECTOR(braid_vector4, 4, BRAID_PARTS4)
BRAID_VECTOR(braid_vector8, 8, BRAID_PARTS8)

typedef braid_vector2<float> braid_float2;
typedef braid_vector4<float> braid_float4;
typedef braid_vector8<float> braid_float8;
typedef braid_vector2<int> braid_int2;
typedef braid_vector4<int> braid_int4;
typedef braid_vector8<int> braid_int8;
typedef braid_vector2<uint> braid_uint2;
typedef braid_vector4<uint> braid_uint4;
typedef braid_vector8<uint> braid_uint8;
typedef braid_vector4<char> braid_char4;
typedef braid_vector4<short> braid_short4;
typedef braid_vector4<long> braid_long4;
#define float2 braid_float2
#define float4 braid_float4
#define float8 braid_float8
#define int2 braid_int2
#define int4 braid_int4
#define int8 braid_int8
#define uint2 braid_uint2
#define uint4 braid_uint4
#define uint8 braid_uint8
#define char4 braid_char4
#define short4 braid_short4
#define long4 braid_long4

#ifndef EMULATED
/* Four words at a multiple of 16 bytes that no kernel writes meanwhile, or zeros: a load under a predicate, where the
 * compiler would branch around it and wait for one load before it begins the next. */
inline uint4 braid_load_words_if(bool condition, const void *from) {
  uint a, b, c, d;
  asm("{.reg .pred is;\n setp.ne.u32 is, %4, 0;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;\n mov.b32 %3, 0;\n"
      "@is ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%5];}"
      : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
      : "r"((uint)condition), "l"(from));
  return uint4(a, b, c, d);
}
#endif

inline uint2 as_uint2(ulong x) {
  return uint2((uint)x, (uint)(x >> 32));
}
inline uint as_uint(int x) {
  return (uint)x;
}

