# The daemon (src/serve), in the braid program and not in the library: programs that load the library need none of what it
# stands on. Without libmicrohttpd and jansson `braid serve` says that it was built without them.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.73)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(MICROHTTPD_FOUND AND JANSSON_FOUND AND NOT BRAID_STATIC AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB_RECURSE BRAID_SERVE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/*.c)
  list(FILTER BRAID_SERVE_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.c$|/serve/(without|grpc/.*)\\.c$")
  set(BRAID_SERVE_LIBRARIES PkgConfig::MICROHTTPD PkgConfig::JANSSON)
  include(cmake/grpc.cmake)
  set(BRAID_SERVES ON) # its tests are built
else()
  set(BRAID_SERVE_SOURCES ${CMAKE_SOURCE_DIR}/src/serve/without.c)
  set(BRAID_SERVE_LIBRARIES "")
endif()
add_library(braid_serve OBJECT ${BRAID_SERVE_SOURCES})
target_include_directories(braid_serve PRIVATE include src ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(braid_serve PUBLIC braid_flags ${BRAID_LIBRARIES} ${BRAID_SERVE_LIBRARIES})
target_sources(braid PRIVATE $<TARGET_OBJECTS:braid_serve>)
target_link_libraries(braid PRIVATE ${BRAID_SERVE_LIBRARIES})
