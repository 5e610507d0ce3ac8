/* Recurrent networks as braid/overlay.h has them. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "overlay/recurrent/rnn_error.h"

enum { kAssumedGreatest = 4 };

/* The greatest magnitude of an input. */
static braid_status choose_greatest(const braid_overlay_recurrent_options *options,
                                    braid_overlay_recurrent_error *error) {
  *error = (braid_overlay_recurrent_error){.greatest = options ? options->greatest : 0};
  const braid_tensor *samples = options ? options->samples : NULL;
  error->random = !samples;
  if (samples && braid_tensor_desc(samples)->dtype != BRAID_F32)
    return braid_fail(BRAID_INVALID_ARGUMENT, "samples are %s; expected is float32",
                      braid_dtype_name(braid_tensor_desc(samples)->dtype));
  const float *numbers = samples ? braid_tensor_const_data(samples) : NULL;
  int64_t count = samples ? braid_desc_count(braid_tensor_desc(samples)) : 0;
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(numbers[i]))
      return braid_fail(BRAID_INVALID_ARGUMENT, "samples: number %lld is not finite", (long long)i);
    most = fmax(most, fabs((double)numbers[i]));
  }
  if (error->greatest < 0 || !isfinite(error->greatest))
    return braid_fail(BRAID_INVALID_ARGUMENT, "the greatest input is %g: a positive number is expected",
                      error->greatest);
  error->assumed = error->greatest == 0 && !(most > 0);
  if (error->greatest == 0) error->greatest = most > 0 ? most : kAssumedGreatest;
  return BRAID_OK;
}

static braid_status compile_lowered(const braid_graph *graph, const braid_overlay_design *design,
                                    const braid_tensor *samples, const braid_allocator *allocator, braid_text *host,
                                    bool all, braid_overlay_recurrent_error *error, bool measures,
                                    braid_overlay_package **out) {
  braid_rnn_lowered lowered;
  braid_status status = braid_rnn_lower(graph, error->greatest, allocator, host, &lowered);
  if (status == BRAID_OK && all && host->length)
    status = braid_fail(BRAID_UNSUPPORTED, "%.*s", (int)strcspn(host->data, "\n"), host->data);
  if (status == BRAID_OK && (measures || samples)) status = braid_rnn_measure_error(&lowered, samples, error);
  if (status == BRAID_OK) status = braid_rnn_compile(&lowered.network, design, allocator, out);
  braid_rnn_lowered_deinit(&lowered);
  return status;
}

braid_status braid_overlay_compile_recurrent(const braid_graph *graph, const braid_overlay_design *design,
                                             const braid_overlay_recurrent_options *options,
                                             const braid_allocator *allocator, char **host,
                                             braid_overlay_recurrent_error *error, braid_overlay_package **out) {
  braid_overlay_recurrent_error measured;
  braid_text text;
  *out = NULL;
  if (host) *host = NULL;
  if (!design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "%s: its cores are for convolutional networks", design->name);
  BRAID_TRY(choose_greatest(options, &measured));
  braid_text_init(&text, allocator);
  braid_status status = compile_lowered(graph, design, options ? options->samples : NULL, allocator, &text, !host,
                                        &measured, error != NULL, out);
  if (status == BRAID_OK && host && !(*host = braid_strdup(allocator, text.data))) status = BRAID_NO_MEMORY;
  if (status != BRAID_OK) {
    braid_overlay_package_destroy(*out);
    *out = NULL;
  }
  if (error) *error = measured;
  braid_text_deinit(&text);
  return status;
}
