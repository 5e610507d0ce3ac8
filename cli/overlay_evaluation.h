/* `braid evaluate overlay`: what the card takes (overlay_cnn.c, overlay_lstm.c), the tables and figures that hold it
 * against what was published (overlay_sections.c, overlay_figures.c), policies that share the card
 * (overlay_policies.c), what must hold (overlay_holds.c), and all of it as text, page or JSON (overlay_print.c). */
#ifndef BRAID_CLI_OVERLAY_EVALUATION_H
#define BRAID_CLI_OVERLAY_EVALUATION_H

#include "braid/overlay_evaluation.h"
#include "sharing.h"
#include "table.h"

enum {
  CLI_OVERLAY_TABLES = 3,
  CLI_OVERLAY_FIRST_FIGURE = 12,
  CLI_OVERLAY_FIGURES = 9,
  CLI_OVERLAY_POLICIES = CLI_OVERLAY_TABLES + CLI_OVERLAY_FIGURES, /* behind Tables 1 to 3, Figs. 12 to 20 */
  CLI_OVERLAY_SECTIONS,
  CLI_OVERLAY_COLUMNS = 7,
  CLI_OVERLAY_LINES = 64,
  CLI_OVERLAY_HOLDS = 128,
  CLI_OVERLAY_USER_SHARES = 3, /* 75%, 50%, 25% */
};

/* --- what the card takes --------------------------------------------------------------------------------------------
 */
typedef struct cli_overlay_counted { /* by 1, 2, 4, 8, 16 cores */
  double of[BRAID_OVERLAY_SHARES];
} cli_overlay_counted;

/* What tenants do to one of them. */
typedef struct cli_overlay_isolation {
  double deviation[CLI_OVERLAY_USER_SHARES]; /* percent: greatest over least throughput, whatever others have */
  double alone[CLI_OVERLAY_USER_SHARES];     /* the same, also against nobody else on the card */
} cli_overlay_isolation;

typedef struct cli_overlay_multi { /* by 1, 2, 4, 8, 16 tasks: runs a second in sum */
  cli_overlay_counted shared, fixed;
  double single; /* one task after the other on the single core */
} cli_overlay_multi;

typedef struct cli_overlay_network {
  double static_ms;                                       /* measured */
  cli_overlay_counted dynamic_ms, transfer_ms, switch_ms; /* measured; modelled; both */
  /* runs a second: all tilings, those of the paper, by width, by channels, single cores of the same parallelism */
  cli_overlay_counted ours, optimized, width, channels, single;
  cli_overlay_counted doubled, doubled_single; /* with twice the bandwidth, all tilings */
  cli_overlay_counted bound;                   /* of operations a cycle alone */
  double busy[BRAID_OVERLAY_UNITS];            /* percent of the time: CNN of one core, LSTM of 16 */
  cli_overlay_isolation cards, bank;           /* own banks; one bank that users share */
  cli_overlay_multi multi;
  braid_overlay_stops stops[BRAID_OVERLAY_SHARES];
} cli_overlay_network;

enum { CLI_OVERLAY_DESIGNS = 3 }; /* of 1, 16 and 64 multipliers a core */
typedef struct cli_overlay_lstm { /* LSTM_100 */
  cli_overlay_counted ours, single;
  double busy[BRAID_OVERLAY_UNITS];
} cli_overlay_lstm;

/* What has to be computed. */
enum {
  CLI_OVERLAY_COMPILES = 1,
  CLI_OVERLAY_SCALES = 2,
  CLI_OVERLAY_ISOLATES = 4,
  CLI_OVERLAY_SHARES_BANK = 8,
  CLI_OVERLAY_MANY = 16,
  CLI_OVERLAY_STOPS = 32,
  CLI_OVERLAY_PROFILES = 64,
  CLI_OVERLAY_MULTIPLIERS = 128, /* Fig. 18 */
  CLI_OVERLAY_SHARES_CARD = 256, /* policies */
  CLI_OVERLAY_CORES = 16,
};

/* Policies on traces of one kind. */
enum { CLI_OVERLAY_CASES = 4 };
typedef struct cli_overlay_case {
  char name[64];
  braid_overlay_shared of[CLI_SHARING_POLICIES];
} cli_overlay_case;

typedef struct cli_overlay cli_overlay;

/* --- tables and figures ---------------------------------------------------------------------------------------------
 */
typedef struct cli_overlay_line {
  char label[64];
  const char *figures; /* "modelled", "measured", "estimated"; NULL: nothing is ours */
  braid_overlay_span published[CLI_OVERLAY_COLUMNS], ours[CLI_OVERLAY_COLUMNS];
} cli_overlay_line;

typedef struct cli_overlay_section {
  const char *title, *columns; /* titles of columns, separated by "|"; a unit is part of them */
  const char *subject;         /* what the lines are of: "network" */
  char note[1600];
  cli_overlay_line lines[CLI_OVERLAY_LINES];
  size_t count;
} cli_overlay_section;

