/* Draws a graph as SVG: one box per node, with its op, attributes and output shape. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drawing.h"
#include "layout.h"

static const double box_height = 46, row_height = 78, gap = 22, margin = 28, letter = 6.6, small_letter = 5.6;
enum { LINE_BYTES = 96 };

typedef struct box {
  char title[LINE_BYTES], detail[LINE_BYTES]; /* the op; its attributes and output shape */
  const char *colour, *name;
} box;

typedef struct drawing {
  const braid_graph *graph;
  box *boxes;
  double *widths;
  layout_edge *edges;
  int box_count, edge_count, edge_room;
  int *box_of_value; /* -1: none */
} drawing;

static const char *colour_of(const char *op) {
  static const struct {
    const char *part, *colour;
  } colours[] = {
      {"Conv", "#3b6ea8"},    {"Gemm", "#5a4fa3"}, {"MatMul", "#5a4fa3"},   {"LSTM", "#5a4fa3"},
      {"GRU", "#5a4fa3"},     {"RNN", "#5a4fa3"},  {"Pool", "#2f8a6b"},     {"Reduce", "#2f8a6b"},
      {"Norm", "#a8742a"},    {"LRN", "#a8742a"},  {"Softmax", "#a83b52"},  {"Relu", "#a83b52"},
      {"Sigmoid", "#a83b52"}, {"Tanh", "#a83b52"}, {"Gelu", "#a83b52"},     {"elu", "#a83b52"},
      {"Elu", "#a83b52"},     {"Hard", "#a83b52"}, {"Softplus", "#a83b52"}, {"Quantize", "#6b6b2f"},
      {"Add", "#4a4a55"},     {"Mul", "#4a4a55"},
  };
  for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
    if (strstr(op, colours[i].part)) return colours[i].colour;
  }
  return "#74747e";
}

/* "3x224x224", the batch left out where there is one. */
static void put_shape(char *text, size_t bytes, const braid_desc *desc) {
  size_t used = strlen(text);
  if (desc->rank < 0) return;
  for (int i = desc->rank > 1; i < desc->rank && used < bytes; i++) {
    const char *cross = i > (desc->rank > 1) ? "\xc3\x97" : "";
    if (desc->dims[i] < 0)
      snprintf(text + used, bytes - used, "%s?", cross);
    else
      snprintf(text + used, bytes - used, "%s%" PRId64, cross, desc->dims[i]);
    used = strlen(text);
  }
  if (desc->rank == 0) snprintf(text + used, bytes - used, "scalar");
}

static void put_window(char *text, size_t bytes, const braid_attrs *attrs) {
  size_t count, used;
  const int64_t *window = braid_attr_ints(attrs, "kernel_shape", &count);
  for (size_t i = 0; i < count; i++) {
    used = strlen(text);
    snprintf(text + used, bytes - used, "%s%" PRId64, i ? "\xc3\x97" : " ", window[i]);
  }
  const int64_t *strides = braid_attr_ints(attrs, "strides", &count);
  used = strlen(text);
  if (count && strides[0] > 1) snprintf(text + used, bytes - used, " /%" PRId64, strides[0]);
  int64_t groups = braid_attr_int(attrs, "group", 1);
  used = strlen(text);
  if (groups > 1) snprintf(text + used, bytes - used, " in %" PRId64 " groups", groups);
}

/* Characters of UTF-8. */
static size_t text_width(const char *text) {
  size_t count = 0;
  for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
  return count;
}

static int add_box(drawing *d, const char *title, const char *name, const char *colour) {
  box *b = &d->boxes[d->box_count];
  snprintf(b->title, sizeof b->title, "%s", title);
  b->name = name;
  b->colour = colour;
  return d->box_count++;
}

static void measure_box(drawing *d, int index) {
  const box *b = &d->boxes[index];
  double title = (double)text_width(b->title) * letter, detail = (double)text_width(b->detail) * small_letter;
  double width = (title > detail ? title : detail) + 24;
  d->widths[index] = width < 76 ? 76 : width;
}

