/* Where CUDA's compiler is, all texts of kernels in the forms that a GPU gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/compiler.h"
#include "braid/allocator.h"
#include "skip.h"

/* The first convolution of models/vgg-tile.cfg, and one whose inner dimension and filters are cut into parts. */
#define FEW_OF_VGG                                                                                                     \
  "-DFILTERS=128 -DCHANNELS=3 -DTAPS_Y=3 -DTAPS_X=3 -DSTRIDE_Y=1 -DSTRIDE_X=1 -DDILATION_Y=1 -DDILATION_X=1 "          \
  "-DHEIGHT=32 -DWIDTH=32 -DLINES=32 -DCOLUMNS=32 -DABOVE=1 -DLEFT=1 "
#define FEW_OF_PARTS                                                                                                   \
  "-DFILTERS=264 -DCHANNELS=2 -DTAPS_Y=5 -DTAPS_X=5 -DSTRIDE_Y=2 -DSTRIDE_X=1 -DDILATION_Y=1 -DDILATION_X=2 "          \
  "-DHEIGHT=31 -DWIDTH=28 -DLINES=14 -DCOLUMNS=21 -DABOVE=2 -DLEFT=1 "

static const struct {
  const char *text, *options;
} kForms[] = {
    {"elementwise", "-DARITY=1 -DT=float -DTO=float -DT0=float -DE0=1 -DEXPRESSION=ERF(V0)"},
    {"elementwise",
     "-cl-single-precision-constant -DARITY=1 -DT=float -DTO=float -DT0=float -DE0=1 -DEXPRESSION=V0*0.5"},
    {"movement", "-DT=uint -DINDEX=long"},
    {"transpose", "-DT=uint -DGROUP=32"},
    {"softmax", "-DFUNCTION=0"},
    {"dropout", "-DMODE -DRATIO -DNUMBERED -DMASK"},
    {"channels", "-DX=bf16 -DLANES=8 -DMOMENTS -DFINISH -DNEW_MEAN -DSAVED_INVERSE -DAPPLY -DOVER_ALL -DALIGNED"},
    {"channels", "-DX=fp16 -DLANES=8 -DGRADIENT -DFINISH -DTRAINING -DDSCALE -DAPPLY -DPLACE=uchar -DWITH_WINDOW"},
    {"channels", "-DX=float -DLANES=8 -DPLACE=int -DALIGNED"},
    {"channels", "-DX=bf16 -DPLACE=uchar -DWITH_WINDOW -DTILE_1=2 -DTILE_2=2 -DPAIRS -DALIGNED"},
    {"channels", "-DX=float -DPLACE=uchar -DTILE_1=3 -DTILE_2=1"},
    {"channels", "-DX=bf16 -DLANES=8 -DGRADIENT -DRELU -DAPPLY -DALIGNED"},
    {"loss", "-DDIVIDED -DLABEL=int"},
    {"reduce", "-DMAP(x)=(x) -DFINISH(x)=(x) -DNEUTRAL=0 -DFOLD(a,b)=((a)+(b)) -DSUM"},
    {"norm", "-DX=bf16 -DMEAN"},
    {"norm", "-DX=fp16 -DGRADIENT -DRELU"},
    {"pool", "-DX=fp16 -DPLACE=uchar -DWITH_WINDOW"},
    {"elementwise", "-DARITY=2 -DT=float -DTO=bf16 -DT0=bf16 -DT1=fp16 -DV0=a -DV1=b -DE0=1 -DE1=0 -DEIGHT -DALIGNED "
                    "-DEXPRESSION=a+b"},
    {"elementwise", "-DARITY=1 -DT=float -DTO=fp16 -DT0=float -DV0=a -DE0=1 -DEIGHT -DEXPRESSION=a"},
    {"optimizer", "-DSGD -DADAM -DRATE=float -DSTEP=long -DGUARD=float -DMOMENTUM -DG=bf16 -DSCALE=float -DCOPY=bf16"},
    {"optimizer", "-DCLEAR -DLOOK -DLOSS_SCALE -DG=fp16"},
    {"matmul",
     "-DTILE_M=128 -DTILE_N=128 -DTILE_K=16 -DWORK_M=8 -DWORK_N=8 -DALIGNED -DLEFT_FOUR -DRIGHT_FOUR -DOUT_FOUR"},
    {"conv", "-DTAPS_3x3 -DTILE_M=64 -DTILE_N=64 -DTILE_K=8 -DWORK_M=4 -DWORK_N=4 -DALIGNED"},
    {"integer", "-DLANES=4 -DCOUNTERS=1 -DRAW=int -DSAMPLES"},
    {"integer", "-DLANES=4 -DINPUT -DP=short -DCOUNTERS=1 -DUPDATE -DRAW=int -DNUMBER=int"},
    {"integer_product",
     "-DARRANGE -DSPREAD -DQUAD=4 -DT_I=64 -DT_B=64 -DTILE_K=16 -DWORK_M=4 -DWORK_N=4 -DDOT_PTX -DT=int"},
    {"integer_pool", "-DSAMPLES -DLANES=1 -DN1=2 -DN2=2 -DS1=2 -DS2=2 -DD1=1 -DD2=1 -DWITH_INDEX -DRESULT=int"},
    {"group", "-DGROUP=256"},
    {"depthwise",
     "-DX=fp16 -DFORWARD -DBACKWARD -DRUN=4 -DDOWN=4 -DLANES=8 -DTAPS_Y=3 -DTAPS_X=3 -DSTRIDE_Y=2 -DSTRIDE_X=2 "
     "-DDILATION_Y=1 -DDILATION_X=1 "
     "-DBIAS -DACTIVATION_Clip -DALIGNED -DGROUP=128"},
    {"depthwise",
     "-DX=bf16 -DFORWARD -DBACKWARD -DRUN=2 -DDOWN=1 -DLANES=12 -DTAPS_Y=5 -DTAPS_X=5 -DSTRIDE_Y=1 -DSTRIDE_X=1 "
     "-DDILATION_Y=2 -DDILATION_X=2 "
     "-DGROUP=128"},
    {"layout", "-DSAMPLES -DT=uchar"},
    {"layout", "-DSAMPLES -DT=uchar -DTURN -DC_DIM=1 -DS_DIM=0 -DB_DIM=2 -DNARROW"},
    {"layout", "-DFEW=3 -DT=ushort"},
    {"integer_tensor_operands", "-DARRANGE -DT=int -DSTAGE=8 -DTILE_N=128 -DTAPS=9"},
    {"integer_tensor_operands",
     "-DARRANGE -DT=int -DSTAGE=8 -DTILE_N=64 -DSAMPLES -DBYTES -DBACKWARD -DINSIDE=27 -DTAPS_OF=9 -DTAPS_2=3"},
    {"integer_tensor_operands", "-DJOIN=64 -DROOM=2048 -DT=long -DRAW_LONG -DSTAGE=8 -DTILE_N=128 -DFILTER"},
    {"integer_tensor_operands", "-DJOIN=64 -DROOM=2048 -DT=char -DROUNDED -DSTAGE=8 -DTILE_N=128"},
    {"integer_tensor", "-DWGMMA -DGROUP=288 -DT=char -DROUNDED -DBYTES -DSTAGE=8 -DTILE_N=256 -DSLOTS=4 -DRESIDENT=1"},
    {"integer_tensor", "-DWGMMA -DGROUP=288 -DT=long -DRAW_LONG -DFILTER -DSTAGE=8 -DTILE_N=64 -DSLOTS=4 -DRESIDENT=2"},
    {"integer_tensor", "-DWGMMA -DGROUP=288 -DT=int -DPARTS -DFILTER -DSTAGE=8 -DTILE_N=128 -DSLOTS=3 -DRESIDENT=2 "
                       "-DWHOLE_FIXED -DWHOLE_IMAGE"},
    {"integer_tensor",
     "-DWGMMA -DGROUP=288 -DT=int -DBACKWARD -DSTAGE=8 -DTILE_N=256 -DSLOTS=4 -DRESIDENT=1 -DCLUSTER=2"},
    {"integer_tensor", "-DGROUP=256 -DT=int -DBACKWARD -DDIVIDED -DSTAGE=8 -DTILE_N=128 -DSLOTS=3 -DRESIDENT=2"},
    {"few_channels", FEW_OF_VGG "-DX=bf16 -DFORWARD -DBIAS -DRELU -DGROUP=256 -DRESIDENT=3"},
    {"few_channels", FEW_OF_VGG "-DX=fp16 -DFILTER -DHALVES=2 -DGROUP=256 -DRESIDENT=2"},
    {"few_channels", FEW_OF_VGG "-DX=bf16 -DJOIN -DGROUP=512"},
    {"few_channels", FEW_OF_PARTS "-DX=fp16 -DFORWARD -DGROUP=128 -DRESIDENT=4"},
    {"few_channels", FEW_OF_PARTS "-DX=bf16 -DFILTER -DHALVES=1 -DGROUP=256 -DRESIDENT=2"},
};

