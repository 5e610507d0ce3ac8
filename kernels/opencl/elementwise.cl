/* Functions of corresponding elements: one kernel, whose function comes as an expression.
 *
 * EXPRESSION computes an element of type TO from the elements V0, V1, V2 of the ARITY inputs, which have types T0, T1,
 * T2, and from the numbers p and q. T is the type that is computed in: float for elements of 16 bits. */
#include "common.clh"

#define FABS(x) fabs((T)(x))
#define SQRT(x) sqrt((T)(x))
#define EXP(x) exp((T)(x))
#define EXPM1(x) expm1((T)(x))
#define LOG(x) log((T)(x))
#define ERF(x) erf((T)(x))
#define NORMAL(x) ((T)0.5 * erfc((T)(x) * (T)-0.70710678118654752)) /* the distribution, of Gelu */
#define SIN(x) sin((T)(x))
#define COS(x) cos((T)(x))
#define TAN(x) tan((T)(x))
#define ASIN(x) asin((T)(x))
#define ACOS(x) acos((T)(x))
#define ATAN(x) atan((T)(x))
#define SINH(x) sinh((T)(x))
#define COSH(x) cosh((T)(x))
#define ASINH(x) asinh((T)(x))
#define ACOSH(x) acosh((T)(x))
#define ATANH(x) atanh((T)(x))
#define TANH(x) tanh((T)(x))
#define SIGMOID(x) (1 / (1 + exp(-(T)(x))))
#define UNIT(x) clamp_unit((T)(x))
#define SOFTPLUS(x) softplus((T)(x))
#define TANH_SOFTPLUS(x) tanh(softplus((T)(x)))

float clamp_unit(float x) {
  return x < 0 ? 0 : x > 1 ? 1 : x;
}

float softplus(float x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* As the exact squares and roots that networks take. */
float power(float a, float b) {
  if (b == 2) return a * a;
  return b == (float)0.5 && a >= 0 && a < INFINITY ? sqrt(a) : pow(a, b);
}

/* 0.5 x (1 + tanh(u)) is x sigmoid(2u), which keeps its digits for negative x; u(x) = sqrt(2/pi) (x + 0.044715 x^3). */
#define TWICE_U(x) ((x) * ((T)1.5957691216057308 + (T)0.071354816272600247 * (x) * (x)))

/* Largest and smallest as ONNX has them: NaN wins. */
#define LARGER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

#if ARITY > 1
#define SECOND(x) x
#else
#define SECOND(x)
#endif
#if ARITY > 2
#define THIRD(x) x
#else
#define THIRD(x)
#endif
#define COMMA ,

#define ELEMENT(k, place) const VALUE(T##k) V##k = GET(T##k, in##k, place);

/* All of the output's shape, or one number (Ei = 0). Outputs may lie over inputs, hence no restrict. */
KERNEL flat(GLOBAL const T0 *in0, SECOND(GLOBAL const T1 *in1 COMMA) THIRD(GLOBAL const T2 *in2 COMMA) GLOBAL TO *out,
            float p, float q, index_t count) {
  index_t i = get_global_id(0);
  if (i >= count) return;
  ELEMENT(0, E0 * i)
  SECOND(ELEMENT(1, E1 * i))
  THIRD(ELEMENT(2, E2 * i))
  PUT(TO, out, i, EXPRESSION);
}

/* The same of float, fp16 and bf16, eight at a time: loads and stores of two bytes would not fill a memory's width. */
#ifdef EIGHT
#define EIGHT_OF(k)                                                                                                    \
  float at##k[8];                                                                                                      \
  if (E##k)                                                                                                            \
    GET_EIGHT(T##k, in##k, first, at##k)                                                                               \
  else                                                                                                                 \
    for (int n = 0; n < 8; n++) at##k[n] = GET(T##k, in##k, 0);
#define LANE_OF(k) const float V##k = at##k[n];

KERNEL flat_eight(GLOBAL const T0 *in0,
                  SECOND(GLOBAL const T1 *in1 COMMA) THIRD(GLOBAL const T2 *in2 COMMA) GLOBAL TO *out, float p, float q,
                  index_t count) {
  const index_t first = (index_t)get_global_id(0) * 8;
  if (first >= count) return;
  if (first + 8 > count) {
    for (index_t i = first; i < count; i++) {
      ELEMENT(0, E0 * i)
      SECOND(ELEMENT(1, E1 * i))
      THIRD(ELEMENT(2, E2 * i))
      PUT(TO, out, i, EXPRESSION);
    }
    return;
  }
  float results[8];
  EIGHT_OF(0)
  SECOND(EIGHT_OF(1))
  THIRD(EIGHT_OF(2))
  for (int n = 0; n < 8; n++) {
    LANE_OF(0)
    SECOND(LANE_OF(1))
    THIRD(LANE_OF(2))
    results[n] = (float)(EXPRESSION);
  }
  PUT_EIGHT(TO, out, first, results)
}
#endif

/* Broadcast: the output's dimensions, and steps of each input over them (0 where it is repeated). */
#define STEPS3(s) index_t s##0, index_t s##1, index_t s##2
#define STEPS8(s) STEPS3(s), index_t s##3, index_t s##4, index_t s##5, index_t s##6, index_t s##7
#define STEP(d)                                                                                                        \
  {                                                                                                                    \
    index_t place = rest % n##d;                                                                                       \
    rest /= n##d;                                                                                                      \
    at0 += place * a##d;                                                                                               \
    SECOND(at1 += place * b##d;)                                                                                       \
    THIRD(at2 += place * c##d;)                                                                                        \
  }

#define BROADCAST(name, STEPS, ALL)                                                                                    \
  KERNEL name(GLOBAL const T0 *in0, SECOND(GLOBAL const T1 *in1 COMMA) THIRD(GLOBAL const T2 *in2 COMMA) GLOBAL TO *out,    \
              float p, float q, index_t count, STEPS(n), STEPS(a) SECOND(COMMA STEPS(b)) THIRD(COMMA STEPS(c))) {      \
    index_t i = get_global_id(0), rest = i, at0 = 0;                                                                   \
    SECOND(index_t at1 = 0;)                                                                                           \
    THIRD(index_t at2 = 0;)                                                                                            \
    if (i >= count) return;                                                                                            \
    ALL                                                                                                                \
    ELEMENT(0, at0)                                                                                                    \
    SECOND(ELEMENT(1, at1))                                                                                            \
    THIRD(ELEMENT(2, at2))                                                                                             \
    PUT(TO, out, i, EXPRESSION);                                                                                       \
  }

BROADCAST(broadcast3, STEPS3, STEP(2) STEP(1) STEP(0))
BROADCAST(broadcast8, STEPS8, STEP(7) STEP(6) STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) STEP(0))
