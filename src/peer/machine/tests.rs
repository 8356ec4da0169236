//! What the machine promises, with other nodes that behave well and badly.

mod broadcasting;
mod calling;
mod inquiring;
mod joining;
mod limits;
mod meeting;
mod refreshing;
mod splitting;
mod synchronising;