static bool add_edge(drawing *d, int from, int to) {
  if (d->edge_count == d->edge_room) {
    int room = d->edge_room ? d->edge_room * 2 : 256;
    layout_edge *edges = realloc(d->edges, (size_t)room * sizeof *edges);
    if (!edges) return false;
    d->edges = edges;
    d->edge_room = room;
  }
  d->edges[d->edge_count++] = (layout_edge){.from = from, .to = to};
  return true;
}

static bool collect_node(drawing *d, braid_node_id id) {
  braid_node_info node = braid_graph_node(d->graph, id);
  int at = add_box(d, node.op, node.name, colour_of(node.op));
  box *b = &d->boxes[at];
  put_window(b->title, sizeof b->title, node.attrs);
  for (size_t i = 0; i < node.output_count; i++) {
    if (node.outputs[i] < 0) continue;
    d->box_of_value[node.outputs[i]] = at;
    braid_value_info value = braid_graph_value(d->graph, node.outputs[i]);
    if (!b->detail[0]) put_shape(b->detail, sizeof b->detail, &value.desc);
  }
  measure_box(d, at);
  for (size_t i = 0; i < node.input_count; i++) {
    if (node.inputs[i] < 0 || d->box_of_value[node.inputs[i]] < 0) continue;
    if (!add_edge(d, d->box_of_value[node.inputs[i]], at)) return false;
  }
  return true;
}

/* Collects the boxes: inputs, nodes and outputs. Constants and parameters are drawn as part of the node that uses them.
 */
static bool collect(drawing *d) {
  size_t values = braid_graph_value_count(d->graph), nodes = braid_graph_node_count(d->graph);
  size_t inputs = braid_graph_input_count(d->graph), outputs = braid_graph_output_count(d->graph);
  size_t boxes = nodes + inputs + outputs;
  d->boxes = calloc(boxes + 1, sizeof *d->boxes);
  d->widths = calloc(boxes + 1, sizeof *d->widths);
  d->box_of_value = malloc((values + 1) * sizeof *d->box_of_value);
  if (!d->boxes || !d->widths || !d->box_of_value) return false;
  for (size_t i = 0; i < values; i++) d->box_of_value[i] = -1;
  for (size_t i = 0; i < inputs; i++) {
    braid_value_id id = braid_graph_input(d->graph, i);
    braid_value_info value = braid_graph_value(d->graph, id);
    int at = add_box(d, value.name, value.name, "#1d1d22");
    d->box_of_value[id] = at;
    put_shape(d->boxes[at].detail, LINE_BYTES, &value.desc);
    measure_box(d, at);
  }
  for (size_t i = 0; i < nodes; i++) {
    if (!collect_node(d, (braid_node_id)i)) return false;
  }
  for (size_t i = 0; i < outputs; i++) {
    braid_value_id id = braid_graph_output(d->graph, i);
    braid_value_info value = braid_graph_value(d->graph, id);
    int at = add_box(d, value.name, value.name, "#1d1d22");
    put_shape(d->boxes[at].detail, LINE_BYTES, &value.desc);
    measure_box(d, at);
    if (d->box_of_value[id] >= 0 && !add_edge(d, d->box_of_value[id], at)) return false;
  }
  return true;
}

static void put_escaped(FILE *file, const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
    switch (*s) {
    case '&':
      fputs("&amp;", file);
      break;
    case '<':
      fputs("&lt;", file);
      break;
    case '>':
      fputs("&gt;", file);
      break;
    case '"':
      fputs("&quot;", file);
      break;
    default:
      fputc(*s < 0x20 ? ' ' : *s, file);
    }
  }
}

static double row_y(int row) {
  return margin + row * row_height;
}

