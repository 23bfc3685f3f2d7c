# Links every file of FROM into TO (both given with -D), so that the package is importable from the build folder.
file(GLOB_RECURSE files RELATIVE ${FROM} ${FROM}/*.py ${FROM}/*.pyi ${FROM}/py.typed ${FROM}/*.hpp ${FROM}/*.h ${FROM}/*.cmake)
foreach(file ${files})
    get_filename_component(folder ${TO}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${FROM}/${file} ${TO}/${file} SYMBOLIC)
endforeach()
