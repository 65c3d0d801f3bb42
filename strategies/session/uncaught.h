#pragma once
// An exception that nobody catches: the launcher gets its type and text.

namespace dtrain {

// From now on an exception that ends this process through std::terminate is written to the error file that the launcher
// has named (TORCHELASTIC_ERROR_FILE), in the form of torch's @record, if nobody else has written one. Then the
// terminate handler of before is called. Once; later calls do nothing. Reads the environment.
void tell_uncaught_exceptions();

}  // namespace dtrain
