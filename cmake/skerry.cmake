# Helpers shared by every room: one place for warnings, sanitizers and how a room or a test is
# declared.
add_library(skerry_flags INTERFACE)
target_compile_options(skerry_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
if(SKERRY_TESTS OR SKERRY_SANITIZE)  # a user's newer compiler may warn of what nobody saw here
  target_compile_options(skerry_flags INTERFACE -Werror)
endif()
# gcc 12 sees overlapping copies in plain string concatenation (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(skerry_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(skerry_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(skerry_flags INTERFACE Threads::Threads)
if(SKERRY_SANITIZE)
  target_compile_options(skerry_flags INTERFACE -fsanitize=${SKERRY_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(skerry_flags INTERFACE -fsanitize=${SKERRY_SANITIZE})
  # Thread fences stand between atomics only, which the sanitizer does not take for races anyway:
  # that it does not follow fences hides nothing.
  if(SKERRY_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(skerry_flags INTERFACE -Wno-tsan)
  endif()
endif()

# skerry_unity(TARGET [FILE...]): compiles all sources as one where SKERRY_UNITY is on, without
# these files, whose headers or names clash with those of others.
function(skerry_unity TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${SKERRY_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# skerry_seldom_run(TARGET): its own speed matters little: it starts, ends and watches jobs, or
# compares what others moved. A third of the compiler's time is saved.
function(skerry_seldom_run TARGET)
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# skerry_unoptimized(TARGET...): a test's own code is compiled much faster so. What it tests, the
# rooms, is as users get it.
function(skerry_unoptimized)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -O0)
  endforeach()
endfunction()

# skerry_room(NAME SOURCES a.cpp ... USES room ... [LIBS lib ...]): a static library skerry_NAME of
# position-independent code.
function(skerry_room NAME)
  cmake_parse_arguments(R "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(skerry_${NAME} STATIC ${R_SOURCES})
  skerry_unity(skerry_${NAME})
  target_link_libraries(skerry_${NAME} PUBLIC skerry_flags ${R_LIBS})
  foreach(used ${R_USES})
    target_link_libraries(skerry_${NAME} PUBLIC skerry_${used})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SKERRY_ROOMS skerry_${NAME})
endfunction()

# skerry_test(NAME SOURCES a.cpp ... USES room ... [LABELS l ...]): a GoogleTest program registered
# with ctest. The label `pure` says that it runs no threads: a thread sanitizer's build leaves it
# out.
if(SKERRY_TESTS)
  find_package(GTest REQUIRED)
  if(SKERRY_UNITY)  # what nearly every test includes, compiled once
    file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "")
    add_library(skerry_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
    set_target_properties(skerry_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(skerry_test_headers PRIVATE -fPIE)  # as of programs
    skerry_unoptimized(skerry_test_headers)
    target_link_libraries(skerry_test_headers PRIVATE skerry_flags GTest::gtest)
    target_precompile_headers(skerry_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array>
      <atomic> <chrono> <cstring> <deque> <functional> <map> <optional> <random> <set> <span>
      <sstream> <string> <thread> <vector>)
  endif()
endif()
function(skerry_test NAME)
  if(NOT SKERRY_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "" "" "SOURCES;USES;LIBS;LABELS" ${ARGN})
  if(SKERRY_SANITIZE MATCHES thread AND "pure" IN_LIST T_LABELS)
    return()
  endif()
  add_executable(${NAME} ${T_SOURCES})
  skerry_unity(${NAME})
  skerry_unoptimized(${NAME})
  if(SKERRY_UNITY)
    target_precompile_headers(${NAME} REUSE_FROM skerry_test_headers)
    # those with options of their own read the headers themselves
    set_target_properties(${NAME} PROPERTIES PCH_WARN_INVALID OFF)
  endif()
  target_link_libraries(${NAME} PRIVATE skerry_flags GTest::gtest_main GTest::gtest ${T_LIBS})
  foreach(used ${T_USES})
    target_link_libraries(${NAME} PRIVATE skerry_${used})
  endforeach()
  add_test(NAME ${NAME} COMMAND ${NAME})
  set(limit 120)
  if(SKERRY_SANITIZE)
    set(limit 400)  # some take 100 s where two run at once on two cores
  endif()
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${limit} LABELS "unit;${T_LABELS}")
  if(NOT "launchers" IN_LIST T_LABELS)
    skerry_checked(${NAME})
  endif()
endfunction()

# skerry_long(TEST...): leaves tests that take long, or differ little from others, to
# `make test-all`. Call it after the test's own labels are set.
function(skerry_long)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS long)
endfunction()

# A job whose ranks die. Sets in the caller: `options` of `skerry run`, and what the job is called.
function(skerry_deadly_job ranks nodes spares deaths)
  set(options -n ${ranks} --nodes ${nodes})
  if(spares GREATER 0)
    list(APPEND options --spares ${spares})
  endif()
  set(job ${ranks}_on_${nodes}_with_${spares}_without_${deaths})
  foreach(result options spares deaths job)
    set(${result} ${${result}} PARENT_SCOPE)
  endforeach()
endfunction()

# skerry_checked(TARGET...): `make test` runs it under sanitizers, so that the target `checked`
# builds it.
add_custom_target(checked)
function(skerry_checked)
  add_dependencies(checked ${ARGN})
endfunction()

# skerry_version(TARGET): the file's versions. A wheel has no symbolic links: one file is called as
# the loader asks for it, and a linker's script has the name without a version.
function(skerry_version TARGET)
  set_target_properties(${TARGET} PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR})
  if(NOT SKBUILD)
    set_target_properties(${TARGET} PROPERTIES VERSION ${PROJECT_VERSION})
    return()
  endif()
  set(script ${CMAKE_CURRENT_BINARY_DIR}/script/lib${TARGET}.so)
  file(WRITE ${script} "INPUT(lib${TARGET}.so.${PROJECT_VERSION_MAJOR})\n")
  install(FILES ${script} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# skerry_export(TARGET COMPONENT): find_package(skerry) makes it skerry::COMPONENT.
function(skerry_export TARGET COMPONENT)
  set_target_properties(${TARGET} PROPERTIES EXPORT_NAME ${COMPONENT})
  set(namelink)
  if(SKBUILD)
    set(namelink NAMELINK_SKIP)
  endif()
  install(TARGETS ${TARGET} EXPORT skerry LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${namelink}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# Installs a pkg-config file that finds its prefix from where it lies: only `cmake --install
# --prefix` may decide that. The second form makes
# `name`.pc from another file's pattern.
function(skerry_pkgconfig name)
  skerry_pkgconfig_as(${name} ${name})
endfunction()
function(skerry_pkgconfig_as pattern name)
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" SKERRY_PC_TO_PREFIX "${up}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${pattern}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc
    @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