/* One smooth line through the bends; vertical where it leaves, passes a row and arrives. */
static void put_edge(FILE *file, const layout *l, const layout_edge *e) {
  double x = margin + l->items[e->from].x, y = row_y(l->items[e->from].row) + box_height;
  fprintf(file, "<path d=\"M%.1f %.1f", x, y);
  for (int k = 0; k <= e->bends; k++) {
    const layout_item *next = &l->items[k < e->bends ? e->bend + k : e->to];
    double to_x = margin + next->x, to_y = row_y(next->row) - (k == e->bends ? 5 : 0);
    double middle = (y + to_y) / 2;
    if (x == to_x) {
      fprintf(file, " V%.1f", k < e->bends ? to_y + box_height : to_y);
      y = to_y + box_height;
      continue;
    }
    fprintf(file, " C%.1f %.1f %.1f %.1f %.1f %.1f", x, middle, to_x, middle, to_x, to_y);
    if (k < e->bends) fprintf(file, " V%.1f", to_y + box_height);
    x = to_x, y = to_y + box_height;
  }
  fputs("\"/>\n", file);
}

static void put_box(FILE *file, const layout *l, const box *b, int index) {
  const layout_item *item = &l->items[index];
  double x = margin + item->x, y = row_y(item->row);
  fprintf(file, "<g><title>");
  put_escaped(file, b->name);
  fprintf(file, "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" rx=\"6\" fill=\"%s\"/>",
          x - item->width / 2, y, item->width, box_height, b->colour);
  fprintf(file, "<text class=\"t\" x=\"%.1f\" y=\"%.1f\">", x, y + 19);
  put_escaped(file, b->title);
  fprintf(file, "</text><text class=\"d\" x=\"%.1f\" y=\"%.1f\">", x, y + 36);
  put_escaped(file, b->detail);
  fputs("</text></g>\n", file);
}

static void put_drawing(FILE *file, const drawing *d, const layout *l) {
  double width = l->width + 2 * margin, height = row_y(l->rows) - row_height + box_height + margin;
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
          "<title>",
          width, height, width, height);
  put_escaped(file, braid_graph_name(d->graph));
  fputs("</title>\n<style>text{font-family:Helvetica,Arial,sans-serif;text-anchor:middle;fill:#fff}"
        ".t{font-size:12px;font-weight:bold}.d{font-size:11px;fill-opacity:.85}"
        "path{fill:none;stroke:#8c8c99;stroke-width:1.4}</style>\n"
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
        "orient=\"auto\"><path d=\"M0 0L8 4L0 8Z\" style=\"fill:#8c8c99;stroke:none\"/></marker></defs>\n",
        file);
  fprintf(file, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n<g marker-end=\"url(#a)\">\n", width, height);
  for (int i = 0; i < l->edge_count; i++) put_edge(file, l, &l->edges[i]);
  fputs("</g>\n", file);
  for (int i = 0; i < d->box_count; i++) put_box(file, l, &d->boxes[i], i);
  fputs("</svg>\n", file);
}

/* Writes atomically: to a temporary file, which is then renamed. A device or a pipe, which that would replace, is
 * written directly. */
static braid_status write_file(const char *path, const drawing *d, const layout *l) {
  struct stat about;
  bool in_place = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
  char *target;
  int length = in_place ? asprintf(&target, "%s", path) : asprintf(&target, "%s.tmp-%ld", path, (long)getpid());
  if (length < 0) return cli_no_memory();
  FILE *file = fopen(target, "we");
  bool good = file != NULL;
  if (good) {
    put_drawing(file, d, l);
    good = !ferror(file);
    good = fclose(file) == 0 && good && (in_place || rename(target, path) == 0);
  }
  braid_status status = good ? BRAID_OK : braid_fail(BRAID_IO, "%s: cannot write: %s", path, strerror(errno));
  if (!good && file && !in_place) unlink(target);
  free(target);
  return status;
}

braid_status drawing_write(const braid_graph *graph, const char *path) {
  drawing d = {.graph = graph};
  layout l;
  bool made = collect(&d) && layout_create(d.widths, d.box_count, d.edges, d.edge_count, gap, &l);
  braid_status status = made ? write_file(path, &d, &l) : cli_no_memory();
  if (made) layout_destroy(&l);
  free(d.boxes);
  free(d.widths);
  free(d.edges);
  free(d.box_of_value);
  return status;
}
