# The runtime library for other architectures than this machine's, where a cross compiler is at hand: lib/mgc/ARCH/libmgrt.a,
# which mgc --cpu=ARCH links. It is a build of its own, in build/ARCH, by the same files. Its unit tests run under
# qemu-user (tests/cross).
include(ExternalProject)
find_program(MGC_AARCH64_CC aarch64-linux-gnu-gcc)
if(MGC_AARCH64_CC AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  ExternalProject_Add(aarch64
    SOURCE_DIR ${CMAKE_SOURCE_DIR}
    BINARY_DIR ${CMAKE_BINARY_DIR}/aarch64
    PREFIX ${CMAKE_BINARY_DIR}/aarch64/project
    CMAKE_ARGS -DCMAKE_TOOLCHAIN_FILE=${CMAKE_SOURCE_DIR}/cmake/aarch64.cmake -DMGC_LIB=${MGC_LIB}/aarch64
      -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER}
    STEP_TARGETS configure # of which a package takes the libraries alone (packaging)
    BUILD_ALWAYS ON
    STEP_TARGETS configure # for packaging/, which builds its libraries alone
    INSTALL_COMMAND ""
    TEST_COMMAND "")
  install(DIRECTORY ${MGC_LIB}/aarch64 DESTINATION lib/mgc)
endif()
