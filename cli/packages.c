#include "packages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool cli_names_package(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".bpk") == 0;
}

static braid_status compile_graph(const cli_compilation *how, const braid_overlay_design *design, char **host,
                                  braid_overlay_package **out, double *ms) {
  braid_graph *graph;
  cli_source source = {.path = how->model};
  braid_status status = cli_load(&source, &graph);
  if (status != BRAID_OK) return status;
  status = cli_set_batch(graph, 1);
  if (status == BRAID_OK) status = braid_resolve(graph);
  double begin = cli_seconds();
  if (status == BRAID_OK) status = braid_overlay_compile(graph, design, NULL, host, out);
  *ms = (cli_seconds() - begin) * 1e3;
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

static void print_sizes(const braid_overlay_package_info *info, double ms) {
  char text[32];
  printf("%zu layers, %s multiply-accumulates, for %s", info->layers,
         cli_format_count((double)info->macs, text, sizeof text), info->design);
  if (ms > 0) printf(", compiled in %.1f ms", ms);
  printf("\n%zu tiles, %s of instructions", info->tiles,
         cli_format_bytes((double)info->instruction_bytes, text, sizeof text));
  printf(", %s of weights and biases", cli_format_bytes((double)info->constant_bytes, text, sizeof text));
  printf(", %s of maps\n", cli_format_bytes((double)info->map_bytes, text, sizeof text));
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
      printf("%2d cores: about %" PRId64 " cycles an image, %.2f%% over the bound; programs of %" PRId64
             " bytes, made in %.1f us\n",
             cores, program.cycles, 100 * ((double)program.cycles / (double)(program.bound ? program.bound : 1) - 1),
             program.bytes, program.microseconds);
      continue;
    }
    cli_json_object(json, NULL);
    cli_json_integer(json, "cores", cores);
    cli_json_integer(json, "cycles", program.cycles);
    cli_json_integer(json, "bound_cycles", program.bound);
    cli_json_integer(json, "bytes", program.bytes);
    cli_json_number(json, "make_us", program.microseconds);
    cli_json_close(json, '}');
  }
  if (json) cli_json_close(json, ']');
  return BRAID_OK;
}

static braid_status print_json(const braid_overlay_package *package, const cli_compilation *how,
                               const braid_overlay_package_info *info, braid_overlay_layer_share *layers,
                               const char *host, double ms) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "design", info->design);
  if (ms > 0) cli_json_number(&json, "compile_ms", ms);
  cli_json_integer(&json, "macs", info->macs);
  cli_json_integer(&json, "tiles", (int64_t)info->tiles);
  cli_json_integer(&json, "instruction_bytes", info->instruction_bytes);
  cli_json_integer(&json, "constant_bytes", info->constant_bytes);
  cli_json_integer(&json, "map_bytes", info->map_bytes);
  if (host) write_host(&json, host);
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

static braid_status print_package(const braid_overlay_package *package, const cli_compilation *how, const char *host,
                                  double ms) {
  braid_overlay_package_info info = braid_overlay_package_get_info(package);
  if (how->disassemble) return print_text(package, how->cores);
  braid_overlay_layer_share *layers = calloc(info.layers + 1, sizeof *layers);
  if (!layers) return cli_no_memory();
  braid_status status;
  if (how->json) {
    status = print_json(package, how, &info, layers, host, ms);
  } else {
    print_sizes(&info, ms);
    status = tell(package, how, &info, layers, NULL);
    if (status == BRAID_OK && how->cores) print_layers(layers, info.layers);
  }
  free(layers);
  return status;
}

braid_status cli_compile_model(const cli_compilation *how) {
  const braid_overlay_design *design = NULL;
  braid_overlay_package *package = NULL;
  char *host = NULL;
  double ms = 0;
  braid_status status;
  if (cli_names_package(how->model)) {
    status = braid_overlay_package_read(NULL, how->model, &package);
  } else {
    status = braid_overlay_design_load(NULL, how->design, &design);
    if (status == BRAID_OK) status = compile_graph(how, design, &host, &package, &ms);
  }
  if (status == BRAID_OK && how->out) status = braid_overlay_package_write(package, how->out);
  if (host && host[0]) warn_of_host(host);
  if (status == BRAID_OK) status = print_package(package, how, host, ms);
  braid_free(NULL, host);
  braid_overlay_package_destroy(package);
  if (design) braid_overlay_design_destroy(design);
  return status;
}