static void test_texts(void **state) {
  (void)state;
  if (braid_cuda_compiler_find() != BRAID_OK) skip_test("nvrtc", "there is no libnvrtc");
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    char options[512];
    uint8_t *binary = NULL;
    size_t bytes = 0;
    bool sized = strstr(kForms[i].options, "GROUP");
    snprintf(options, sizeof options, "%s%s", kForms[i].options, sized ? "" : " -DGROUP=256");
    const braid_launch_text *text = braid_cuda_find_text(kForms[i].text);
    assert_non_null(text);
    if (braid_cuda_compile(NULL, text, 90, options, &binary, &bytes) != BRAID_OK) fail_msg("%s", braid_error_detail());
    assert_true(bytes > 0);
    braid_free(NULL, binary);
  }
}

/* Of other generations: the instructions that all have since Ampere, and what is for Hopper and later ones. */
static void test_generations(void **state) {
  (void)state;
  static const int kCapabilities[] = {80, 100};
  if (braid_cuda_compiler_find() != BRAID_OK) skip_test("nvrtc", "there is no libnvrtc");
  for (size_t i = 0; i < sizeof kCapabilities / sizeof *kCapabilities; i++)
    for (size_t k = 0; k < sizeof kForms / sizeof *kForms; k++) {
      uint8_t *binary = NULL;
      size_t bytes = 0;
      if (strcmp(kForms[k].text, "few_channels") != 0) continue;
      const braid_launch_text *text = braid_cuda_find_text(kForms[k].text);
      assert_non_null(text);
      if (braid_cuda_compile(NULL, text, kCapabilities[i], kForms[k].options, &binary, &bytes) != BRAID_OK)
        fail_msg("%s", braid_error_detail());
      assert_true(bytes > 0);
      braid_free(NULL, binary);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_generations)};
  return skip_run_group_tests(tests, NULL, NULL);
}
