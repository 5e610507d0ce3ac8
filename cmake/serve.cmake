# The daemon (src/serve), in a program of its own that `braid serve` becomes (cli/serve.c): libgrpc alone would make every
# command start seven milliseconds later. Without libmicrohttpd and jansson there is none, and `braid serve` says so.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.73)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(NOT MICROHTTPD_FOUND OR NOT JANSSON_FOUND OR BRAID_STATIC OR CMAKE_CROSSCOMPILING)
  message(STATUS "no daemon: it needs libmicrohttpd and jansson, and is not built statically or for another CPU")
  return()
endif()
file(GLOB_RECURSE BRAID_SERVE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/*.c)
list(FILTER BRAID_SERVE_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.c$|/serve/(grpc/.*|cluster/.*|bulk/ucx/.*|trace/(post|without_post)|wire/wire_format)\\.c$")
list(REMOVE_ITEM BRAID_SERVE_SOURCES ${BRAID_SERVE_POLICIES}) # the library has them
braid_embed(${CMAKE_BINARY_DIR}/generated/serve_page.c braid_serve_page braid_serve_file serve/http/page.h ""
  ${CMAKE_SOURCE_DIR}/src/serve/http/page.html)
list(APPEND BRAID_SERVE_SOURCES ${CMAKE_BINARY_DIR}/generated/serve_page.c)
set(BRAID_SERVE_LIBRARIES PkgConfig::MICROHTTPD PkgConfig::JANSSON)
include(cmake/grpc.cmake)
include(cmake/trace.cmake)
include(cmake/cluster.cmake)
add_library(braid_serve OBJECT ${BRAID_SERVE_SOURCES})
target_include_directories(braid_serve PRIVATE include src ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(braid_serve PUBLIC braid_flags ${BRAID_LIBRARIES} ${BRAID_SERVE_LIBRARIES})
if(BRAID_FUZZ)
  target_compile_options(braid_serve PRIVATE -fsanitize=fuzzer-no-link)
endif()
set(daemon ${BRAID_CLI_SOURCES})
list(FILTER daemon EXCLUDE REGEX "/(main|serve)\\.c$")
add_executable(braid-serve ${daemon} cli/daemon/main.c cli/daemon/serve.c $<TARGET_OBJECTS:braid_serve>
  $<TARGET_OBJECTS:braid_objects>)
target_include_directories(braid-serve PRIVATE include cli)
target_link_libraries(braid-serve PRIVATE braid_flags ${BRAID_LIBRARIES} ${BRAID_SERVE_LIBRARIES})
set_target_properties(braid-serve PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(braid braid-serve)
include(cmake/ucx.cmake)
set(BRAID_SERVES ON) # its tests are built
