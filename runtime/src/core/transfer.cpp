// The state of coroutine transfers, one a thread (detail/transfer.hpp).
#include "ringloop/detail/transfer.hpp"

namespace ringloop::detail {

thread_local constinit transfer_state transfers;

}  // namespace ringloop::detail
