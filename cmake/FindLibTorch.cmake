# LibTorch from the pip `torch` wheel, as imported targets. torch's own CMake package is not used: it demands a CUDA
# toolkit of every user, also of those who never touch a GPU.
#
# Where it looks, in this order:
#   LibTorch_ROOT, Torch_ROOT    the folder that holds include/ and lib/ (site-packages/torch, or an unpacked libtorch)
#   Torch_DIR, CMAKE_PREFIX_PATH that folder, or its share/cmake, which torch.utils.cmake_prefix_path prints
#   DTRAIN_TORCH_PYTHON          a Python that has the wheel; where it is not set, one of
#                                .venv/bin/python of the project, of dtrain, or of $VIRTUAL_ENV or $CONDA_PREFIX, or python3
#
# What it makes:
#   LibTorch::headers the headers (as system headers) with the definitions the wheel was built with, and no library
#   LibTorch::torch   these, libtorch_cpu and libc10; programs of the build tree find them through their run path
#   LibTorch::cuda    libtorch_cuda, libc10_cuda, and the headers of CUDA and NCCL; where these are, and with DTRAIN_CUDA
#                     they must be
#   LibTorch_VERSION, LibTorch_PREFIX, LibTorch_HOW: a sentence on how to choose one

set(LibTorch_HOW "`pip install torch` into a virtual environment and activate it, or choose one: -DLibTorch_ROOT=FOLDER (with include/ and lib/), or -DDTRAIN_TORCH_PYTHON=PYTHON (one that has the torch wheel).")

set(LibTorch_PREFIX "")
set(_torch_places "${LibTorch_ROOT}" "$ENV{LibTorch_ROOT}" "${Torch_ROOT}" "$ENV{Torch_ROOT}")
foreach(place IN LISTS Torch_DIR CMAKE_PREFIX_PATH)  # Torch_DIR is share/cmake/Torch
  list(APPEND _torch_places "${place}" "${place}/../.." "${place}/../../..")
endforeach()
foreach(place IN LISTS _torch_places)
  if(NOT LibTorch_PREFIX AND place AND EXISTS "${place}/lib/libtorch_cpu.so")
    file(REAL_PATH "${place}" LibTorch_PREFIX)
  endif()
endforeach()

# Where the wheel of a Python is. find_spec locates the package without importing it: the CPU part alone cannot be.
function(_torch_of_python python result)
  set(found "")
  if(EXISTS "${python}")
    execute_process(
      COMMAND "${python}" -c
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
if(NOT LibTorch_PREFIX AND DTRAIN_TORCH_PYTHON)
  _torch_of_python("${DTRAIN_TORCH_PYTHON}" LibTorch_PREFIX)
elseif(NOT LibTorch_PREFIX)
  find_program(_torch_python3 python3 NO_CACHE)
  foreach(python "${CMAKE_SOURCE_DIR}/.venv/bin/python" "${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python"
      "$ENV{VIRTUAL_ENV}/bin/python" "$ENV{CONDA_PREFIX}/bin/python" "${_torch_python3}")
    if(NOT LibTorch_PREFIX)
      _torch_of_python("${python}" LibTorch_PREFIX)
      if(LibTorch_PREFIX)
        cmake_path(NORMAL_PATH python)
        set(DTRAIN_TORCH_PYTHON "${python}" CACHE FILEPATH "A Python that has the torch wheel")
      endif()
    endif()
  endforeach()
endif()

set(LibTorch_VERSION "")
set(_torch_version_header "${LibTorch_PREFIX}/include/torch/headeronly/version.h")
if(EXISTS "${_torch_version_header}")
  file(STRINGS "${_torch_version_header}" _torch_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM _torch_lines REPLACE "^.* " "")
  list(JOIN _torch_lines "." LibTorch_VERSION)
endif()

# The libraries that the wheel's own libraries load (CUDA runtime, CUPTI) lie beside it, in site-packages/nvidia.
get_filename_component(_torch_site "${LibTorch_PREFIX}" DIRECTORY)
file(GLOB _torch_nvidia_lib_dirs LIST_DIRECTORIES true "${_torch_site}/nvidia/*/lib")

find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)

# Compiled for the C++11 ABI, as all wheels are since 2.6: a libtorch of the old one would not link, with a page of names.
set(_torch_abi "")
if(LibTorch_C10_LIBRARY)
  file(STRINGS "${LibTorch_C10_LIBRARY}" _torch_abi REGEX "_ZN.*St7__cxx1112basic_string" LIMIT_COUNT 1)
