# text.cmake: files of device code and tables as bytes in the library, so that a program needs no files to make kernels.
# Each file becomes a constant gpu_file_<name> (cuda/source_inside.h).
set(text_files args cuda/args.h vocabulary cuda/vocabulary.inc numbers cuda/numbers.inc cells cuda/cells.inc
  steps cuda/steps.inc functions tensor/functions.inc ops tensor/ops.def)
set(text_output ${PROJECT_BINARY_DIR}/cuda/text.c)
set(text_all "/* Made by cuda/text.cmake. */\n#include \"cuda/source_inside.h\"\n")
while(text_files)
  list(POP_FRONT text_files text_name text_file)
  file(READ ${PROJECT_SOURCE_DIR}/${text_file} text_bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," text_bytes "${text_bytes}")
  string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" text_bytes "${text_bytes}")
  string(APPEND text_all "static const unsigned char ${text_name}[] = {\n${text_bytes}};\n"
    "const gpu_file gpu_file_${text_name} = {${text_name}, sizeof ${text_name}};\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${text_file})
endwhile()
file(CONFIGURE OUTPUT ${text_output} CONTENT "@text_all@" @ONLY)
target_sources(gpu PRIVATE ${text_output})
