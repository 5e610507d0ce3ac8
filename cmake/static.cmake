# Everything for a machine without shared libraries (BRAID_STATIC=ON), by the target `static`: static/libbraid.a, one
# archive with the library and all that it stands on, and static/braid, the command linked statically with it. Python,
# plug-ins and libraries that are loaded at run time (oneDNN, OpenCL, NVML, GLPK) are for programs that load; what asks
# for one is told so.
set(folder ${CMAKE_BINARY_DIR}/static)
file(MAKE_DIRECTORY ${folder})
set(script "CREATE ${folder}/libbraid.a\nADDLIB $<TARGET_FILE:braid_static>\n")
set(suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
foreach(name protobuf-c jpeg png z cyaml yaml sqlite3)
  find_library(BRAID_STATIC_${name} ${name} REQUIRED)
  string(APPEND script "ADDLIB ${BRAID_STATIC_${name}}\n")
endforeach()
set(CMAKE_FIND_LIBRARY_SUFFIXES ${suffixes})
file(GENERATE OUTPUT ${folder}/archive.mri CONTENT "${script}SAVE\nEND\n")
add_custom_command(OUTPUT ${folder}/libbraid.a COMMAND ${CMAKE_COMMAND} -E rm -f ${folder}/libbraid.a
  COMMAND sh -c "${CMAKE_AR} -M <${folder}/archive.mri" DEPENDS braid_static ${folder}/archive.mri VERBATIM)
add_custom_target(braid_archive DEPENDS ${folder}/libbraid.a)

add_executable(braid_alone EXCLUDE_FROM_ALL $<TARGET_OBJECTS:braid> $<TARGET_OBJECTS:braid_client>)
set_target_properties(braid_alone PROPERTIES OUTPUT_NAME braid LINK_DEPENDS ${folder}/libbraid.a LINKER_LANGUAGE C
  RUNTIME_OUTPUT_DIRECTORY ${folder})
target_link_options(braid_alone PRIVATE -static -pthread) # GCC for riscv64 adds its library of atomics to threads
target_link_libraries(braid_alone PRIVATE ${folder}/libbraid.a gomp m)
add_dependencies(braid_alone braid_archive)
add_custom_target(static DEPENDS braid_archive braid_alone)
