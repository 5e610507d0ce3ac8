/* What the paper publishes, as numbers: Table 3, Table 4, Fig. 9, and the design points of Section 8.1. */
#include <math.h>

#include "braid/explore.h"

const braid_tile_platform *braid_tile_platforms(void) {
  static const braid_tile_platform kPlatforms[BRAID_TILE_PLATFORMS] = {
      {"Xeon X5690, 6 cores", "Darknet, 1 thread", 66439, 131, 8712, 1},
      {"Xeon X5690, 6 cores", "TensorFlow, 24 threads", 3270, 204, 667.1, 13},
      {"GTX 1080 Ti", "Darknet", 126, 187, 23.6, 369},
      {"GTX 1080 Ti", "TensorFlow, cuDNN", 53.4, 217, 11.6, 751},
      {"MAX5, VU9P at 200 MHz", "DarkFPGA, 8 bits", 331, 13.5, 4.5, 1936},
  };
  return kPlatforms;
}

const braid_tile_accelerator *braid_tile_accelerators(void) {
  static const braid_tile_accelerator kAccelerators[BRAID_TILE_ACCELERATORS] = {
      {"F-CNN (2016)", "Stratix V", "LeNet-5, MNIST", 8, NAN, NAN, NAN, 7, false},
      {"FPDeep (2018)", "Virtex-7 VC709, each", "AlexNet, ImageNet", 10, 460, 2880, 1022, NAN, true},
      {"DiCecco et al. (2018)", "XCKU115", "LeNet-like, CIFAR-10", 1, 530, 883, NAN, 522, true},
      {"Nakahara et al. (2019)", "XCVU9P", "VGG16, CIFAR-10", 1, 934, 1106, NAN, 4878, false},
      {"Fox et al. (2019)", "Zynq ZCU111", "VGG-16, CIFAR-10", 1, 73.1, 1037, NAN, 3.3, false},
      {"DarkFPGA (2020)", "XCVU9P", "VGG-like, CIFAR-10", 1, 480, 4202, 1417, 386.7, false},
  };
  return kAccelerators;
}

const braid_tile_system *braid_tile_systems(void) {
  static const braid_tile_system kSystems[BRAID_TILE_SYSTEMS] = {
      {"CPU only", 65.37}, {"CPU + FPGA", 3.66}, {"FPGA only", 0.33}};
  return kSystems;
}

braid_tile_design braid_tile_paper_design(size_t index, double clock) {
  static const int64_t kDesigns[BRAID_TILE_PAPER_DESIGNS][2] = {{128, 64}, {128, 32}, {128, 16}, {64, 64}, {64, 32},
                                                                {64, 16},  {32, 32},  {32, 16},  {16, 16}};
  return (braid_tile_design){kDesigns[index][0], kDesigns[index][1], clock};
}
