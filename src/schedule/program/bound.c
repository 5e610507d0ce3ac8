#include "base/try.h"
#include "schedule/program/program.h"

/* Terms of a program, and iterations of the simplex method: both bound the time, and neither depends on the clock. */
enum { kTerms = 60000, kIterations = 15000 };

/* What rounding may make of a number of GLPK. */
static const double kSafety = 1e-7;

static braid_status find_bound(const braid_program *program, braid_number *out) {
  double joules;
  braid_status status = braid_program_relax(program, kIterations, &joules);
  if (status == BRAID_UNSUPPORTED) return BRAID_OK;
  BRAID_TRY(status);
  joules -= kSafety * program->joules;
  *out = (braid_number){joules > 0 ? joules : 0, BRAID_MODELLED};
  return BRAID_OK;
}

braid_status braid_problem_bound(const braid_problem *problem, double limit, bool capped,
                                 const braid_allocator *allocator, braid_number *out, const braid_offer **unweighed) {
  braid_program program;
  bool possible;
  *out = (braid_number){0};
  *unweighed = NULL;
  bool *refused = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *refused);
  if (!refused) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    refused[i] = !braid_offer_allowed(problem, &problem->offers[i]) ||
                 (capped && !braid_offer_within_caps(problem, &problem->offers[i]));
  braid_status status =
      braid_program_make(problem, refused, limit, capped, false, kTerms, allocator, &program, &possible);
  braid_free(allocator, refused);
  BRAID_TRY(status);
  *unweighed = program.unweighed;
  if (possible && !program.unweighed) status = find_bound(&program, out);
  braid_program_free(&program);
  return status;
}
