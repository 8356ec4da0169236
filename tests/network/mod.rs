//! Nodes as processes that talk to each other.

mod block_download;
mod byzantine_peers;
mod event_books;
mod fetch_client;
mod network_of_five;
mod scripted_peer;
