# check_sizes.cmake: a source file of more than 600 lines needs a line in docs/design/sizes.md that says why.
#
#   cmake -D ROOT=<repository> -P tests/check_sizes.cmake
#
# The line starts with "- `path`". A line whose file is gone is refused too, so that the list stays true.
cmake_minimum_required(VERSION 3.25)
set(limit 600)

set(patterns "")
foreach(folder IN ITEMS tensor autograd cuda pinn pinn/cli validate tests tests/bench)
  foreach(extension IN ITEMS c h cpp cu cuh def inc sh cmake)
    list(APPEND patterns ${ROOT}/${folder}/*.${extension})
  endforeach()
endforeach()
file(GLOB files RELATIVE ${ROOT} ${patterns})

file(READ ${ROOT}/docs/design/sizes.md list)
string(REGEX MATCHALL "\n- `[^`\n;]+`" listed "\n${list}")
list(TRANSFORM listed REPLACE "^\n- `([^`]+)`$" "\\1")

set(defects 0)
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} text)
  string(REGEX MATCHALL "\n" newlines "${text}")
  list(LENGTH newlines lines)
  if(lines GREATER limit AND NOT file IN_LIST listed)
    message("${file}: ${lines} lines, more than ${limit}: split it, or give the reason in docs/design/sizes.md")
    math(EXPR defects "${defects} + 1")
  endif()
endforeach()
foreach(file IN LISTS listed)
  if(NOT EXISTS ${ROOT}/${file})
    message("docs/design/sizes.md: lists ${file}, which does not exist")
    math(EXPR defects "${defects} + 1")
  endif()
endforeach()

if(defects)
  message(FATAL_ERROR "check_sizes: ${defects} defects")
endif()
list(LENGTH files count)
message("check_sizes: ${count} files, each within ${limit} lines or listed")
