#define BRAID_SPANS_SET braid_spans_float_base
#define BRAID_SPANS_NAME "baseline"
#include "backend/cpu/spans/spans_float_template.h"
