#include "loop.hpp"
namespace ringloop::python {
int add_socket_types(PyObject*) noexcept { return 0; }
}  // namespace ringloop::python
