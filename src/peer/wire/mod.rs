//! Peer messages in binary and JSON: plain types without sockets, clocks or state.
//!
//! | type | purpose |
//! |---|---|
//! | [`Identity`], [`Endpoint`], [`Version`], [`MetaData`], [`NodeInfo`] | public description of a node |
//! | [`NodeList`], [`NodeCollection`] | several of them |
//! | [`Challenge`], [`AuthenticatedRequest`], [`AuthenticatedResponse`] | answers with proof of identity |
//! | [`SecureEntity`] | block or transaction signed by the relaying node |
//! | [`ChainRequest`], [`HashChain`], [`BlockList`], [`Score`] | parts of the chain |
//! | [`LazyList`] | long answers, decoded one element at a time |
//! | [`ShortIds`], [`TransactionList`] | unconfirmed transactions |
//! | [`ExperiencePair`], [`NodeExperiences`] | a node's experiences with others |
//! | [`CommunicationTimeStamps`] | clock of a node |
//! | [`ErrorBody`] | body of an error response |
//! | [`Query`], [`Message`], [`nemesis_request`] | all requests to peers, with paths and answer limits |
//! | [`limits`] | maximum sizes of messages |

mod authentication;
mod chain;
mod endpoint;
mod error_body;
mod experiences;
pub mod limits;
mod node;
mod request;
mod secure;
mod version;

pub use authentication::{
    AnswerContext, AnswerError, AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, CHALLENGE_BYTES, Challenge,
    MAX_CHALLENGE_BYTES, read_answer, read_introduction,
};
pub use chain::{BlockList, BlockListLimits, ChainRequest, HashChain, LazyList, Score, ShortIds, TransactionList};
pub use endpoint::{BadEndpoint, DEFAULT_PORT, Endpoint};
pub use error_body::ErrorBody;
pub use experiences::{ExperienceEntry, ExperiencePair, NodeExperiences, SignOfLife};
pub use node::{Identity, MetaData, NodeCollection, NodeInfo, NodeList};
pub use request::{EncodedRequest, Message, Query, nemesis_request};
pub use secure::CommunicationTimeStamps;
pub use secure::List;
pub use secure::SecureEntity;
pub use version::{BadVersion, Version};
