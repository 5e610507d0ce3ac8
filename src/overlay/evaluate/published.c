/* Section 7 of Zeng et al. 2021, as numbers; Table 1 is in overlay/resources.c. */
#include <math.h>

#include "braid/overlay_evaluation.h"

static const braid_overlay_published_network kNetworks[BRAID_OVERLAY_NETWORKS] = {
    {"VGG16", 0, 47528.1, {0.40, 0.65}, {0.05, 0.18}, {0.45, 0.83}, 3.93, NAN, NAN, 96, NAN, {NAN, NAN}},
    {"ResNet50", 0, 50458.9, {0.86, 1.06}, {0.03, 0.15}, {0.89, 1.21}, 1.12, NAN, NAN, NAN, NAN, {NAN, NAN}},
    {"InceptionV3", 0, 36731.7, {1.06, 1.50}, {0.06, 0.20}, {1.12, 1.70}, 0.95, NAN, NAN, 81, 10, {NAN, NAN}},
    {"MobileNet", 0, 16006.1, {0.53, 0.67}, {0.03, 0.15}, {0.56, 0.82}, 31.64, 5.33, 21, NAN, NAN, {NAN, NAN}},
    {"LSTM_100", 100, 1202.6, {0.16, 0.64}, {0.01, 0.02}, {0.17, 0.66}, 0, NAN, 91.0, NAN, 18.6, {12.1, 18.8}},
    {"LSTM_400", 400, NAN, {NAN, NAN}, {NAN, NAN}, {NAN, NAN}, NAN, NAN, NAN, NAN, NAN, {NAN, NAN}},
    {"LSTM_800", 800, 3909.8, {0.16, 0.60}, {0.02, 0.04}, {0.18, 0.64}, 0, NAN, 98.8, NAN, NAN, {31.2, 39.7}},
    {"LSTM_1500", 1500, 10181.4, {0.17, 0.57}, {0.03, 0.06}, {0.20, 0.63}, 0, NAN, 99.4, NAN, NAN, {45.1, 49.7}},
};

const braid_overlay_published_network *braid_overlay_published_networks(void) {
  return kNetworks;
}

static const braid_overlay_published_scaling kScalings[BRAID_OVERLAY_SCALINGS] = {
    {"by width", {6.8, 12.4, 21.9, 29.6, 33.3}, 30.26}, {"by channels", {4.2, 9.0, 26.8, 46.1, 85.5}, 19.95},
    {"optimized", {6.8, 13.1, 27.2, 53.5, 98.9}, 1.12}, {"single core", {7.6, 14.3, 28.5, 53.6, 84.4}, 0},
    {"linear", {7.6, 15.1, 30.2, 60.5, 120.9}, NAN},
};

const braid_overlay_published_scaling *braid_overlay_published_scalings(void) {
  return kScalings;
}

static const braid_overlay_published_text kText = {
    .cnn_deviation = {0, 1},
    .lstm_deviation = {0.2, 1.7},
    .bank_deviation = {0.7, 2.5},
    .gpu_deviation = {{7.1, 13.1}, {5.5, 10.9}, {6.5, 8.1}},
    .cnn_over_single = {1.07, 1.69},
    .cnn_over_multi = {1.88, 3.12},
    .lstm_over_single = {1.01, 1.11},
    .lstm_over_multi = {5.67, 6.18},
    .lstm_loss = 0,
};

const braid_overlay_published_text *braid_overlay_published_texts(void) {
  return &kText;
}
