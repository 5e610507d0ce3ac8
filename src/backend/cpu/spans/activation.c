#include "backend/cpu/spans/activation.h"

#include <math.h>
#include <string.h>

bool braid_activation_read(const braid_node_desc *node, braid_activation *out) {
  /* parameters that are absent get ONNX's defaults */
  static const struct {
    const char *name;
    double params[2];
  } kKnown[] = {
      {"Relu", {0}}, {"LeakyRelu", {0.01}},       {"Sigmoid", {0}},   {"Clip", {-INFINITY, INFINITY}},
      {"Tanh", {0}}, {"HardSigmoid", {0.2, 0.5}}, {"HardSwish", {0}}, {"Swish", {1}},
      {"Gelu", {0}},
  };
  *out = (braid_activation){.entry = NULL};
  if (!braid_attr_has(node->attrs, "activation")) return true;
  const char *name = braid_attr_string(node->attrs, "activation", "");
  size_t given = 0;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &given);
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown; i++) {
    if (strcmp(name, kKnown[i].name) != 0) continue;
    out->entry = braid_spans_find(name, BRAID_F32);
    for (size_t p = 0; p < 2; p++) {
      out->params[p] = p < given ? (double)params[p] : kKnown[i].params[p];
      out->bounds[p] = (float)out->params[p];
    }
  }
  return out->entry != NULL;
}

void braid_activation_run(const braid_activation *activation, float *x, int64_t count) {
  const braid_span span = {.in = {x, &activation->bounds[0], &activation->bounds[1]},
                           .step = {1},
                           .out = x,
                           .count = count,
                           .params = activation->params};
  activation->entry->run(&span);
}
