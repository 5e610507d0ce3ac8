#include "packages.h"

#include "files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool cli_names_package(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".bpk") == 0;
}

/* What compiling a model tells besides the package. */
typedef struct compiled {
  char *host; /* what is left to it, and why */
  double ms;  /* 0: the package was there */
  bool recurrent;
  braid_overlay_recurrent_error error;
} compiled;

/* One sequence of one step, where the model leaves it open. */
static braid_status close_dimensions(braid_graph *graph) {
  for (size_t i = 0; i < braid_graph_input_count(graph); i++) {
    braid_value_id input = braid_graph_input(graph, i);
    braid_desc desc = braid_graph_value(graph, input).desc;
    bool open = false;
    for (int k = 0; k < desc.rank; k++)
      if (desc.dims[k] < 0) {
        desc.dims[k] = 1;
        open = true;
      }
    braid_status status = open ? braid_graph_set_input_shape(graph, input, desc.rank, desc.dims) : BRAID_OK;
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status compile_recurrent(const cli_compilation *how, const braid_graph *graph,
                                      const braid_overlay_design *design, compiled *out,
                                      braid_overlay_package **package) {
  braid_overlay_recurrent_options options = {.greatest = how->greatest};
  braid_tensor *samples = NULL;
  braid_status status = how->samples ? braid_npy_load(NULL, how->samples, &samples) : BRAID_OK;
  options.samples = samples;
  double begin = cli_seconds();
  if (status == BRAID_OK)
    status = braid_overlay_compile_recurrent(graph, design, &options, NULL, &out->host, &out->error, package);
  out->ms = (cli_seconds() - begin) * 1e3;
  braid_tensor_release(samples);
  return status;
}

static braid_status compile_graph(const cli_compilation *how, const braid_overlay_design *design, compiled *out,
                                  braid_overlay_package **package) {
  braid_graph *graph;
  cli_source source = {.path = how->model, .shapes = how->shapes};
  braid_status status = cli_load(&source, &graph);
  if (status != BRAID_OK) return status;
  out->recurrent = design->recurrent;
  if (!design->recurrent && (how->samples || how->greatest > 0))
    status = braid_fail(BRAID_INVALID_ARGUMENT, "--input and --range are for recurrent networks, which %s is not for",
                        design->name);
  if (status == BRAID_OK) status = design->recurrent ? close_dimensions(graph) : cli_set_batch(graph, 1);
  if (status == BRAID_OK) status = braid_resolve(graph);
  double begin = cli_seconds();
  if (status == BRAID_OK && design->recurrent) {
    status = compile_recurrent(how, graph, design, out, package);
  } else if (status == BRAID_OK) {
    status = braid_overlay_compile(graph, design, NULL, &out->host, package);
    out->ms = (cli_seconds() - begin) * 1e3;
  }
  braid_graph_destroy(graph);
  return cli_blame_model(&source, status);
}

/* The first line of what is left to the host; returns where the next one begins. */
static const char *host_line(const char *host, char *out, size_t bytes) {
  size_t length = strcspn(host, "\n");
  snprintf(out, bytes, "%.*s", (int)length, host);
  return host + length + (host[length] != 0);
}

static void warn_of_host(const char *host) {
  char line[400];
  fprintf(stderr, "braid compile: left to the host:\n");
  while (*host) {
    host = host_line(host, line, sizeof line);
    fprintf(stderr, "  ");
    cli_print_escaped(stderr, line);
    fprintf(stderr, "\n");
  }
}

static void write_host(cli_json *json, const char *host) {
  char line[400];
  cli_json_array(json, "host");
  while (*host) {
    host = host_line(host, line, sizeof line);
    cli_json_string(json, NULL, line);
  }
  cli_json_close(json, ']');
}

static void print_error(const braid_overlay_recurrent_error *e) {
  printf("16 bits: inputs up to %g%s", e->greatest,
         e->assumed ? " (assumed: --input FILE.npy or --range tell it)" : "");
  if (e->clipped) printf(", %" PRId64 " beyond", e->clipped);
  printf("; beside double precision hidden states are at most %.2g off (%.2g root mean square), last cell states %.2g, "
         "over %" PRId64 " %ssequence%s of %d steps\n",
         e->most, e->mean, e->most_cell, e->sequences, e->random ? "random " : "", e->sequences == 1 ? "" : "s",
         e->steps);
}

static void write_error(cli_json *json, const braid_overlay_recurrent_error *e) {
  cli_json_object(json, "error");
  cli_json_number(json, "greatest_input", e->greatest);
  cli_json_bool(json, "assumed", e->assumed);
  cli_json_bool(json, "random", e->random);
  cli_json_integer(json, "sequences", e->sequences);
  cli_json_integer(json, "steps", e->steps);
  cli_json_integer(json, "clipped_inputs", e->clipped);
  cli_json_number(json, "hidden_most", e->most);
  cli_json_number(json, "hidden_root_mean_square", e->mean);
  cli_json_number(json, "last_cell_most", e->most_cell);
  cli_json_close(json, '}');
}

static void print_steps(const braid_overlay_package_info *info, double ms) {
  char text[32];
  printf("%zu cell%s, sequences of %d step%s, %s multiply-accumulates, for %s", info->layers,
         info->layers == 1 ? "" : "s", info->steps, info->steps == 1 ? "" : "s",
         cli_format_count((double)info->macs, text, sizeof text), info->design);
  if (ms > 0) printf(", compiled in %.1f ms", ms);
  printf("\n%s of weights and biases", cli_format_bytes((double)info->constant_bytes, text, sizeof text));
  printf(", %s of sequences\n",
         cli_format_bytes((double)(info->map_bytes + info->input_bytes + info->output_bytes), text, sizeof text));
}

static void print_sizes(const braid_overlay_package_info *info, double ms) {
  char text[32];
  if (info->steps) {
    print_steps(info, ms);
    return;
  }
  printf("%zu layer%s, %s multiply-accumulates, for %s", info->layers, info->layers == 1 ? "" : "s",
         cli_format_count((double)info->macs, text, sizeof text), info->design);
  if (ms > 0) printf(", compiled in %.1f ms", ms);
  printf("\n%zu tiles, %s of instructions", info->tiles,
         cli_format_bytes((double)info->instruction_bytes, text, sizeof text));
  printf(", %s of weights and biases", cli_format_bytes((double)info->constant_bytes, text, sizeof text));
  printf(", %s of maps\n", cli_format_bytes((double)info->map_bytes, text, sizeof text));
  printf("a core that is to be given away stands at a tile after at most %" PRId64
         " cycles, %.1f us, if it has come to a further place since its task went on\n",
         info->stop_cycles, info->stop_microseconds);
}

/* Dimensions as `braid simulate` takes and gives arrays: of a recurrent network steps, 1, numbers of a step. */
static void port_dims(const braid_overlay_port_info *port, int64_t out[3]) {
  bool recurrent = port->bits == 16;
  out[0] = recurrent ? port->columns : port->channels;
  out[1] = recurrent ? 1 : port->rows;
  out[2] = recurrent ? port->channels : port->columns;
}

static const char *port_dtype(const braid_overlay_port_info *port) {
  return port->real ? "float32" : port->bits == 16 ? "int16" : "int8";
}

static void print_ports(const braid_overlay_package *package, bool outputs) {
  size_t count = braid_overlay_package_port_count(package, outputs);
  printf("%s%s:", outputs ? "output" : "input", count == 1 ? "" : "s");
  for (size_t i = 0; i < count; i++) {
    braid_overlay_port_info port = braid_overlay_package_get_port(package, outputs, i);
    int64_t dims[3];
    port_dims(&port, dims);
    printf("%s ", i ? "," : "");
    cli_print_escaped(stdout, port.name);
    printf(" (%s %" PRId64 " x %" PRId64 " x %" PRId64 ")", port_dtype(&port), dims[0], dims[1], dims[2]);
  }
  printf("%s", outputs ? "\n" : "; ");
}

static void write_ports(cli_json *json, const braid_overlay_package *package, bool outputs) {
  cli_json_array(json, outputs ? "outputs" : "inputs");
  for (size_t i = 0; i < braid_overlay_package_port_count(package, outputs); i++) {
    braid_overlay_port_info port = braid_overlay_package_get_port(package, outputs, i);
    int64_t dims[3];
    port_dims(&port, dims);
    cli_json_object(json, NULL);
    cli_json_string(json, "name", port.name);
    cli_json_string(json, "dtype", port_dtype(&port));
    cli_json_array(json, "dims");
    for (int d = 0; d < 3; d++) cli_json_integer(json, NULL, dims[d]);
    cli_json_close(json, ']');
    cli_json_integer(json, "exponent", port.exponent);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_layers(const braid_overlay_layer_share *layers, size_t count) {
  printf("\n  %-10s %-9s %5s %12s %9s  %s\n", "layer", "tiling", "tiles", "cycles", "over", "node");
  for (size_t l = 0; l < count; l++) {
    const braid_overlay_layer_share *layer = &layers[l];
    printf("  %-10s %-9s %5d %12" PRId64 " %8.2f%%  ", layer->kind, layer->tiling, layer->tiles, layer->cycles,
           100 * ((double)layer->cycles / (double)(layer->bound ? layer->bound : 1) - 1));
    cli_print_escaped(stdout, layer->name);
    printf("\n");
  }
}

static void write_layers(cli_json *json, const braid_overlay_layer_share *layers, size_t count) {
  cli_json_array(json, "layers");
  for (size_t l = 0; l < count; l++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "node", layers[l].name);
    cli_json_string(json, "kind", layers[l].kind);
    cli_json_string(json, "tiling", layers[l].tiling);
    cli_json_integer(json, "tiles", layers[l].tiles);
    cli_json_integer(json, "macs", layers[l].macs);
    cli_json_integer(json, "cycles", layers[l].cycles);
    cli_json_integer(json, "bound_cycles", layers[l].bound);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* What cores take: `cores` if it is given, else 1, 2, 4 ... as many as the design has. */
static braid_status tell(const braid_overlay_package *package, const cli_compilation *how,
                         const braid_overlay_package_info *info, braid_overlay_layer_share *layers, cli_json *json) {
  int first = how->cores ? how->cores : 1, last = how->cores ? how->cores : info->cores;
  if (json) cli_json_array(json, "programs");
  for (int cores = first; cores <= last; cores *= 2) {
    braid_overlay_program_info program;
    braid_status status = braid_overlay_package_share(package, cores, layers, &program);
    if (status != BRAID_OK) return status;
    if (!json) {
      printf("%2d core%s about %" PRId64 " cycles %s, %.2f%% over the bound; programs of %" PRId64
             " bytes, made in %.1f us\n",
             cores, cores == 1 ? ": " : "s:", program.cycles, info->steps ? "a sequence" : "an image",
             100 * ((double)program.cycles / (double)(program.bound ? program.bound : 1) - 1), program.bytes,
             program.microseconds);
      continue;
    }
    cli_json_object(json, NULL);
    cli_json_integer(json, "cores", cores);
    cli_json_integer(json, "cycles", program.cycles);
    cli_json_integer(json, "bound_cycles", program.bound);
    cli_json_integer(json, "bytes", program.bytes);
    if (!info->steps) cli_json_integer(json, "stop_cycles", program.stop_cycles);
    cli_json_number(json, "make_us", program.microseconds);
    cli_json_close(json, '}');
  }
  if (json) cli_json_close(json, ']');
  return BRAID_OK;
}

static braid_status print_json(const braid_overlay_package *package, const cli_compilation *how,
                               const braid_overlay_package_info *info, braid_overlay_layer_share *layers,
                               const compiled *c) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "design", info->design);
  if (c->ms > 0) cli_json_number(&json, "compile_ms", c->ms);
  cli_json_integer(&json, "macs", info->macs);
  cli_json_integer(&json, "tiles", (int64_t)info->tiles);
  cli_json_integer(&json, "instruction_bytes", info->instruction_bytes);
  cli_json_integer(&json, "constant_bytes", info->constant_bytes);
  cli_json_integer(&json, "map_bytes", info->map_bytes);
  if (!info->steps) {
    cli_json_integer(&json, "stop_cycles", info->stop_cycles);
    cli_json_number(&json, "stop_us", info->stop_microseconds);
  }
  if (info->steps) cli_json_integer(&json, "steps", info->steps);
  write_ports(&json, package, false);
  write_ports(&json, package, true);
  if (c->recurrent) write_error(&json, &c->error);
  if (c->host) write_host(&json, c->host);
  braid_status status = tell(package, how, info, layers, &json);
  if (status != BRAID_OK) {
    cli_json_discard(&json);
    return status;
  }
  if (how->cores) write_layers(&json, layers, info->layers);
  return cli_json_end(&json) ? BRAID_OK : braid_fail(BRAID_IO, "standard output: the document could not be written");
}

static braid_status print_text(const braid_overlay_package *package, int cores) {
  char *text;
  braid_status status = braid_overlay_package_text(package, cores, NULL, &text);
  if (status != BRAID_OK) return status;
  fputs(text, stdout);
  braid_free(NULL, text);
  return BRAID_OK;
}

static braid_status print_package(const braid_overlay_package *package, const cli_compilation *how, const compiled *c) {
  braid_overlay_package_info info = braid_overlay_package_get_info(package);
  if (how->disassemble) return print_text(package, how->cores);
  braid_overlay_layer_share *layers = calloc(info.layers + 1, sizeof *layers);
  if (!layers) return cli_no_memory();
  braid_status status;
  if (how->json) {
    status = print_json(package, how, &info, layers, c);
  } else {
    print_sizes(&info, c->ms);
    print_ports(package, false);
    print_ports(package, true);
    if (c->recurrent) print_error(&c->error);
    status = tell(package, how, &info, layers, NULL);
    if (status == BRAID_OK && how->cores) print_layers(layers, info.layers);
  }
  free(layers);
  return status;
}

static braid_status check_files(const cli_compilation *how) {
  const cli_file files[] = {{"the model", how->model, false},
                            {"the array of --input", how->samples, false},
                            cli_design_file(how->design),
                            {"--out", how->out, true}};
  return cli_check_files(files, sizeof files / sizeof *files);
}

braid_status cli_compile_model(const cli_compilation *how) {
  const braid_overlay_design *design = NULL;
  braid_overlay_package *package = NULL;
  compiled c = {.host = NULL};
  braid_status status = check_files(how);
  if (status != BRAID_OK) return status;
  if (cli_names_package(how->model)) {
    status = braid_overlay_package_read(NULL, how->model, &package);
  } else {
    status = braid_overlay_design_load(NULL, how->design, &design);
    if (status == BRAID_OK) status = compile_graph(how, design, &c, &package);
  }
  if (status == BRAID_OK && how->steps) status = braid_overlay_package_set_steps(package, how->steps);
  if (status == BRAID_OK && how->out) status = braid_overlay_package_write(package, how->out);
  if (c.host && c.host[0]) warn_of_host(c.host);
  if (status == BRAID_OK) status = print_package(package, how, &c);
  braid_free(NULL, c.host);
  braid_overlay_package_destroy(package);
  if (design) braid_overlay_design_destroy(design);
  return status;
}
