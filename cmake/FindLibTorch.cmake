# LibTorch from the pip `torch` wheel, as imported targets. torch's own CMake package is not used: it demands a CUDA
# toolkit of every user, also of those who never touch a GPU.
#
# Where it looks, in this order:
#   LibTorch_ROOT or Torch_ROOT  the folder that holds include/ and lib/ (site-packages/torch, or an unpacked libtorch)
#   DTRAIN_TORCH_PYTHON          a Python that has the wheel (cache variable, default .venv/bin/python)
#
# What it makes:
#   LibTorch::headers the headers (as system headers) with the definitions the wheel was built with, and no library
#   LibTorch::torch   these, libtorch_cpu and libc10; programs of the build tree find them through their run path
#   LibTorch::cuda    libtorch_cuda, libc10_cuda, and the headers of CUDA and NCCL; where these are, and with DTRAIN_CUDA
#                     they must be
#   LibTorch_VERSION, LibTorch_PREFIX

set(DTRAIN_TORCH_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "A Python that has the torch wheel")

set(LibTorch_PREFIX "")
foreach(root LibTorch_ROOT Torch_ROOT)
  foreach(place "${${root}}" "$ENV{${root}}")
    if(NOT LibTorch_PREFIX AND place AND EXISTS "${place}/lib/libtorch_cpu.so")
      set(LibTorch_PREFIX "${place}")
    endif()
  endforeach()
endforeach()
if(NOT LibTorch_PREFIX AND EXISTS "${DTRAIN_TORCH_PYTHON}")
  # find_spec locates the package without importing it: the CPU part alone cannot be imported.
  execute_process(
    COMMAND "${DTRAIN_TORCH_PYTHON}" -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE LibTorch_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
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

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_PREFIX LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
  "No torch wheel at ${DTRAIN_TORCH_PYTHON}. Run `make setup`, or point -DDTRAIN_TORCH_PYTHON at a Python that has one, or build only the launcher with -DDTRAIN_STRATEGIES=OFF.")

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
  find_path(LibTorch_CUDA_INCLUDE cuda_runtime_api.h HINTS ${_torch_cuda_include} PATHS /usr/local/cuda/include NO_CACHE)
  find_path(LibTorch_NCCL_INCLUDE nccl.h HINTS "${_torch_site}/nvidia/nccl/include" PATHS /usr/local/cuda/include NO_CACHE)
  file(GLOB LibTorch_NCCL_LIBRARY "${_torch_site}/nvidia/nccl/lib/libnccl.so.2")
  set(_cuda_found OFF)
  if(LibTorch_torch_cuda_LIBRARY AND LibTorch_c10_cuda_LIBRARY AND LibTorch_CUDA_INCLUDE AND LibTorch_NCCL_INCLUDE)
    set(_cuda_found ON)
  elseif(DTRAIN_CUDA)
    message(FATAL_ERROR "DTRAIN_CUDA=ON needs a full CUDA install of the torch wheel (pip install torch, without --no-deps): "
      "libtorch_cuda: ${LibTorch_torch_cuda_LIBRARY}, CUDA headers: ${LibTorch_CUDA_INCLUDE}, NCCL headers: ${LibTorch_NCCL_INCLUDE}")
  endif()
endif()

if(_cuda_found AND NOT TARGET LibTorch::cuda)
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::cuda SYSTEM INTERFACE "${LibTorch_CUDA_INCLUDE}" "${LibTorch_NCCL_INCLUDE}")
  target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL USE_NVSHMEM)
  # libtorch_cuda registers its kernels when it is loaded; no symbol of ours would keep it on the link line.
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::torch
    "-Wl,--push-state,--no-as-needed" "${LibTorch_torch_cuda_LIBRARY}" "${LibTorch_c10_cuda_LIBRARY}" "-Wl,--pop-state"
    ${LibTorch_NCCL_LIBRARY})
endif()
