#define BRAID_SPANS_SET braid_spans_float_v3
#define BRAID_SPANS_NAME "x86-64-v3"
#include "backend/cpu/spans/spans_float_template.h"
