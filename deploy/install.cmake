# `cmake --install` by GNUInstallDirs, and Debian packages by CPack (./dev build --packages): stoker, which has no LibTorch,
# and stoker-train. Needs the target `programs` and nothing else.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the tests are not installed
set(STOKER_CONTACT "stoker maintainers <stoker@example.org>" CACHE STRING "maintainer of the packages")

install(TARGETS stoker stokerd stoker-agent RUNTIME COMPONENT stoker)
if(TARGET stoker-train)
  install(TARGETS stoker-train RUNTIME COMPONENT stoker-train)
endif()

# Manual pages and completions are what the installed command says itself.
set(manuals ${CMAKE_BINARY_DIR}/manuals)
install(CODE "
  file(REMOVE_RECURSE \"${manuals}\")
  file(MAKE_DIRECTORY \"${manuals}/man\")
  execute_process(COMMAND \"$<TARGET_FILE:stoker>\" docs \"${manuals}/man\" --man ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  foreach(program \"$<TARGET_FILE:stokerd>\" \"$<TARGET_FILE:stoker-agent>\")
    get_filename_component(name \"\${program}\" NAME)
    execute_process(COMMAND \"\${program}\" --manual OUTPUT_FILE \"${manuals}/man/\${name}.1\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"$<TARGET_FILE:stoker>\" completion \${shell} OUTPUT_FILE \"${manuals}/\${shell}\"
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(GLOB pages \"${manuals}/man/*\")
  execute_process(COMMAND gzip -9n \${pages} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT stoker)
foreach(section 1 5)
  install(DIRECTORY ${manuals}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT stoker
    FILES_MATCHING PATTERN "*.${section}.gz")
endforeach()
if(TARGET stoker-train)
  set(manual ${CMAKE_BINARY_DIR}/manual-train)
  install(CODE "
    file(REMOVE_RECURSE \"${manual}\")
    file(MAKE_DIRECTORY \"${manual}\")
    execute_process(COMMAND \"$<TARGET_FILE:stoker-train>\" --manual OUTPUT_FILE \"${manual}/stoker-train.1\"
      COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND gzip -9n \"${manual}/stoker-train.1\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT stoker-train)
  install(FILES ${manual}/stoker-train.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT stoker-train)
endif()
install(FILES ${manuals}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME stoker
  COMPONENT stoker)
install(FILES ${manuals}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _stoker
  COMPONENT stoker)
install(FILES ${manuals}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME stoker.fish
  COMPONENT stoker)

# The units name the place of the programs, which only the installation knows.
foreach(unit system/stokerd@.service user/stokerd.service)
  get_filename_component(name ${unit} NAME)
  install(CODE "
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/${name}\" text)
    string(REGEX REPLACE \"ExecStart=[^\\n]*/stokerd\"
      \"ExecStart=\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/stokerd\" text \"\${text}\")
    set(place \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/${unit}\")
    file(WRITE \"\${place}\" \"\${text}\")
    file(CHMOD \"\${place}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)" COMPONENT stoker)
endforeach()

install(FILES README.md docs/install.md docs/operations.md docs/recovery.md docs/security.md docs/slurm.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT stoker)
install(DIRECTORY configs/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT stoker)

# What Debian wants beside the files of every package.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(package stoker stoker-train)
  set(folder ${CMAKE_BINARY_DIR}/debian/${package})
  file(CONFIGURE OUTPUT ${folder}/changelog CONTENT "@package@ (@PROJECT_VERSION@) unstable; urgency=medium

  * The changes of every version are in CHANGELOG.md of the sources.

 -- @STOKER_CONTACT@  @now@
" @ONLY)
  execute_process(COMMAND gzip -9nkf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${folder}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${package})
  install(FILES deploy/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "${STOKER_CONTACT}")
set(CPACK_PACKAGE_VENDOR stoker)
set(CPACK_SET_DESTDIR ON)  # with a staging prefix the units would name the staging folder
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL stoker)
if(TARGET stoker-train)
  list(APPEND CPACK_COMPONENTS_ALL stoker-train)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_STOKER_PACKAGE_NAME stoker)
set(CPACK_DEBIAN_STOKER_PACKAGE_SUGGESTS "slurm-client, gdb, stoker-train")
set(CPACK_DEBIAN_STOKER_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/deploy/postinst;${CMAKE_SOURCE_DIR}/deploy/postrm")
set(CPACK_DEBIAN_STOKER_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_STOKER-TRAIN_PACKAGE_NAME stoker-train)
set(CPACK_DEBIAN_STOKER-TRAIN_PACKAGE_DEPENDS "stoker (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_STOKER_DESCRIPTION "keeps a training run alive on a cluster for months
The command line, the daemon and the agent of the compute nodes: stoker
submits job arrays, reads logs, detects hangs and bad nodes, restarts from
the last good checkpoint and alerts people.")
set(CPACK_COMPONENT_STOKER-TRAIN_DESCRIPTION "training core of stoker
A transformer training program on LibTorch that stoker starts on the nodes.
A training of your own does not need it.")
include(CPack)
