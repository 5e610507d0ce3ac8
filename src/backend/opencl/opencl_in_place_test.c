/* The kernels for OpenCL over their inputs: see in_place.h. Each node is a program to build, so there are fewer. */
#include "in_place.h"

static const char kGroups[] = "it is for devices other than CPUs";
static const in_place_exception kExceptions[] = {{"cpu", "Softmax", "cl_softmax_groups", 0, 0, kGroups},
                                                 {"cpu", "LogSoftmax", "cl_softmax_groups", 0, 0, kGroups},
                                                 {"cpu", "SoftmaxGrad", "cl_softmax_groups", 0, 0, kGroups},
                                                 {"cpu", "LogSoftmaxGrad", "cl_softmax_groups", 0, 0, kGroups}};

int main(void) {
  return in_place_main(&(in_place_options){.device = "opencl0",
                                           .sessions = "opencl0 cpu",
                                           .attempts = 100000,
                                           .wanted = 1,
                                           .session_count = 1,
                                           .exceptions = kExceptions,
                                           .exception_count = sizeof kExceptions / sizeof *kExceptions});
}
