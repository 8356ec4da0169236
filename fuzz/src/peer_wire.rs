//! Fuzz target: messages between peers, requests, responses and lists of them, in both formats.

use nisd::codec::{Context, Format, Readable, Writable};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey};
use nisd::model::network::ChainParameters;
use nisd::model::{Block, Height, Transaction};
use nisd::peer::wire::{
    AnswerContext, AnswerError, AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Challenge,
    CommunicationTimeStamps, Endpoint, ErrorBody, ExperienceEntry, HashChain, List, MetaData, NodeCollection,
    NodeExperiences, NodeInfo, NodeList, Query, Score, SecureEntity, ShortIds, SignOfLife, Version, limits,
};

use crate::entities::read_as;

/// Flag of the first byte: the body is JSON.
pub const JSON: u8 = 1;
/// Number of readers; the first byte has the reader above the flag.
pub const READERS: u8 = 28;

/// Returns the first byte for a reader and a format.
pub fn selector(reader: u8, format: Format) -> u8 {
    assert!(reader < READERS);
    reader << 1 | u8::from(format == Format::Json)
}

/// Checks that what can be read, in the format and by the reader that the first byte selects, is bounded, and is the
/// same after writing and reading it in either format. Blocks read one by one are those read as a whole.
pub fn check(data: &[u8]) -> usize {
    let Some((selector, body)) = data.split_first() else { return 0 };
    let format = if selector & JSON == 0 { Format::Binary } else { Format::Json };
    let body = Body { format, body };
    let found = match selector >> 1 {
        0 => body.check::<Challenge>(),
        1 => body.check_block_at(),
        2 => body.check_chain_request(),
        3 => body.check::<AuthenticatedRequest<ShortIds>>(),
        4 => body.check::<Endpoint>(),
        5 => body.check_node(),
        6 => body.reads::<SignOfLife>(),
        7 => body.check_secure::<Transaction>(),
        8 => body.check::<List<SecureEntity<Transaction>>>(),
        9 => body.check_secure::<Block>(),
        10 => body.check::<AuthenticatedResponse<NodeInfo>>(),
        11 => body.check_nodes(),
        12 => body.check::<AuthenticatedResponse<NodeExperiences>>(),
        13 => body.check::<AuthenticatedResponse<Height>>(),
        14 => body.check::<AuthenticatedResponse<Score>>(),
        15 => body.check::<AuthenticatedResponse<Block>>(),
        16 => body.check::<AuthenticatedResponse<CommunicationTimeStamps>>(),
        17 => body.check::<AuthenticatedResponse<HashChain>>(),
        18 => body.check::<AuthenticatedResponse<List<Block>>>(),
        19 => body.check::<AuthenticatedResponse<List<Transaction>>>(),
        20 => body.check_error(),
        21 => body.check::<NodeCollection>(),
        22 => body.check::<List<ExperienceEntry>>(),
        23 => body.check_blocks(),
        24 => body.check_answer::<NodeInfo>(),
        25 => body.check_answer::<Block>(),
        26 => body.check_introduction(),
        27 => body.check_endpoint_text(),
        _ => None,
    };
    found.map_or(0, |()| 1)
}

/// Returns the assumed challenge.
pub fn challenge() -> Challenge {
    Challenge([7; 64])
}

/// Returns the key pair of the assumed peer.
pub fn pair() -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[7; 32]))
}

fn context() -> Context {
    let (_, context, _) = read_as(&[0]).expect("testnet");
    context
}

struct Body<'a> {
    format: Format,
    body: &'a [u8],
}

