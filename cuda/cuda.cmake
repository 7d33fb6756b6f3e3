# cuda.cmake: the backend for NVIDIA GPUs, target gpu.
#
# Only headers of the toolkit are used: its libraries are loaded at run time (libraries.h), so the program needs none
# of them to start, and nothing of NVIDIA's is on the link line. There is no device code to build ahead either: every
# kernel is text that NVRTC compiles for the GPU at hand (module.c; docs/gpu.md says why).
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*.c)
add_layer(gpu SOURCES ${cuda_sources} USES tn ${CMAKE_DL_LIBS})
target_include_directories(gpu SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
# Where the libraries of this toolkit lie, the last place to look for them.
target_compile_definitions(gpu PRIVATE GPU_TOOLKIT_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
target_compile_definitions(gpu INTERFACE PINN_HAVE_CUDA=1) # for pinn/cli and tests
include(${CMAKE_CURRENT_LIST_DIR}/text.cmake)
