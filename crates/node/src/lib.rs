//! One replica as a value, and the threads and sockets that drive it.
