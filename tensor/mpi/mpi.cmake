# mpi.cmake: the module that knows MPI (module.c), a shared object beside the program. The program loads it when a
# launcher has started ranks (tensor/comm_mpi.c) and is not linked to any MPI.
add_library(pinn_mpi MODULE ${PROJECT_SOURCE_DIR}/tensor/mpi/module.c)
set_target_properties(pinn_mpi PROPERTIES PREFIX "" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# The headers of MPI are not ours: no warnings about them.
target_include_directories(pinn_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
target_link_libraries(pinn_mpi PRIVATE MPI::MPI_C)
