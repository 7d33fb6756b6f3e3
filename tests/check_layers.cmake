# check_layers.cmake: reads every #include line and refuses those that break the layering.
#
#   cmake -D ROOT=<repository> -P tests/check_layers.cmake
#
#   pinn/cli -> pinn, validate -> autograd -> tensor <- cuda <- pinn/cli
#
# A folder's headers are its own, but for the public one (tensor/tensor.h, autograd/autograd.h, pinn/pinn.h,
# validate/validate.h) and a few tables and backend headers that are named below. Tests may look inside: they
# include any header. Libraries of others belong to one layer each and stay out of public headers. Quoted names
# start at the repository root.
cmake_minimum_required(VERSION 3.25)

set(layers tensor autograd cuda pinn/cli pinn validate tests) # the longer path before its parent

# What a layer may include beyond its own folder.
set(uses_tensor "")
set(uses_autograd tensor/tensor.h tensor/ops.def)
set(uses_cuda tensor/tensor.h tensor/backend.h tensor/factor.h tensor/ops.def tensor/strip.def tensor/functions.inc
    tensor/rowwise.inc)
set(uses_validate tensor/tensor.h tensor/factor.h tensor/ops.def autograd/autograd.h)
set(uses_pinn tensor/tensor.h tensor/factor.h autograd/autograd.h)
set(uses_pinn/cli tensor/tensor.h tensor/factor.h tensor/comm_mpi.h tensor/ops.def autograd/autograd.h pinn/pinn.h pinn/keys.def validate/validate.h
    cuda/cuda_backend.h)

# Libraries of others: a pattern of header names, and the layers that may include them.
set(libraries mpfr hdf5 lapack cuda mpi toml cmocka)
set(header_mpfr "^(mpfr|gmp|mpf2mpfr)\\.h$")
set(owners_mpfr validate tests)
set(header_hdf5 "^(hdf5|H5[A-Za-z_]*)\\.h$")
set(owners_hdf5 pinn tests)
set(header_lapack "^(lapacke|lapack|cblas|f77blas|openblas_config)[a-z_]*\\.h$")
set(owners_lapack pinn tests)
set(header_cuda "^(cuda|nvrtc|cublas|cusolver|cudnn|nccl|curand|nvml)[A-Za-z0-9_]*\\.h$")
set(owners_cuda cuda)
set(header_mpi "^mpi\\.h$")
set(owners_mpi tensor) # tensor/mpi/ alone, which is a module of its own
set(header_toml "^toml\\+\\+/")
set(owners_toml pinn)
set(header_cmocka "^cmocka")
set(owners_cmocka tests)

set(public tensor/tensor.h autograd/autograd.h pinn/pinn.h validate/validate.h cuda/cuda_backend.h)

# layer_of(path out): the layer whose folder holds path, or "".
function(layer_of path out)
  set(found "")
  foreach(layer IN LISTS layers)
    if(path MATCHES "^${layer}/")
      set(found ${layer})
      break()
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

set(defects 0)
set(checked 0)
# A macro, so that it counts in the scope of the loop below.
macro(defect text)
  message("${file}: includes ${include}: ${text}")
  math(EXPR defects "${defects} + 1")
endmacro()

foreach(layer IN LISTS layers)
  set(patterns "")
  foreach(extension IN ITEMS c h cpp cu cuh def inc)
    list(APPEND patterns ${ROOT}/${layer}/*.${extension})
  endforeach()
  file(GLOB files RELATIVE ${ROOT} ${patterns})
  list(SORT files)
  foreach(file IN LISTS files)
    math(EXPR checked "${checked} + 1")
    file(READ ${ROOT}/${file} text)
    string(REGEX MATCHALL "\n[ \t]*#[ \t]*include[ \t]*[<\"][^>\"\n;]+[>\"]" includes "\n${text}")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^\n[ \t]*#[ \t]*include[ \t]*([<\"].*)$" "\\1" include "${line}")
      string(REGEX REPLACE "[<\">]" "" name "${include}")
      foreach(library IN LISTS libraries)
        if(name MATCHES "${header_${library}}")
          if(NOT layer IN_LIST owners_${library})
            list(JOIN owners_${library} " and " owners)
            defect("headers of this library belong to ${owners}")
          elseif(file IN_LIST public)
            defect("a public header shows no other library's types")
          endif()
        endif()
      endforeach()
      if(NOT include MATCHES "^\"")
        continue()
      endif()
      layer_of("${name}" target)
      if(NOT target OR name MATCHES "\\.\\./")
        defect("quoted names start at the repository root, as in \"tensor/tensor.h\"")
      elseif(target STREQUAL layer)
        if(file IN_LIST public AND NOT name MATCHES "\\.def$")
          defect("a public header stands on public headers and tables (*.def) alone")
        endif()
      elseif(layer STREQUAL "tests")
        continue()
      elseif(NOT name IN_LIST uses_${layer})
        if(uses_${layer})
          list(JOIN uses_${layer} ", " allowed)
        else()
          set(allowed nothing)
        endif()
        defect("outside its own folder ${layer}/ may include ${allowed}")
      endif()
    endforeach()
  endforeach()
endforeach()

if(defects)
  message(FATAL_ERROR "check_layers: ${defects} includes break the layers (docs/design/000-overview.md, section 1)")
endif()
message("check_layers: ${checked} files keep the layers")