endif()
if(LibTorch_C10_LIBRARY AND NOT _torch_abi)
  set(LibTorch_HOW "${LibTorch_PREFIX} was compiled for the C++ ABI of before 2011, and dtrain needs the other. ${LibTorch_HOW}")
  set(LibTorch_C10_LIBRARY "")
elseif(DTRAIN_TORCH_PYTHON AND NOT LibTorch_PREFIX)
  set(LibTorch_HOW "${DTRAIN_TORCH_PYTHON} has no torch wheel. ${LibTorch_HOW}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_PREFIX LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${LibTorch_HOW}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  add_library(LibTorch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_LIBRARY}")
  add_library(LibTorch::torch_cpu SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::torch_cpu PROPERTIES IMPORTED_LOCATION "${LibTorch_CPU_LIBRARY}")

  add_library(LibTorch::headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::headers SYSTEM INTERFACE
    "${LibTorch_PREFIX}/include" "${LibTorch_PREFIX}/include/torch/csrc/api/include")
  # Some classes in torch's headers change their layout with these; they must be the ones of the wheel.
  target_compile_definitions(LibTorch::headers INTERFACE
    USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE _GLIBCXX_USE_CXX11_ABI=1)

  add_library(LibTorch::torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(LibTorch::torch INTERFACE LibTorch::headers LibTorch::torch_cpu LibTorch::c10)
  foreach(dir IN LISTS _torch_nvidia_lib_dirs)
    target_link_options(LibTorch::torch INTERFACE "LINKER:-rpath-link,${dir}")
  endforeach()
  if(NOT LibTorch_FIND_QUIETLY)
    message(STATUS "LibTorch ${LibTorch_VERSION} in ${LibTorch_PREFIX}")
  endif()
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::cuda)
  foreach(name torch torch_cuda c10_cuda)
    find_library(LibTorch_${name}_LIBRARY ${name} PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
  endforeach()
  file(GLOB _torch_cuda_include "${_torch_site}/nvidia/cu[0-9]*/include")
  # The wheels that torch needs bring cuda_runtime.h, but not always the crt/ that it includes.
  find_path(LibTorch_CUDA_INCLUDE crt/host_config.h HINTS ${_torch_cuda_include} "$ENV{CUDA_HOME}/include"
    PATHS /usr/local/cuda/include NO_CACHE)
  find_path(LibTorch_NCCL_INCLUDE nccl.h HINTS "${_torch_site}/nvidia/nccl/include" PATHS /usr/local/cuda/include NO_CACHE)
  file(GLOB LibTorch_NCCL_LIBRARY "${_torch_site}/nvidia/nccl/lib/libnccl.so.2")
  # The headers of torch's streams call the CUDA runtime.
  file(GLOB LibTorch_cudart_LIBRARY "${_torch_site}/nvidia/cu[0-9]*/lib/libcudart.so.*")
  set(_cuda_found OFF)
  if(LibTorch_torch_cuda_LIBRARY AND LibTorch_c10_cuda_LIBRARY AND LibTorch_CUDA_INCLUDE AND LibTorch_NCCL_INCLUDE)
    set(_cuda_found ON)
  elseif(DTRAIN_CUDA)
    message(FATAL_ERROR "DTRAIN_CUDA=ON needs a full CUDA install of the torch wheel (pip install torch, without --no-deps): "
      "libtorch_cuda: ${LibTorch_torch_cuda_LIBRARY}, CUDA headers (of a CUDA toolkit, or pip install nvidia-cuda-crt): ${LibTorch_CUDA_INCLUDE}, NCCL headers: ${LibTorch_NCCL_INCLUDE}")
  endif()
endif()

if(_cuda_found AND NOT TARGET LibTorch::cuda)
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::cuda SYSTEM INTERFACE "${LibTorch_CUDA_INCLUDE}" "${LibTorch_NCCL_INCLUDE}")
  target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL USE_NVSHMEM)
  # libtorch_cuda registers its kernels when it is loaded; no symbol of ours would keep it on the link line.
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::torch
    "-Wl,--push-state,--no-as-needed" "${LibTorch_torch_cuda_LIBRARY}" "${LibTorch_c10_cuda_LIBRARY}" "-Wl,--pop-state"
    ${LibTorch_NCCL_LIBRARY} ${LibTorch_cudart_LIBRARY})
endif()