typedef struct cli_overlay_hold {
  char what[120];
  double wanted, ours; /* ours NAN: not computed */
  const char *unit;
  bool at_least; /* else at most */
} cli_overlay_hold;

struct cli_overlay {
  bool wanted[CLI_OVERLAY_SECTIONS], networks[BRAID_OVERLAY_NETWORKS], all;
  int needs[BRAID_OVERLAY_NETWORKS];
  cli_overlay_network of[BRAID_OVERLAY_NETWORKS];
  cli_overlay_lstm multipliers[CLI_OVERLAY_DESIGNS];
  cli_overlay_section sections[CLI_OVERLAY_SECTIONS];
  cli_overlay_hold holds[CLI_OVERLAY_HOLDS];
  size_t hold_count;
  const char *trace; /* a file of requests; NULL: none */
  char *trace_text;
  size_t trace_bytes;
  braid_overlay_costs *costs[BRAID_OVERLAY_CNNS]; /* NULL where nobody needs them */
  cli_overlay_case cases[CLI_OVERLAY_CASES];
  size_t case_count;
  cli_progress progress;
  int done, total; /* steps */
};

/* "3" or "12,15": tables (figures false) or figures; NULL: none more. `policies`: the section on them too; without any
 * of these all. `models`: names separated by commas; NULL: all. NOT_FOUND lists what there is. */
braid_status cli_overlay_select(cli_overlay *o, const char *tables, const char *figures, bool policies,
                                const char *models);
braid_status cli_overlay_make(cli_overlay *o); /* all that the selection needs */

/* --- for its files --------------------------------------------------------------------------------------------------
 */
/* A step is done; CANCELLED after Ctrl-C. */
braid_status cli_overlay_step(cli_overlay *o, const char *what);
int cli_overlay_share(size_t index);      /* 1, 2, 4, 8, 16 */
int cli_overlay_user_cores(size_t index); /* 12, 8, 4 of 16 */
braid_status cli_overlay_make_cnn(cli_overlay *o);
braid_status cli_overlay_make_lstm(cli_overlay *o);
/* Programs of one network by their numbers of cores; NULL where nobody needs them. */
typedef struct cli_overlay_tasks {
  braid_overlay_task *of[CLI_OVERLAY_CORES + 1];
} cli_overlay_tasks;
void cli_overlay_free_tasks(cli_overlay_tasks *tasks);
/* Runs a second of the first of these tenants. */
braid_status cli_overlay_rate(const braid_overlay_design *design, const braid_overlay_tenant *tenants, size_t count,
                              double *out);
/* Users of all cores (`bank`: of the cores of the first bank) with other tasks beside; `others` `other_count`. */
braid_status cli_overlay_isolate(const braid_overlay_design *design, const cli_overlay_tasks *user,
                                 const cli_overlay_tasks *const *others, size_t other_count, bool bank,
                                 cli_overlay_isolation *out);
braid_status cli_overlay_many(const braid_overlay_design *design, const cli_overlay_tasks *tasks, double single,
                              cli_overlay_multi *out);

double cli_overlay_loss(const cli_overlay_counted *ours, const cli_overlay_counted *single); /* percent, signed mean */
double cli_overlay_sums(const cli_overlay_counted *a, const cli_overlay_counted *b);         /* quotient of sums */
double cli_overlay_quotients(const cli_overlay_counted *a, const cli_overlay_counted *b);    /* mean of quotients */
cli_overlay_counted cli_overlay_constant(double value);

/* Policies: of a network what it takes on each number of cores; how many steps they are; the file of requests, before
 * anything that takes time; all policies on all traces; what of this is not needed any more. */
braid_status cli_overlay_time_network(cli_overlay *o, size_t network, const braid_overlay_design *design,
                                      const braid_overlay_package *package);
int cli_overlay_policy_steps(const cli_overlay *o);
braid_status cli_overlay_begin_policies(cli_overlay *o);
braid_status cli_overlay_run_policies(cli_overlay *o);
void cli_overlay_end_policies(cli_overlay *o);

void cli_overlay_make_sections(cli_overlay *o);
void cli_overlay_make_policies(cli_overlay *o);
void cli_overlay_make_figures(cli_overlay *o);
void cli_overlay_make_holds(cli_overlay *o);
/* A line of a section, with nothing in it. */
cli_overlay_line *cli_overlay_add(cli_overlay_section *section, const char *figures, const char *format, ...)
    BRAID_PRINTF(3, 4);
braid_overlay_span cli_overlay_one(double value);
braid_overlay_span cli_overlay_range(const cli_overlay_counted *counted);
const char *cli_overlay_name(size_t section, char *buffer, size_t bytes); /* "table 2", "figure 12", "policies" */

braid_status cli_overlay_show(const cli_overlay *o, bool json, const char *html);

#endif
