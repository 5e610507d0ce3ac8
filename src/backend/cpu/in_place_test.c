/* The CPU's kernels over their inputs: see in_place.h. */
#include "in_place.h"

static const char kTypes[] = "five operands of as many types are not drawn; training in integers runs it in place";

static const char kHalves[] = "scales, guards and 16-bit copies are not drawn; training in 16 bits runs it in place";
static const char kConstant[] = "constant filters are not drawn; winograd_conv_test runs it in place";

static const in_place_exception kExceptions[] = {
    {"cpu", "FusedConv", "winograd_conv", 0, 3, kConstant},
    {"cpu", "LossScaleUpdate", "ref_loss_scale", 1, 1, kHalves},
    {"cpu", "SgdUpdate", "ref_sgd", 2, 6, kHalves},
    {"cpu", "AdamUpdate", "ref_adam", 3, 8, kHalves},
    {"cpu", "IntegerMomentum", "vector_integer_momentum", 0, 0, kTypes},
    {"cpu", "IntegerMomentum", "vector_integer_momentum", 1, 1, kTypes},
    {"cpu", "IntegerMomentum", "ref_integer_momentum", 0, 0, kTypes},
    {"cpu", "IntegerMomentum", "ref_integer_momentum", 1, 1, kTypes},
    {"cpu", "IntegerUpdate", "ref_integer_update", 0, 0, kTypes},
    {"cpu", "IntegerUpdate", "vector_integer_update", 0, 0, kTypes},
    {"cpu", "IntegerBatchNormalization", "ref_integer_batch_normalization", 1, 3, kTypes},
    {"cpu", "IntegerBatchNormalization", "ref_integer_batch_normalization", 2, 4, kTypes},
    {"cpu", "IntegerBatchNormalization", "vector_integer_batch_normalization", 1, 3, kTypes},
    {"cpu", "IntegerBatchNormalization", "vector_integer_batch_normalization", 2, 4, kTypes}};

int main(void) {
  return in_place_main(&(in_place_options){.device = "cpu",
                                           .sessions = "cpu",
                                           .attempts = 100000,
                                           .wanted = 12,
                                           .session_count = 20,
                                           .large = true,
                                           .exceptions = kExceptions,
                                           .exception_count = sizeof kExceptions / sizeof *kExceptions});
}
