//! Nodes as processes that talk to each other.

mod announcing;
mod fetching;
mod first_synchronisation;
mod harvesting;
mod joining;
mod lying_peers;
mod network_of_five;
mod partition;
mod relay;
mod restarts;
mod two_machines;
