/* The CPU's kernels over their inputs: see in_place.h. */
#include "in_place.h"

int main(void) {
  return in_place_main(&(in_place_options){
      .device = "cpu", .sessions = "cpu", .attempts = 100000, .wanted = 12, .session_count = 20, .large = true});
}
