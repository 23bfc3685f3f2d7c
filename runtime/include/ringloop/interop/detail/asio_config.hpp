// Which Asio: the standalone one, or with RINGLOOP_ASIO_BOOST Boost's. Everything that names a type
// of Asio's stands in an inline namespace of its own, so that a program may have both.
// Thread: nothing here runs.
#pragma once

#if defined(RINGLOOP_ASIO_BOOST)
#include <boost/asio.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION < 107800
#error "ringloop/interop/asio.hpp needs Boost 1.78 or newer (apt-get install libboost1.81-dev)"
#endif
#define RINGLOOP_ASIO_BEGIN namespace boost::asio {
#define RINGLOOP_ASIO_END }
#define RINGLOOP_ASIO_NAMESPACE with_boost_asio
namespace ringloop::interop::inline with_boost_asio {
namespace asio = boost::asio;
using asio_error_code = boost::system::error_code;
using asio_system_error = boost::system::system_error;
}  // namespace ringloop::interop::inline with_boost_asio
#else
#include <asio.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#if ASIO_VERSION < 102200
#error "ringloop/interop/asio.hpp needs Asio 1.22 or newer (apt-get install libasio-dev)"
#endif
#define RINGLOOP_ASIO_BEGIN namespace asio {
#define RINGLOOP_ASIO_END }
#define RINGLOOP_ASIO_NAMESPACE with_asio
namespace ringloop::interop::inline with_asio {
namespace asio = ::asio;
using asio_error_code = ::asio::error_code;
using asio_system_error = ::asio::system_error;
}  // namespace ringloop::interop::inline with_asio
#endif
