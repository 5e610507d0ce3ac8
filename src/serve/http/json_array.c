#include "serve/http/json_array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- taking arrays out ---------------------------------------------------------------------------------------------
 */
static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Behind the string that begins at `at`; `end`: it does not end. */
static const char *skip_string(const char *at, const char *end) {
  for (at++; at < end && *at != '"'; at++)
    if (*at == '\\' && at + 1 < end) at++;
  return at < end ? at + 1 : end;
}

/* Characters of numbers, true and false, and what stands between them. */
static const bool kOfArrays[256] = {
    [' '] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true, [','] = true, ['.'] = true, ['+'] = true,
    ['-'] = true, ['e'] = true,  ['E'] = true,  ['t'] = true,  ['r'] = true, ['u'] = true, ['f'] = true,
    ['a'] = true, ['l'] = true,  ['s'] = true,  ['0'] = true,  ['1'] = true, ['2'] = true, ['3'] = true,
    ['4'] = true, ['5'] = true,  ['6'] = true,  ['7'] = true,  ['8'] = true, ['9'] = true,
};

/* The first of these characters from `at` on that is none of kOfArrays; eight at a time. */
static const char *skip_of_arrays(const char *at, const char *end) {
  for (; end - at >= 8; at += 8) {
    const uint8_t *c = (const uint8_t *)at;
    if (!(kOfArrays[c[0]] & kOfArrays[c[1]] & kOfArrays[c[2]] & kOfArrays[c[3]] & kOfArrays[c[4]] & kOfArrays[c[5]] &
          kOfArrays[c[6]] & kOfArrays[c[7]]))
      break;
  }
  while (at < end && kOfArrays[(uint8_t)*at]) at++;
  return at;
}

/* Behind the array of numbers that begins at `at`; NULL: it has something else, or does not end. */
static const char *skip_numbers(const char *at, const char *end) {
  int depth = 0;
  for (; (at = skip_of_arrays(at, end)) < end; at++) {
    if (*at == '[')
      depth++;
    else if (*at != ']')
      return NULL;
    else if (!--depth)
      return at + 1;
  }
  return NULL;
}

