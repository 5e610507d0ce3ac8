#define BRAID_SPANS_SET braid_spans_float_v4
#define BRAID_SPANS_NAME "x86-64-v4"
#include "backend/cpu/spans/spans_float_template.h"
