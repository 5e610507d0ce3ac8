# The daemon's spans go to a collector by libcurl (src/serve/trace). Without it they go to a file alone, and a
# configuration that names a collector is told so.
pkg_check_modules(CURL IMPORTED_TARGET libcurl>=7.85)
if(CURL_FOUND)
  list(APPEND BRAID_SERVE_SOURCES ${CMAKE_SOURCE_DIR}/src/serve/trace/post.c)
  list(APPEND BRAID_SERVE_LIBRARIES PkgConfig::CURL)
else()
  list(APPEND BRAID_SERVE_SOURCES ${CMAKE_SOURCE_DIR}/src/serve/trace/without_post.c)
endif()
