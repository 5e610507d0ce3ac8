# Writes OUT, a C file with the texts of FILES (kernels/opencl/*.cl) as a table. A line #include "NAME.clh" is replaced
# by that file of the same folder, because the driver's compiler sees no folder.
set(tables "")
set(rows "")
set(count 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  file(READ ${file} text)
  file(GLOB headers ${folder}/*.clh)
  foreach(header ${headers})
    get_filename_component(header_name ${header} NAME)
    file(READ ${header} header_text)
    string(REPLACE "#include \"${header_name}\"\n" "${header_text}" text "${text}")
  endforeach()
  string(LENGTH "${text}" bytes)
  string(HEX "${text}" hex)
  string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND tables "static const char text_${name}[] = {\n${hex}0};\n")
  string(APPEND rows "  {\"${name}\", text_${name}, ${bytes}, {NULL}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUT} "/* Generated from kernels/opencl by cmake/embed.cmake. */
#include \"backend/opencl/program.h\"

${tables}
const braid_cl_source braid_cl_sources[] = {
${rows}};
const size_t braid_cl_source_count = ${count};
")
