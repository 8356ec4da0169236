//! A line about each route: what it is for, what it is asked with, and the shape of its answer.

/// What is said of a route.
pub struct Operation {
    /// `GET` or `POST`.
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    /// Names of the parameters of its query; those with a `?` may be missing.
    pub parameters: &'static str,
    /// Shape of its body; empty if it has none.
    pub body: &'static str,
    /// Shape of its answer; empty if that has no body, `text` if that is a word.
    pub answer: &'static str,
}

const fn get(path: &'static str, summary: &'static str, parameters: &'static str, answer: &'static str) -> Operation {
    Operation { method: "GET", path, summary, parameters, body: "", answer }
}

const fn post(path: &'static str, summary: &'static str, body: &'static str, answer: &'static str) -> Operation {
    Operation { method: "POST", path, summary, parameters: "", body, answer }
}

/// A route that other nodes call: it is sent 64 random bytes, and answers with a signature that covers them.
const fn peer(path: &'static str, summary: &'static str) -> Operation {
    post(path, summary, "any", "any")
}

const PAGE: &str = "address hash? id? pageSize?";
const LOCAL_PAGE: &str = "{value: text, hash~: text, id~: text, pageSize~: text}";
const TRANSACTIONS: &str = "{data: [TransactionPair]}";
const HEIGHT: &str = "{height: int64}";

