# check_licenses.cmake: compares docs/licenses.md with what the program is linked to.
#
#   cmake -D PROGRAM=<pinn> -D READELF=<readelf> -D LIBRARIES=<names in CMakeLists.txt> -D TABLE=<licenses.md>
#     [-D MODULE=<pinn_mpi.so>] -P ...
#
# A row reads "| name | `file` ... | licence | part |", part being program, headers, module or tests.
# 1. Every shared library that the program asks for (NEEDED) is a file in a row of part `program`; those of the module
#    may be in a row of part `module`, too. An MPI other than that row's is the builder's choice and passes.
# 2. The library names of CMakeLists.txt and the rows of part `program` are the same, but for the compiler's own
#    run-time libraries, which no build file names (rows glibc, libstdc++, libgcc).
# 3. No licence is the plain GPL: only the LGPL, or the GPL with its run-time exception.
cmake_minimum_required(VERSION 3.25)
set(compiler glibc libstdc++ libgcc)

set(defects 0)
macro(defect text)
  message("${text}")
  math(EXPR defects "${defects} + 1")
endmacro()

file(READ ${TABLE} text)
string(REGEX REPLACE "[];[]" "," text "${text}") # what CMake lists would trip over
string(REGEX MATCHALL "\n\\| [^\n]+ \\| (program|headers|module|tests) \\|" rows "\n${text}")
set(names "")
set(program_files "")
set(module_files "")
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^\n\\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([a-z]+) \\|$")
    defect("${TABLE}: not a row of four columns: ${row}")
    continue()
  endif()
  set(name "${CMAKE_MATCH_1}")
  set(files "${CMAKE_MATCH_2}")
  set(licence "${CMAKE_MATCH_3}")
  set(part "${CMAKE_MATCH_4}")
  string(REPLACE "LGPL" "" rest "${licence}")
  if(rest MATCHES "GPL" AND NOT licence MATCHES "exception|LGPL")
    defect("${TABLE}: ${name} is under ${licence}, which does not go with Apache-2.0")
  endif()
  string(REGEX MATCHALL "`[^`]+`" files "${files}")
  list(TRANSFORM files REPLACE "`" "")
  if(part STREQUAL "program")
    list(APPEND names "${name}")
    list(APPEND program_files ${files})
  elseif(part STREQUAL "module")
    list(APPEND module_files ${files})
  endif()
endforeach()

# check_needed(object count): the libraries that the object asks for are among allowed_files.
macro(check_needed object count)
  execute_process(COMMAND ${READELF} -d ${object} OUTPUT_VARIABLE dynamic RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "check_licenses: ${READELF} -d ${object} failed (${status})")
  endif()
  string(REPLACE "[" "<" dynamic "${dynamic}") # an open bracket would glue the entries of a list together
  string(REGEX MATCHALL "Shared library: <[^]\n]+" needed "${dynamic}")
  list(LENGTH needed ${count})
  if(${count} EQUAL 0)
    defect("${object}: no shared library found in its dynamic section; expected libc at least")
  endif()
  foreach(line IN LISTS needed)
    string(REGEX REPLACE "^Shared library: <" "" soname "${line}")
    string(REGEX REPLACE "\\.so.*$" "" stem "${soname}")
    if(NOT "${stem}" IN_LIST allowed_files)
      defect("${object}: links ${soname}, but docs/licenses.md has no row with `${stem}`")
    endif()
  endforeach()
endmacro()

set(allowed_files ${program_files})
check_needed(${PROGRAM} count)
if(MODULE)
  set(allowed_files ${program_files} ${module_files} libmpich libmpi_cray libmpi_ibm)
  check_needed(${MODULE} module_count)
endif()

foreach(library IN LISTS LIBRARIES)
  if(NOT library IN_LIST names)
    defect("CMakeLists.txt: links ${library}, but docs/licenses.md has no row of that name")
  endif()
endforeach()
foreach(name IN LISTS names)
  if(NOT name IN_LIST LIBRARIES AND NOT name IN_LIST compiler)
    defect("${TABLE}: ${name} is said to be linked, but CMakeLists.txt does not name it")
  endif()
endforeach()

if(defects)
  message(FATAL_ERROR "check_licenses: ${defects} defects")
endif()
message("check_licenses: ${count} linked libraries, all listed")
