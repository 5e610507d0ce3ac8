# The core library (BRAID_CORE=ON): graphs, gradients, sessions, the CPU, manycore and null backends and Darknet models, in plain
# C and OpenMP with no other library. One static archive, for machines that have nothing else (docs/new-device.md).
set(BRAID_CORE_ROOMS base tensor graph model device backend/null backend/cpu backend/manycore schedule runtime
  core)
set(BRAID_CORE_SOURCES "")
foreach(room ${BRAID_CORE_ROOMS})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
  list(APPEND BRAID_CORE_SOURCES ${sources})
endforeach()
# What stands on other libraries; src/core/without.c says so where it is asked for.
string(CONCAT left_out "_(test|bench|fuzz)\\.c$|/model/onnx/|/backend/cpu/onednn/|/runtime/conformance/conformance"
  "|/backend/manycore/(estimate|networks)\\.c$|/device/(yaml|platform|plugin|group/module)\\.c$|/schedule/program/(glpk|solve)\\.c$")
list(FILTER BRAID_CORE_SOURCES EXCLUDE REGEX "${left_out}")
list(APPEND BRAID_CORE_SOURCES ${CMAKE_SOURCE_DIR}/src/launch/options.c)
include(cmake/isa.cmake)
braid_isa_sources(BRAID_CORE_SOURCES)

set(BRAID_BACKENDS "BRAID_BACKEND(cpu)\nBRAID_BACKEND(manycore)\nBRAID_BACKEND(null)\n")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/backends.def CONTENT "${BRAID_BACKENDS}")

add_library(braid_static STATIC ${BRAID_CORE_SOURCES})
set_target_properties(braid_static PROPERTIES OUTPUT_NAME braid)
target_include_directories(braid_static PUBLIC include PRIVATE src ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(braid_static PUBLIC braid_flags OpenMP::OpenMP_C Threads::Threads m)

install(TARGETS braid_static ARCHIVE DESTINATION lib)
install(DIRECTORY include/braid DESTINATION include)

# The same test files as everywhere, against tests/core/cmocka.h; the emulator comes from the toolchain file.
enable_testing()
set(BRAID_CORE_TESTS base/text base/map base/philox base/file tensor/tensor tensor/half tensor/npy graph/geometry
  graph/gradient graph/gradients/dense_gradient graph/gradients/movement_gradient graph/gradients/norm_gradient
  device/timeline device/pool runtime/conformance/device_conformance backend/cpu/loops/elementwise
  backend/cpu/loops/reduce backend/cpu/loops/select backend/cpu/plain/float backend/cpu/plain/optimizer
  backend/cpu/products/gemm backend/manycore/manycore
  runtime/plan/pack runtime/plan/place runtime/surface/session runtime/execution/differential)
foreach(test ${BRAID_CORE_TESTS})
  get_filename_component(name ${test}_test NAME)
  add_executable(${name} src/${test}_test.c)
  target_include_directories(${name} PRIVATE tests/core src tests ${CMAKE_BINARY_DIR}/generated)
  # All of the archive, so that a function which src/core/without.c lacks is found here.
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive $<TARGET_FILE:braid_static> -Wl,--no-whole-archive
    braid_static)
  target_link_options(${name} PRIVATE -static)
  if(CMAKE_CROSSCOMPILING)
    target_compile_definitions(${name} PRIVATE BRAID_EMULATED BRAID_SLOW)
  endif()
  target_compile_definitions(${name} PRIVATE BRAID_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