/// All of them, in the order of the route table's sections.
pub const OPERATIONS: &[Operation] = &[
    get("/openapi.json", "This description", "", "any"),
    get("/metrics", "The figures of the node, in Prometheus' text format", "", "text"),
    get("/heartbeat", "A sign of life", "", "RequestResult"),
    get("/status", "The state of the node, as a code from 3 to 8", "", "RequestResult"),
    get("/shutdown", "Ends the node in an orderly way", "", ""),
    post(
        "/node/boot",
        "Has the node join its network",
        "{metaData: {application~: text?}, endpoint: Endpoint, identity: {private-key: text, name~: text?}}",
        "",
    ),
    get("/node/info", "The node", "", "Node"),
    get("/node/extended-info", "The node and its software", "", "ExtendedInfo"),
    get("/node/clock", "What the node knows of its clock", "", "any"),
    get("/node/peer-list/all", "Known nodes by their states", "", "NodeLists"),
    get("/node/peer-list/reachable", "Nodes that can be reached", "", "{data: [Node]}"),
    get("/node/peer-list/active", "Nodes that are told of blocks and transactions", "", "{data: [Node]}"),
    get("/node/active-peers/max-chain-height", "The greatest height of those nodes", "", "Height"),
    get("/node/experiences", "Experiences with other nodes", "", "{data: [ExperienceEntry]}"),
    get("/chain/height", "Height of the last block", "", "Height"),
    get("/chain/score", "The score of the chain", "", "Score"),
    get("/chain/last-block", "The last block", "", "Block"),
    post("/block/at/public", "The block at a height", HEIGHT, "Block"),
    get("/account/get", "An account", "address", "AccountMetaDataPair"),
    get("/account/get/from-public-key", "An account by its public key", "publicKey", "AccountMetaDataPair"),
    get("/account/get/forwarded", "The account that lends its importance to one", "address", "AccountMetaDataPair"),
    get(
        "/account/get/forwarded/from-public-key",
        "The account that lends its importance to one, by the public key of that",
        "publicKey",
        "AccountMetaDataPair",
    ),
    post("/account/get/batch", "Several accounts", "Accounts", "{data: [AccountMetaDataPair]}"),
    get("/account/status", "What an account does, without its balance", "address", "AccountMetaData"),
    get("/account/transfers/incoming", "Transactions that an account received, the newest first", PAGE, TRANSACTIONS),
    get("/account/transfers/outgoing", "Transactions that an account sent, the newest first", PAGE, TRANSACTIONS),
    get("/account/transfers/all", "Transactions of an account, the newest first", PAGE, TRANSACTIONS),
    post(
        "/local/account/transfers/incoming",
        "Transactions that the account of a private key received, with their messages decrypted",
        LOCAL_PAGE,
        TRANSACTIONS,
    ),
    post(
        "/local/account/transfers/outgoing",
        "Transactions that the account of a private key sent, with their messages decrypted",
        LOCAL_PAGE,
        TRANSACTIONS,
    ),
    post(
        "/local/account/transfers/all",
        "Transactions of the account of a private key, with their messages decrypted",
        LOCAL_PAGE,
        TRANSACTIONS,
    ),
    get(
        "/account/unconfirmedTransactions",
        "Transactions of an account that no block has yet; at most 25",
        "address",
        "{data: [UnconfirmedPair]}",
    ),
    get("/account/harvests", "Blocks that an account harvested", "address id? pageSize?", "{data: [HarvestInfo]}"),
    get("/account/importances", "The importance of every account", "", "{data: [ImportanceEntry]}"),
    get(
        "/account/historical/get",
        "What an account had at earlier heights",
        "address startHeight endHeight increment",
        "{data: [HistoryEntry]}",
    ),
    post(
        "/account/historical/get/batch",
        "What several accounts had at earlier heights",
        "{accounts: [{account: text}], startHeight: int64, endHeight: int64, incrementBy: int64}",
        "{data: [{data: [HistoryEntry]}]}",
    ),
    post("/account/unlock", "Has an account harvest on this node", "PrivateKey", ""),
    post("/account/lock", "Ends that", "PrivateKey", ""),
    post("/account/isunlocked", "Whether an account harvests on this node", "PrivateKey", "text"),
    post("/local/account/isunlocked", "Whether an account harvests on this node", "PrivateKey", "text"),
    post("/account/unlocked/info", "How many accounts harvest on this node", "", "UnlockedInfo"),
    get("/account/generate", "A new pair of keys", "", "KeyPair"),
    get("/namespace", "A namespace", "namespace", "Namespace"),
    get("/namespace/root/page", "Root namespaces, the newest first", "id? pageSize?", "{data: [NamespacePair]}"),
    get("/account/namespace/page", "Namespaces of an account", "address parent? pageSize?", "{data: [Namespace]}"),
    get(
        "/namespace/mosaic/definition/page",
        "Mosaics of a namespace, the newest first",
        "namespace id? pageSize?",
        "{data: [MosaicDefinitionPair]}",
    ),
    get("/mosaic/definition", "The definition of a mosaic that is in force", "mosaicId", "MosaicDefinition"),
    get("/mosaic/definition/last", "The last definition of a mosaic", "mosaicId", "MosaicDefinition"),
    get("/mosaic/definition/page", "Mosaics, the newest first", "id? pageSize?", "{data: [MosaicDefinitionPair]}"),
    get("/mosaic/supply", "The supply of a mosaic", "mosaicId", "MosaicSupply"),
    post("/mosaic/supply/batch", "The supplies of several mosaics", "{data: [MosaicId]}", "{data: [MosaicSupply]}"),
    get(
        "/local/mosaic/definition/supply",
        "A mosaic as it was at a height: definition, supply, and when it ends",
        "mosaicId height?",
        "{data: [SuppliedDefinition]}",
    ),
    get("/local/mosaics/expired", "Mosaics that expired at a height", "height?", "{data: [ExpiredMosaic]}"),
    get(
        "/account/mosaic/definition/page",
        "Mosaics that an account defined",
        "address parent? id? pageSize?",
        "{data: [MosaicDefinition]}",
    ),
    get("/account/mosaic/owned", "Mosaics of an account", "address", "{data: [Mosaic]}"),
    get("/account/mosaic/owned/definition", "Their definitions", "address", "{data: [MosaicDefinition]}"),
    post(
        "/account/mosaic/owned/definition/batch",
        "Definitions of the mosaics of several accounts",
        "Accounts",
        "{data: [MosaicDefinition]}",
    ),
    get("/transaction/get", "A transaction by its hash, however old", "hash", "TransactionPair"),
    post(
        "/transaction/announce",
        "Offers a signed transaction; a refusal is an answer of status 200",
        "{data: text, signature: text}",
        "AnnounceResult",
    ),
    post(
        "/transaction/prepare-announce",
        "Signs a transaction and offers it",
        "{transaction: any, privateKey: text}",
        "AnnounceResult",
    ),
    post("/transaction/prepare", "The bytes of a transaction that are to be signed", "any", "{data: hex}"),
    post("/local/block/at", "The block at a height, with hashes and fees", HEIGHT, "ExplorerBlock"),
    post("/local/chain/blocks-after", "The ten blocks after a height", HEIGHT, "{data: [ExplorerBlock]}"),
    get("/time-sync/network-time", "Network time in milliseconds", "", "TimeStamps"),
    get("/local/peers", "All that the node knows of other nodes", "", "Peers"),
    get("/debug/timers", "What the node does from time to time", "", "{data: [Timer]}"),
    get("/debug/connections/incoming", "Requests that came", "", "Audits"),
    get("/debug/connections/outgoing", "Requests that were sent", "", "Audits"),
    get("/debug/time-synchronization", "How the clock was set by other nodes", "", "{data: [TimeSynchronization]}"),
    peer("/chain/height", "Height of the last block, for other nodes"),
    peer("/chain/score", "The score of the chain, for other nodes"),
    peer("/chain/last-block", "The last block, for other nodes"),
    peer("/chain/blocks-after", "Blocks after a height, for other nodes"),
    peer("/chain/hashes-from", "Hashes of blocks from a height on, for other nodes"),
    peer("/block/at", "The block at a height, for other nodes"),
    peer("/node/info", "The node, for other nodes"),
    peer("/node/peer-list/active", "Nodes that are told of blocks, for other nodes"),
    peer("/node/experiences", "Experiences with other nodes, for other nodes"),
    peer("/node/ping", "A node tells of itself and its experiences"),
    peer("/node/sign-of-life", "A node tells of itself"),
    peer("/node/cysm", "The address that a node is seen under"),
    peer("/time-sync/network-time", "Network time, for other nodes"),
    peer("/transactions/unconfirmed", "Transactions that no block has yet, for other nodes"),
    peer("/push/transaction", "A node passes a transaction on"),
    peer("/push/transactions", "A node passes transactions on"),
    peer("/push/block", "A node passes a block on"),
];
