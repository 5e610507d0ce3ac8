/* Any text is a report with figures within their bounds, or a failure with a sentence that names the line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/explore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_vendor_report report;
  braid_status status = braid_vendor_report_parse("input", data, bytes, &report);
  if (status != BRAID_OK) {
    if (status != BRAID_INVALID_FILE || !strstr(braid_error_detail(), "input, line ")) abort();
    return 0;
  }
  const double shares[] = {report.logic, report.dsps, report.rams};
  bool said = !isnan(report.fmax_mhz);
  if (said && !(report.fmax_mhz > 0 && report.fmax_mhz <= 1e5)) abort();
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    said |= !isnan(shares[i]);
    if (shares[i] < 0) abort();
  }
  if (!said || !report.format[0]) abort();
  return 0;
}
