/* y = FUNCTION(a, b) of each element.
 * WIDTH: elements per work-item, 1, 2, 4, 8 or 16. OPERANDS: 1 or 2. FUNCTION: one of the macros below. */
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#if WIDTH == 1
#define VALUE float
#define LOAD(p, i) (p)[i]
#define STORE(v, p, i) (p)[i] = (v)
#else
#define VALUE GLUE(float, WIDTH)
#define LOAD(p, i) GLUE(vload, WIDTH)(i, p)
#define STORE(v, p, i) GLUE(vstore, WIDTH)(v, i, p)
#endif

#define IDENTITY(a, b) (a)
#define RELU(a, b) fmax(a, (VALUE)(0))
#define NEGATE(a, b) (-(a))
#define ADD(a, b) ((a) + (b))
#define SUBTRACT(a, b) ((a) - (b))
#define MULTIPLY(a, b) ((a) * (b))

#if OPERANDS == 1
#define SECOND
#define LOAD_SECOND(i) LOAD(a, i)
#else
#define SECOND const __global float *b,
#define LOAD_SECOND(i) LOAD(b, i)
#endif

/* An output may lie over an input: no restrict. */
__kernel void elementwise(const __global float *a, SECOND __global float *y, long count) {
  long i = get_global_id(0);
  if ((i + 1) * WIDTH <= count) {
    VALUE first = LOAD(a, i), second = LOAD_SECOND(i);
    STORE(FUNCTION(first, second), y, i);
    return;
  }
#undef VALUE
#define VALUE float
  for (long j = i * WIDTH; j < count; j++) {
#if OPERANDS == 1
    y[j] = FUNCTION(a[j], a[j]);
#else
    y[j] = FUNCTION(a[j], b[j]);
#endif
  }
}
