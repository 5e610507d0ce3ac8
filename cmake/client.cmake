# libbraid-client: for programs that launch models on a daemon and need nothing else of Braid. The braid program has it
# too, for `braid call`; the daemon shares the format of messages with it.
file(GLOB BRAID_CLIENT_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/client/*.c)
list(FILTER BRAID_CLIENT_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.c$")
# libbraid has the format of messages and TLS as well, for remote devices: programs of ours have it from there.
add_library(braid_client OBJECT ${BRAID_CLIENT_SOURCES})
add_library(braid_wire_format OBJECT ${CMAKE_SOURCE_DIR}/src/serve/wire/wire_format.c)
add_library(braid_tls OBJECT ${BRAID_TLS_SOURCES})
foreach(target braid_client braid_wire_format braid_tls)
  target_include_directories(${target} PRIVATE include src)
  target_link_libraries(${target} PUBLIC braid_flags Threads::Threads)
endforeach()
add_library(braid_client_static STATIC $<TARGET_OBJECTS:braid_client> $<TARGET_OBJECTS:braid_wire_format>
  $<TARGET_OBJECTS:braid_tls>)
add_library(braid_client_shared SHARED $<TARGET_OBJECTS:braid_client> $<TARGET_OBJECTS:braid_wire_format>
  $<TARGET_OBJECTS:braid_tls>)
foreach(target braid_client_static braid_client_shared)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME braid-client)
  target_link_libraries(${target} PUBLIC braid_flags Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
set_target_properties(braid_client_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${BRAID_SOVERSION})
if(BRAID_FUZZ)
  target_compile_options(braid_client PRIVATE -fsanitize=fuzzer-no-link)
endif()
foreach(target braid braid-serve)
  if(TARGET ${target})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:braid_client>)
  endif()
endforeach()
