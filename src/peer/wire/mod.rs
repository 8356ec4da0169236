//! What nodes tell each other, as bytes and as JSON. Plain types without sockets, clocks or state.
//!
//! | part | what it is |
//! |---|---|
//! | [`Identity`], [`Endpoint`], [`Version`], [`MetaData`], [`NodeInfo`] | a node as others know it |
//! | [`NodeList`], [`NodeCollection`] | several of them |
//! | [`Challenge`], [`AuthenticatedRequest`], [`AuthenticatedResponse`] | answers that prove who gives them |
//! | [`SecureEntity`] | a block or a transaction that a node passes on in its own name |
//! | [`ChainRequest`], [`HashChain`], [`BlockList`], [`Score`] | parts of the chain |
//! | [`Listed`] | long answers, read one element after another |
//! | [`ShortIds`], [`TransactionList`] | the transactions that a node has |
//! | [`Experience`], [`NodeExperiences`] | what a node thinks of others |
//! | [`CommunicationTimeStamps`] | its clock |
//! | [`ErrorBody`] | why a request failed |
//! | [`Query`], [`Message`], [`nemesis_request`] | all requests to another node, with their paths and limits |
//! | [`limits`] | how long answers may be |

mod authentication;
mod chain;
mod endpoint;
mod error_body;
mod experiences;
pub mod limits;
mod list;
mod node;
mod request;
mod secure;
mod time;
mod version;

pub use authentication::{
    AnswerError, AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, CHALLENGE_BYTES, Challenge,
    MAX_CHALLENGE_BYTES, check_answer, read_answer, read_introduction,
};
pub use chain::{BlockList, ChainRequest, HashChain, Listed, PartLimits, Score, ShortIds, TransactionList};
pub use endpoint::{BadEndpoint, DEFAULT_PORT, Endpoint};
pub use error_body::ErrorBody;
pub use experiences::{Experience, ExperienceEntry, ExperiencePair, NodeExperiences, SignOfLife};
pub use list::List;
pub use node::{Identity, MetaData, NodeCollection, NodeInfo, NodeList};
pub use request::{Message, Outgoing, Query, nemesis_request};
pub use secure::SecureEntity;
pub use time::CommunicationTimeStamps;
pub use version::{BadVersion, Version};
