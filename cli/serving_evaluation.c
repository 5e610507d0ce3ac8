#include "serving_evaluation.h"

#include <math.h>
#include <stdlib.h>

#include "table.h"

enum { TABLES = 4 };
static const char *const kWays[CLI_SERVING_WAYS] = {
    [CLI_SERVING_SHARED] = "Unix socket, shared memory", [CLI_SERVING_UNIX] = "Unix socket", [CLI_SERVING_TCP] = "TCP"};
static const char *const kKeys[CLI_SERVING_WAYS] = {
    [CLI_SERVING_SHARED] = "unix_shared", [CLI_SERVING_UNIX] = "unix", [CLI_SERVING_TCP] = "tcp"};

/* --- tables --------------------------------------------------------------------------------------------------------
 */
/* The client's calls of section 6.1.1, and the flow of Fig. 11(c). */
static void make_calls(cli_table *table) {
  static const char *const kRows[][4] = {
      {"compile DNN models", "once, offline", "compile, or a model of the daemon's configuration", "0 or 1"},
      {"input/output data", "with a launch", "data, shared memory; or in the launch", "0 or 1"},
      {"request/release virtualized FPGA resources", "once", "cores", "0 or 2"},
      {"launch tasks", "each inference", "launch", "0, and 1 for each inference"},
      {"close tasks", "once", "close", "1"}};
  cli_table_begin(table, "Section 6.1.1 and Fig. 11(c): the client's calls",
                  "The paper publishes the calls and that there are few of them, no counts and no times.",
                  "published: the client's call|published: when|ours|messages of a connection");
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; i++)
    for (size_t k = 0; k < 4; k++) cli_table_cell(table, "%s", kRows[i][k]);
}

static void make_remote(const cli_serving *s, cli_table *table) {
  cli_table_begin(table, "Remote access against the same model in this process (Fig. 11(c))",
                  "Measured, medians and 99th percentiles, batch 1, one thread; the client shares the CPUs with the "
                  "daemon. Networks of section 7.1.3 with drawn 8-bit weights.",
                  "network|way|us|p99|beyond local us|messages before|messages each|KiB there|KiB back");
  for (size_t i = 0; i < s->count; i++) {
    const cli_serving_network *n = &s->networks[i];
    cli_table_cell(table, "%s", n->name);
    cli_table_cell(table, "local");
    cli_table_cell(table, "%.0f", n->local_us);
    cli_table_cell(table, "%.0f", n->local_p99_us);
    for (int k = 0; k < 5; k++) cli_table_cell(table, "-");
    for (int way = 0; way < CLI_SERVING_WAYS; way++) {
      const cli_serving_times *t = &n->ways[way];
      cli_table_cell(table, "%s", n->name);
      cli_table_cell(table, "%s", kWays[way]);
      cli_table_cell(table, "%.0f", t->p50_us);
      cli_table_cell(table, "%.0f", t->p99_us);
      cli_table_cell(table, "%+.0f", t->p50_us - n->local_us);
      cli_table_cell(table, "%.0f", t->set_up);
      cli_table_cell(table, "%.3g", t->launches);
      cli_table_cell(table, "%.1f", t->sent / 1024);
      cli_table_cell(table, "%.1f", t->received / 1024);
    }
  }
}

/* What the paper means by API remoting: each call of the driver goes to the other machine. */
static double forwarded_us(const cli_serving *s, const cli_serving_network *n, cli_serving_way way) {
  return n->local_us + (double)(n->tasks + 2) * s->empty_us[way];
}

static void make_forwarded(const cli_serving *s, cli_table *table) {
  cli_table_begin(
      table, "Section 6.2: what \"API remoting\" would cost, each call of the device forwarded",
      "Modelled: the time in this process, and for each task, input and output a message that asks for "
      "nothing, as measured here.",
      "network|calls of the device|message, Unix us|message, TCP us|modelled, TCP us|ours, TCP us|times less "
      "beyond local");
  for (size_t i = 0; i < s->count; i++) {
    const cli_serving_network *n = &s->networks[i];
    double forwarded = forwarded_us(s, n, CLI_SERVING_TCP), ours = n->ways[CLI_SERVING_TCP].p50_us;
    cli_table_cell(table, "%s", n->name);
    cli_table_cell(table, "%zu", n->tasks + 2);
    cli_table_cell(table, "%.1f", s->empty_us[CLI_SERVING_UNIX]);
    cli_table_cell(table, "%.1f", s->empty_us[CLI_SERVING_TCP]);
    cli_table_cell(table, "%.0f", forwarded);
    cli_table_cell(table, "%.0f", ours);
    if (ours > n->local_us)
      cli_table_cell(table, "%.1f", (forwarded - n->local_us) / (ours - n->local_us));
    else
      cli_table_cell(table, "-");
  }
}

static double deviation(double alone, double beside) {
  return 100 * (beside / alone - 1);
}

