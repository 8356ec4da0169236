//! Tests of the peer state machine, with well-behaved and byzantine peers.

mod broadcasting;
mod joining;
mod limits;
mod queries;
mod refreshing;
mod requests;
mod signs_of_life;
mod splitting;
mod synchronising;
