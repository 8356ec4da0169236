//! Tests of the peer state machine, with well-behaved and byzantine peers.

mod broadcasting;
mod calling;
mod inquiring;
mod joining;
mod limits;
mod meeting;
mod refreshing;
mod splitting;
mod synchronising;
