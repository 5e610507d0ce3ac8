/* The kernels for OpenCL over their inputs: see in_place.h. Each node is a program to build, so there are fewer. */
#include "in_place.h"

static const char kGroups[] = "it is for devices other than CPUs";
static const char kTypes[] =
    "operands of several integer types are not drawn here; cl_ledger_test trains with it in place";
static const char kHalves[] = "scales, guards and 16-bit copies are not drawn; training in 16 bits runs it in place";

static const in_place_exception kExceptions[] = {
    {"cpu", "SgdUpdate", "cl_sgd", 2, 6, kHalves},
    {"cpu", "AdamUpdate", "cl_adam", 3, 8, kHalves},
    {"cpu", "LossScaleUpdate", "cl_loss_scale", 1, 1, kHalves},
    {"cpu", "Softmax", "cl_softmax_groups", 0, 0, kGroups},
    {"cpu", "LogSoftmax", "cl_softmax_groups", 0, 0, kGroups},
    {"cpu", "SoftmaxGrad", "cl_softmax_groups", 0, 0, kGroups},
    {"cpu", "LogSoftmaxGrad", "cl_softmax_groups", 0, 0, kGroups},
    {"cpu", "IntegerMomentum", "cl_integer_momentum", 0, 0, kTypes},
    {"cpu", "IntegerMomentum", "cl_integer_momentum", 1, 1, kTypes},
    {"cpu", "IntegerUpdate", "cl_integer_update", 0, 0, kTypes},
    {"cpu", "IntegerBatchNormalization", "cl_integer_batch_normalization", 1, 3, kTypes},
    {"cpu", "IntegerBatchNormalization", "cl_integer_batch_normalization", 2, 4, kTypes}};

int main(void) {
  return in_place_main(&(in_place_options){.device = "opencl0",
                                           .sessions = "opencl0 cpu",
                                           .attempts = 100000,
                                           .wanted = 1,
                                           .session_count = 1,
                                           .exceptions = kExceptions,
                                           .exception_count = sizeof kExceptions / sizeof *kExceptions});
}