static void make_neighbours(const cli_serving *s, cli_table *table) {
  const cli_serving_neighbours *n = &s->neighbours;
  cli_table_begin(table, "Section 7.3.1: a tenant with cores of its own, and a neighbour that asks without pause",
                  "The paper's cores are hardware of their own. Ours here are instances of the CPU, which share its "
                  "caches and, with the client, its CPUs; `braid evaluate overlay --figure 12` has the card's cores.",
                  "figures are|of|deviation, %|alone us|beside us");
  cli_table_cell(table, "published");
  cli_table_cell(table, "FPGA, own bank, at most");
  cli_table_cell(table, "1");
  cli_table_cell(table, "-");
  cli_table_cell(table, "-");
  cli_table_cell(table, "measured");
  cli_table_cell(table, "an instance on %d CPUs, median", n->cpus);
  cli_table_cell(table, "%.1f", deviation(n->alone_us, n->beside_us));
  cli_table_cell(table, "%.0f", n->alone_us);
  cli_table_cell(table, "%.0f", n->beside_us);
  cli_table_cell(table, "measured");
  cli_table_cell(table, "the same, 99th percentile");
  cli_table_cell(table, "%.1f", deviation(n->alone_p99_us, n->beside_p99_us));
  cli_table_cell(table, "%.0f", n->alone_p99_us);
  cli_table_cell(table, "%.0f", n->beside_p99_us);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_network(cli_json *json, const cli_serving *s, const cli_serving_network *n) {
  cli_json_object(json, NULL);
  cli_json_string(json, "network", n->name);
  cli_json_number(json, "measured_local_us", n->local_us);
  cli_json_number(json, "measured_local_p99_us", n->local_p99_us);
  cli_json_integer(json, "device_calls", (int64_t)n->tasks + 2);
  cli_json_number(json, "modelled_forwarded_tcp_us", forwarded_us(s, n, CLI_SERVING_TCP));
  for (int way = 0; way < CLI_SERVING_WAYS; way++) {
    const cli_serving_times *t = &n->ways[way];
    cli_json_object(json, kKeys[way]);
    cli_json_number(json, "measured_us", t->p50_us);
    cli_json_number(json, "measured_p99_us", t->p99_us);
    cli_json_number(json, "messages_before", t->set_up);
    cli_json_number(json, "messages_per_inference", t->launches);
    cli_json_number(json, "bytes_sent", t->sent);
    cli_json_number(json, "bytes_received", t->received);
    cli_json_close(json, '}');
  }
  cli_json_close(json, '}');
}

static braid_status print_json(const cli_serving *s) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_array(&json, "networks");
  for (size_t i = 0; i < s->count; i++) json_network(&json, s, &s->networks[i]);
  cli_json_close(&json, ']');
  cli_json_number(&json, "measured_message_unix_us", s->empty_us[CLI_SERVING_UNIX]);
  cli_json_number(&json, "measured_message_tcp_us", s->empty_us[CLI_SERVING_TCP]);
  cli_json_object(&json, "neighbour");
  cli_json_number(&json, "published_deviation_percent", 1);
  cli_json_number(&json, "measured_alone_us", s->neighbours.alone_us);
  cli_json_number(&json, "measured_beside_us", s->neighbours.beside_us);
  cli_json_number(&json, "measured_alone_p99_us", s->neighbours.alone_p99_us);
  cli_json_number(&json, "measured_beside_p99_us", s->neighbours.beside_p99_us);
  cli_json_integer(&json, "cpus", s->neighbours.cpus);
  cli_json_close(&json, '}');
  return cli_json_end(&json) ? BRAID_OK : braid_fail(BRAID_IO, "standard output cannot be written");
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status show(const cli_serving *s, bool json, const char *html) {
  cli_table tables[TABLES];
  braid_page_table pages[TABLES];
  braid_status status = BRAID_OK;
  make_calls(&tables[0]);
  make_remote(s, &tables[1]);
  make_forwarded(s, &tables[2]);
  make_neighbours(s, &tables[3]);
  for (size_t i = 0; i < TABLES; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && html)
    status = braid_tile_write_html(NULL, html, "Remote access and tenants: published, measured", NULL, NULL, 0, pages,
                                   TABLES);
  if (status == BRAID_OK && json) status = print_json(s);
  if (status == BRAID_OK && !json) {
    puts("FPGA virtualization in the cloud (Zeng et al. 2021), sections 6 and 7.3.1: what was published of remote "
         "access "
         "and of tenants, and what a daemon on this machine gives.");
    for (size_t i = 0; i < TABLES; i++) cli_table_print(&tables[i], SIZE_MAX - 1);
    puts("\nAlgorithm 1 and equations 12 and 13 against other policies, on the card's model: braid evaluate overlay "
         "--policies.");
  }
  for (size_t i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

braid_status cli_serving_evaluate(const char *models, bool json, const char *html) {
  cli_serving *s = calloc(1, sizeof *s);
  braid_status status = s ? cli_serving_measure(models, s) : cli_no_memory();
  if (status == BRAID_OK) status = show(s, json, html);
  free(s);
  return status;
}