bool braid_json_take_arrays(const char *json, size_t bytes, braid_text *skeleton, braid_json_arrays *arrays) {
  static const char kKey[] = "\"data\"";
  const char *end = json + bytes, *copied = json;
  arrays->count = 0;
  for (const char *at = json; at < end;) {
    if (*at != '"') {
      at++;
      continue;
    }
    const char *key = at, *value = skip_string(at, end);
    at = value;
    while (value < end && is_space(*value)) value++;
    if (value < end && *value == ':' && memchr(key, '\\', (size_t)(at - key))) return false;
    if (value == end || *value != ':' || (size_t)(at - key) != sizeof kKey - 1 ||
        memcmp(key, kKey, sizeof kKey - 1) != 0)
      continue;
    for (value++; value < end && is_space(*value);) value++;
    const char *behind = value < end && *value == '[' ? skip_numbers(value, end) : NULL;
    if (!behind) continue;
    if (arrays->count == BRAID_JSON_ARRAYS) return false;
    braid_text_add_bytes(skeleton, copied, (size_t)(value - copied));
    braid_text_printf(skeleton, "[%zu]", arrays->count);
    arrays->items[arrays->count].text = value;
    arrays->items[arrays->count++].bytes = (size_t)(behind - value);
    at = copied = behind;
  }
  braid_text_add_bytes(skeleton, copied, (size_t)(end - copied));
  return !skeleton->failed;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
enum { kExactPower = 22 };
static const double kPowers[kExactPower + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint64_t kExactInteger = UINT64_C(1) << 53;

/* A number by JSON's grammar: digits as an integer, of which those beyond what fits are counted only. */
typedef struct number {
  const char *text;
  size_t bytes;
  bool negative, whole; /* no fraction and no exponent */
  bool full, exact;     /* a digit did not fit; those that did not are zeros */
  uint64_t digits;
  int power; /* of ten */
} number;

static const char *scan_digits(const char *at, const char *end, number *out, int fraction) {
  for (; at < end && *at >= '0' && *at <= '9'; at++) {
    uint64_t digits;
    bool fits = !out->full && !__builtin_mul_overflow(out->digits, UINT64_C(10), &digits) &&
                !__builtin_add_overflow(digits, (uint64_t)(*at - '0'), &digits);
    if (fits) {
      out->digits = digits;
      out->power -= fraction;
    } else {
      out->full = true;
      out->exact &= *at == '0';
      out->power += !fraction;
    }
  }
  return at;
}

/* Behind the number; NULL: there is none. */
static const char *scan_number(const char *at, const char *end, number *out) {
  *out = (number){.text = at, .whole = true, .exact = true};
  if (at < end && *at == '-') {
    out->negative = true;
    at++;
  }
  const char *digits = at;
  at = scan_digits(at, end, out, 0);
  if (at == digits || (*digits == '0' && at > digits + 1)) return NULL;
  if (at < end && *at == '.') {
    const char *fraction = ++at;
    out->whole = false;
    at = scan_digits(at, end, out, 1);
    if (at == fraction) return NULL;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    bool minus = false;
    int exponent = 0;
    out->whole = false;
    if (++at < end && (*at == '+' || *at == '-')) minus = *at++ == '-';
    const char *first = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
      if (exponent < 100000) exponent = 10 * exponent + (*at - '0');
    if (at == first) return NULL;
    out->power += minus ? -exponent : exponent;
  }
  out->bytes = (size_t)(at - out->text);
  return at;
}

/* Correctly rounded: products and quotients of exact numbers are (Clinger 1990); all else goes through strtod. */
static bool to_double(const number *n, double *out) {
  double value = (double)n->digits;
  if (n->exact && n->digits <= kExactInteger && n->power >= -kExactPower && n->power <= kExactPower) {
    value = n->power < 0 ? value / kPowers[-n->power] : value * kPowers[n->power];
    *out = n->negative ? -value : value;
    return true;
  }
  char text[512];
  if (n->bytes >= sizeof text) return false;
  memcpy(text, n->text, n->bytes);
  text[n->bytes] = '\0';
  return braid_parse_f64(text, out);
}

/* A number that is digits with or without a point, up to 18 characters, and no more than 2^53: the same rounding, and
 * no more than one division. NULL: it is another one, or none. */
static const char *read_plain(const char *at, const char *end, double *out) {
  bool negative = *at == '-';
  const char *first = at += negative, *stop = end - at > 18 ? at + 18 : end;
  uint64_t digits = 0;
  ptrdiff_t power = 0;
  for (; at < stop && *at >= '0' && *at <= '9'; at++) digits = 10 * digits + (uint64_t)(*at - '0');
  if (at == first || at == stop || (*first == '0' && at > first + 1)) return NULL;
  if (*at == '.') {
    const char *fraction = ++at;
    for (; at < stop && *at >= '0' && *at <= '9'; at++) digits = 10 * digits + (uint64_t)(*at - '0');
    power = at - fraction;
    if (!power || at == stop) return NULL;
  }
  if (digits > kExactInteger || *at == 'e' || *at == 'E' || *at == '.') return NULL;
  double value = power ? (double)digits / kPowers[power] : (double)digits;
  *out = negative ? -value : value;
  return at;
}

static const char *put_float(const number *n, braid_dtype dtype, void *out) {
  double wide;
  if (!to_double(n, &wide)) return "a number that is not too large, of at most 511 characters, is expected";
  float narrow = (float)wide;
  if (dtype == BRAID_F64) {
    memcpy(out, &wide, sizeof wide);
    return NULL;
  }
  if (isinf(narrow)) return "a number in the range of FP32 is expected";
  memcpy(out, &narrow, sizeof narrow);
  return NULL;
}

static const char *put_integer(const number *n, braid_dtype dtype, void *out) {
  size_t bits = 8 * braid_dtype_size(dtype);
  bool is_signed = dtype == BRAID_I8 || dtype == BRAID_I16 || dtype == BRAID_I32 || dtype == BRAID_I64;
  uint64_t most = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
  if (!n->whole) return "a whole number is expected";
  if (!n->exact || n->power || (n->negative ? n->digits > (is_signed ? most + 1 : 0) : n->digits > most))
    return "a number in the range of the type is expected";
  uint64_t value = n->negative ? 0 - n->digits : n->digits;
  memcpy(out, &value, bits / 8); /* little-endian, as all that is served on */
  return NULL;
}

/* Reads one element; returns what is behind it, or NULL with *wrong. */
static const char *read_element(const char *at, const char *end, braid_dtype dtype, void *out, const char **wrong) {
  number n;
  double value;
  size_t left = (size_t)(end - at);
  if (dtype == BRAID_F32) { /* up to 2^53: within its range */
    const char *behind = read_plain(at, end, &value);
    if (behind) {
      *(float *)out = (float)value;
      return behind;
    }
  }
  bool is_true = left > 4 && memcmp(at, "true", 4) == 0, is_false = left > 5 && memcmp(at, "false", 5) == 0;
  if (is_true || is_false) {
    *wrong = dtype == BRAID_BOOL ? NULL : "a number is expected";
    *(uint8_t *)out = is_true;
    return *wrong ? NULL : at + (is_true ? 4 : 5);
  }
  const char *behind = scan_number(at, end, &n);
  if (!behind)
    *wrong = "a number is expected";
  else if (dtype == BRAID_F32 || dtype == BRAID_F64)
    *wrong = put_float(&n, dtype, out);
  else if (dtype == BRAID_BOOL)
    *wrong = n.whole && n.digits < 2 && !n.negative ? (*(uint8_t *)out = (uint8_t)n.digits, NULL)
                                                    : "true or false is expected";
  else
    *wrong = put_integer(&n, dtype, out);
  return *wrong ? NULL : behind;
}

const char *braid_json_read_array(const char *text, size_t bytes, braid_dtype dtype, int depth, void *out, size_t count,
                                  size_t *out_index) {
  const char *at = text, *end = text + bytes, *wrong = NULL;
  size_t size = braid_dtype_size(dtype), used = 0;
  int open = 0;
  bool wants = true, empty = false; /* an element or '[' comes next; the array that was just opened has nothing yet */
  while (at < end && !wrong) {
    *out_index = used;
    if (is_space(*at)) {
      at++;
    } else if (*at == '[' && wants) {
      if (++open > depth) return "the array is nested deeper than the shape";
      empty = true;
      at++;
    } else if (*at == ']' && (!wants || empty) && open) {
      open--;
      wants = empty = false;
      at++;
    } else if (*at == ',' && !wants && open) {
      wants = true;
      at++;
    } else if (wants && *at != ']' && *at != ',') {
      if (used == count) return "there are more numbers than the shape has";
      at = read_element(at, end, dtype, (uint8_t *)out + used * size, &wrong);
      if (!at) return wrong;
      used++;
      wants = empty = false;
    } else {
      return "numbers with commas between them are expected";
    }
    if (!open && !wants) break;
  }
  *out_index = used;
  return used == count ? NULL : "there are fewer numbers than the shape has";
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
enum { kFloatBytes = 32, kFloatsTogether = 64 }; /* room for a float; floats that room is made for at a time */

static char *put_digits(char *end, uint64_t digits) {
  static const char kPairs[] =
      "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445"
      "46474849505152535455565758596061626364656667686970717273747576777879808182838485868788899091"
      "92939495969798"
      "99";
  for (; digits >= 100; digits /= 100) memcpy(end -= 2, kPairs + digits % 100 * 2, 2);
  if (digits < 10)
    *--end = (char)('0' + digits);
  else
    memcpy(end -= 2, kPairs + digits * 2, 2);
  return end;
}

/* As digits with a point between them, up to 9 of them if that reads back as the same float. Returns what is behind it,
 * or NULL. */
static char *put_short(char *to, float value) {
  double wide = fabs((double)value);
  if (wide == 0 || wide < 1e-10 || wide >= 1e9) return NULL;
  /* wide = digits * 10^-power, with 9 digits, or 10: log10(2) is a little too small. */
  int power = 8 - (((ilogb(wide) + 1) * 1262611) >> 22);
  if (power < 0 || (wide < 16777216 && wide == (double)(uint32_t)wide)) power = 0;
  uint64_t digits = (uint64_t)(wide * kPowers[power] + 0.5);
  if (power > 18 || (float)((double)digits / kPowers[power]) != fabsf(value)) return NULL;
  for (; power >= 4 && digits % 10000 == 0; power -= 4) digits /= 10000;
  for (; power && digits % 10 == 0; power--) digits /= 10;
  char buffer[kFloatBytes], *end = buffer + sizeof buffer, *at = put_digits(end, digits);
  if (value < 0) *to++ = '-';
  if (power) {
    while (end - at <= power) *--at = '0'; /* a digit before the point */
    size_t before = (size_t)(end - at - power);
    memcpy(to, at, before);
    to[before] = '.';
    memcpy(to + before + 1, end - power, (size_t)power);
    return to + before + 1 + power;
  }
  memcpy(to, at, (size_t)(end - at));
  return to + (end - at);
}

static char *put_float_text(char *to, float value) {
  if (value == 0) return stpcpy(to, signbit(value) ? "-0.0" : "0.0");
  char *behind = put_short(to, value);
  return behind ? behind : to + snprintf(to, kFloatBytes, "%.9g", (double)value);
}

bool braid_json_add_floats(braid_text *text, const float *values, size_t count) {
  for (size_t i = 0; i < count;) {
    size_t until = count - i > kFloatsTogether ? i + kFloatsTogether : count;
    char *from = braid_text_room(text, (until - i) * kFloatBytes), *to = from;
    if (!from) return true; /* the text says so */
    for (; i < until; i++) {
      if (!isfinite(values[i])) return false;
      if (i) *to++ = ',';
      to = put_float_text(to, values[i]);
    }
    braid_text_took(text, (size_t)(to - from));
  }
  return true;
}

bool braid_json_add_double(braid_text *text, double value) {
  if (!isfinite(value)) return false;
  braid_text_printf(text, "%.17g", value);
  return true;
}
