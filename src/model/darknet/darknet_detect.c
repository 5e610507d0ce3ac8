/* Detection layers, as far as inference goes: the raw map of a convolution becomes offsets, confidences and class
 * probabilities. Boxes are decoded from them by whoever knows the picture. */
#include "base/try.h"
#include "model/darknet/darknet.h"

static braid_status split(braid_darknet *net, braid_value_id value, int axis, const int64_t *sizes, size_t count,
                          braid_value_id *parts) {
  braid_value_id inputs[2] = {value};
  braid_node_id node;
  BRAID_TRY(braid_darknet_ints(net, sizes, count, &inputs[1]));
  for (size_t i = 0; i < count; i++) parts[i] = 0;
  BRAID_TRY(braid_graph_add_node(net->graph, "Split", NULL, inputs, 2, parts, count, &node));
  return braid_graph_set_int(net->graph, node, "axis", axis);
}

static braid_status concat(braid_darknet *net, int axis, const braid_value_id *parts, size_t count,
                           braid_value_id *out) {
  return braid_darknet_node(net, "Concat", parts, count, (braid_darknet_attr[]){BRAID_ATTR_I("axis", axis)}, 1, out);
}

/* [B, n * (coords + 1 + classes), h, w] as [B, n, coords + 1 + classes, h, w]. */
static braid_status anchors_apart(braid_darknet *net, int64_t n, int64_t each, braid_value_id *value) {
  BRAID_TRY(braid_darknet_image(net, value));
  if (net->input.c != n * each)
    return braid_darknet_fail(net, BRAID_INVALID_FILE,
                              "its input has %lld channels, %lld boxes of %lld values take %lld",
                              (long long)net->input.c, (long long)n, (long long)each, (long long)(n * each));
  return braid_darknet_reshape(net, *value, 5, (int64_t[]){-1, n, each, net->input.h, net->input.w}, value);
}

static braid_status join_anchors(braid_darknet *net, const braid_value_id *parts, size_t count,
                                 braid_darknet_output *out) {
  braid_value_id value;
  BRAID_TRY(concat(net, 2, parts, count, &value));
  *out = net->input;
  out->list = false;
  return braid_darknet_reshape(net, value, 4, (int64_t[]){-1, out->c, out->h, out->w}, &out->value);
}

/* x and y, objectness and classes through the logistic; width and height stay logarithms. */
braid_status braid_darknet_layer_yolo(braid_darknet *net, braid_darknet_output *out) {
  int64_t classes, total, mask[256];
  size_t boxes;
  double scale;
  braid_value_id value, parts[3];
  BRAID_TRY(braid_darknet_only(net, "new_coords", 0));
  BRAID_TRY(braid_darknet_int(net, "classes", 20, 1, BRAID_DARKNET_MAX_SIZE, &classes));
  BRAID_TRY(braid_darknet_int(net, "num", 1, 1, 256, &total));
  BRAID_TRY(braid_cfg_ints(net->cfg, net->section, "mask", mask, 256, &boxes));
  BRAID_TRY(braid_darknet_float(net, "scale_x_y", 1, &scale));
  int64_t n = boxes ? (int64_t)boxes : total;
  BRAID_TRY(anchors_apart(net, n, 5 + classes, &value));
  BRAID_TRY(split(net, value, 2, (int64_t[]){2, 2, 1 + classes}, 3, parts));
  BRAID_TRY(braid_darknet_activate(net, "logistic", parts[0], &parts[0]));
  if (scale != 1) {
    BRAID_TRY(braid_darknet_with_scalar(net, "Mul", parts[0], scale, &parts[0]));
    BRAID_TRY(braid_darknet_with_scalar(net, "Sub", parts[0], 0.5 * (scale - 1), &parts[0]));
  }
  BRAID_TRY(braid_darknet_activate(net, "logistic", parts[2], &parts[2]));
  return join_anchors(net, parts, 3, out);
}

/* YOLO v2: classes through a softmax if the file says so. */
braid_status braid_darknet_layer_region(braid_darknet *net, braid_darknet_output *out) {
  int64_t classes, n, coords, softmax;
  braid_value_id value, parts[4];
  BRAID_TRY(braid_darknet_only(net, "tree", 0));
  BRAID_TRY(braid_darknet_only(net, "background", 0));
  BRAID_TRY(braid_darknet_int(net, "classes", 20, 1, BRAID_DARKNET_MAX_SIZE, &classes));
  BRAID_TRY(braid_darknet_int(net, "num", 1, 1, 256, &n));
  BRAID_TRY(braid_darknet_int(net, "coords", 4, 3, 64, &coords));
  BRAID_TRY(braid_darknet_int(net, "softmax", 0, 0, 1, &softmax));
  BRAID_TRY(anchors_apart(net, n, coords + 1 + classes, &value));
  BRAID_TRY(split(net, value, 2, (int64_t[]){2, coords - 2, 1, classes}, 4, parts));
  BRAID_TRY(braid_darknet_activate(net, "logistic", parts[0], &parts[0]));
  BRAID_TRY(braid_darknet_activate(net, "logistic", parts[2], &parts[2]));
  if (softmax)
    BRAID_TRY(braid_darknet_node(net, "Softmax", &parts[3], 1, (braid_darknet_attr[]){BRAID_ATTR_I("axis", 2)}, 1,
                                 &parts[3]));
  else
    BRAID_TRY(braid_darknet_activate(net, "logistic", parts[3], &parts[3]));
  return join_anchors(net, parts, 4, out);
}

/* YOLO v1: a list of class scores of all cells, then confidences, then boxes. */
braid_status braid_darknet_layer_detection(braid_darknet *net, braid_darknet_output *out) {
  int64_t classes, n, coords, side, softmax;
  braid_value_id value, parts[2];
  BRAID_TRY(braid_darknet_int(net, "classes", 1, 1, BRAID_DARKNET_MAX_SIZE, &classes));
  BRAID_TRY(braid_darknet_int(net, "num", 1, 1, 256, &n));
  BRAID_TRY(braid_darknet_int(net, "coords", 1, 1, 64, &coords));
  BRAID_TRY(braid_darknet_int(net, "side", 7, 1, 1024, &side));
  BRAID_TRY(braid_darknet_int(net, "softmax", 0, 0, 1, &softmax));
  int64_t cells = side * side, inputs = net->input.c * net->input.h * net->input.w;
  if (inputs != cells * ((1 + coords) * n + classes))
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "its input has %lld values, %lld cells take %lld",
                              (long long)inputs, (long long)cells, (long long)(cells * ((1 + coords) * n + classes)));
  BRAID_TRY(braid_darknet_list(net, &value));
  *out = (braid_darknet_output){.value = value, .c = inputs, .h = 1, .w = 1, .list = true};
  if (!softmax) return BRAID_OK;
  BRAID_TRY(split(net, value, 1, (int64_t[]){cells * classes, inputs - cells * classes}, 2, parts));
  BRAID_TRY(braid_darknet_reshape(net, parts[0], 3, (int64_t[]){-1, cells, classes}, &parts[0]));
  BRAID_TRY(
      braid_darknet_node(net, "Softmax", &parts[0], 1, (braid_darknet_attr[]){BRAID_ATTR_I("axis", 2)}, 1, &parts[0]));
  BRAID_TRY(braid_darknet_reshape(net, parts[0], 2, (int64_t[]){-1, cells * classes}, &parts[0]));
  return concat(net, 1, parts, 2, &out->value);
}
