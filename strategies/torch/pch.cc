// Carries the shared precompiled header (CMakeLists.txt); nothing else.