impl Body<'_> {
    fn reads<T: Readable>(&self) -> Option<()> {
        self.format.read::<T>(self.body, context()).ok().map(drop)
    }

    fn check<T: Readable + Writable + PartialEq + std::fmt::Debug>(&self) -> Option<()> {
        let entity: T = self.format.read(self.body, context()).ok()?;
        for format in [Format::Binary, Format::Json] {
            let written = format.to_bytes(&entity);
            let again: T = format.read(&written, context()).expect("what was written is read");
            assert_eq!(again, entity, "{format:?}");
            assert_eq!(format.to_bytes(&again), written);
        }
        Some(())
    }

    /// The request that asks a peer for this is written as it was read.
    fn check_block_at(&self) -> Option<()> {
        self.check::<AuthenticatedRequest<Height>>()?;
        let read: AuthenticatedRequest<Height> = self.format.read(self.body, context()).ok()?;
        let chain = ChainParameters::after_all_forks();
        let request = Query::BlockAt(read.entity).request(&read.challenge, self.format, &chain);
        assert_eq!(*request.body, self.format.to_bytes(&read));
        Some(())
    }

    /// Two nodes work together, whichever of them is asked.
    fn check_node(&self) -> Option<()> {
        self.check::<NodeInfo>()?;
        let NodeInfo { meta_data, .. } = self.format.read(self.body, context()).ok()?;
        let ours = MetaData { version: Version::OWN, ..meta_data.clone() };
        assert!(meta_data.is_compatible(&meta_data));
        assert_eq!(meta_data.is_compatible(&ours), ours.is_compatible(&meta_data));
        Some(())
    }

    /// The signature covers all of the entity.
    fn check_secure<T: Readable + Writable + PartialEq + std::fmt::Debug>(&self) -> Option<()> {
        self.check::<SecureEntity<T>>()?;
        let read: SecureEntity<T> = self.format.read(self.body, context()).ok()?;
        let (_, hashed) = read.verify();
        assert_eq!(hashed, Format::Binary.to_bytes(&read.entity).len());
        let signed = SecureEntity::sign(read.entity, &pair(), None);
        assert!(signed.verify().0 && format!("{signed:?}").contains("entity"));
        Some(())
    }

    fn check_error(&self) -> Option<()> {
        self.check::<ErrorBody>()?;
        let read: ErrorBody = self.format.read(self.body, context()).ok()?;
        assert!(!read.is_starting() || read.status == 503 && read.message.is_some());
        Some(())
    }

    /// JSON can omit the first of its two numbers, binary cannot.
    fn check_chain_request(&self) -> Option<()> {
        let read: AuthenticatedRequest<ChainRequest> = self.format.read(self.body, context()).ok()?;
        let chain = ChainParameters::after_all_forks();
        let limits = read.entity.limits(&chain);
        assert!((10..=400).contains(&limits.min_blocks) && (110..=400).contains(&limits.first_query));
        assert!((120..=10_000).contains(&limits.transactions));
        if read.entity.min_blocks.is_none() && read.entity.max_transactions.is_some() {
            return Some(());
        }
        self.check::<AuthenticatedRequest<ChainRequest>>()
    }

    fn check_nodes(&self) -> Option<()> {
        self.check::<AuthenticatedResponse<NodeList>>()?;
        let list: AuthenticatedResponse<NodeList> = self.format.read(self.body, context()).ok()?;
        assert!(list.entity.0.len() <= limits::LISTED_NODES);
        let binary = list.entity.0.iter().map(|node| Format::Binary.to_bytes(node).len());
        assert!(binary.max().unwrap_or(0) <= limits::NODE);
        Some(())
    }

    /// Signs the body with the key of the assumed peer.
    fn signed(&self) -> Vec<u8> {
        let signature = challenge().sign(&pair());
        match self.format {
            Format::Json => {
                let mut text = format!("{{\"signature\":\"{signature}\",\"entity\":").into_bytes();
                text.extend_from_slice(self.body);
                text.push(b'}');
                text
            }
            Format::Binary => {
                let lengths = [self.body.len(), signature.0.len()].map(|length| (length as i32).to_le_bytes());
                [&lengths[0], self.body, &lengths[1], &signature.0].concat()
            }
        }
    }

    fn expect(&self, key: PublicKey) -> AnswerContext {
        AnswerContext { format: self.format, context: context(), challenge: challenge(), key: Some(key) }
    }

    fn check_blocks(&self) -> Option<()> {
        let body = self.signed();
        let stranger = self.expect(PublicKey([1; 32])).open_list::<Block>(body.clone(), usize::MAX);
        assert!(stranger.is_err());
        let whole: Result<List<Block>, _> = self.expect(pair().public()).read(&body);
        let mut list = self.expect(pair().public()).open_list::<Block>(body, usize::MAX).ok()?;
        let mut blocks = Vec::new();
        let result = loop {
            let left = list.left();
            match list.next(context()) {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(block)) => {
                    assert_eq!(list.left(), left - 1);
                    blocks.push(block);
                }
            }
        };
        assert!(list.next(context()).is_none());
        match (whole, self.format) {
            (Ok(List(whole)), _) => assert_eq!((result, blocks), (Ok(()), whole)),
            (Err(_), Format::Binary) => assert!(result.is_err()),
            // A list may be among members that make the whole unreadable.
            (Err(_), Format::Json) => {}
        }
        Some(())
    }

    fn check_answer<T: Readable + Writable + PartialEq + std::fmt::Debug>(&self) -> Option<()> {
        let body = self.signed();
        let read = |key| self.expect(key).read::<T>(&body);
        assert!(read(PublicKey([1; 32])).is_err());
        let alone = self.format.read::<T>(self.body, context()).ok();
        match read(pair().public()) {
            Ok(entity) if self.format == Format::Binary => assert_eq!(Some(entity), alone),
            // A JSON body may add members of its own.
            Ok(_) => {}
            Err(AnswerError::Impersonated) => assert_eq!(self.format, Format::Json, "the signature is good"),
            Err(AnswerError::Unreadable(_)) => return None,
        }
        Some(())
    }

    fn check_introduction(&self) -> Option<()> {
        let node = AnswerContext { key: None, ..self.expect(pair().public()) }.read_introduction(self.body).ok()?;
        self.expect(node.identity.key).read::<NodeInfo>(self.body).expect("its key");
        Some(())
    }

    fn check_endpoint_text(&self) -> Option<()> {
        let endpoint = Endpoint::parse(std::str::from_utf8(self.body).ok()?).ok()?;
        assert!(endpoint.to_connect().is_some());
        assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint));
        Some(())
    }
}
