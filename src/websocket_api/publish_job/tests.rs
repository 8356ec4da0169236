use crate::api::NodeStatus;
use crate::api::tests::{define, definition as mosaic_of, rent};
use crate::model::transaction::{
    MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
};
use crate::model::{
    Address, Amount, Body, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, Transaction, mosaic::LevyKind,
};
use crate::websocket_api::content::AccountTopic;
use crate::websocket_api::tests::*;

// Publishing to all subscribers: order and steps.

#[test]
fn a_block_is_published_in_the_order_of_nis1() {
    let mut bench = Bench::default();
    // All accounts of the multisig transaction: outer signer, inner signer, recipient, cosignatory.
    let accounts = [
        "TDDP2JY4XNKA4Q7FXGHIIJD5GNE2WEOGMDD2KXTM",
        "TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI",
        A2,
        "TCGRPN45T7KAQKUCMD3UHVMM7TC5N4LKCRLJC3LS",
    ];
    for topic in ["transactions", "account"] {
        accounts.iter().for_each(|account| bench.subscribe(1, "a", &format!("/{topic}/{account}")));
    }
    for topic in ["/blocks", "/blocks/new"] {
        bench.subscribe(1, "a", topic);
    }
    bench.subscribe(1, "a", &format!("/account/{A1}"));
    bench.receive(1, "UNSUBSCRIBE\nid:x\n\n\0");
    bench.add_block_of(2, vec![multisig()]);
    let sent = bench.work();
    let mut affected = accounts[..3].to_vec();
    let mut expected = vec!["1 /blocks/new".to_owned(), "1 /blocks".to_owned()];
    expected.extend(affected.iter().map(|account| format!("1 /transactions/{account}")));
    affected.push(A1);
    affected.sort_unstable();
    expected.extend(affected.iter().map(|account| format!("1 /account/{account}")));
    assert_eq!(topics(&sent), expected);
    let body = |text: &String| text.split_once("\n\n").unwrap().1.to_owned();
    assert!(sent[2..5].iter().all(|text| body(text) == body(&sent[2])), "the outer transaction for all");
    assert!(body(&sent[2]).starts_with(
        "{\"meta\":{\"innerHash\":{\"data\":\"1a3576514967c6557fb090230385db5c1ec257442293f75d4a5ab83e989e6d65\"}"
    ));
}

#[test]
fn a_confirmed_transaction_has_the_body_of_the_interface_text() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", &format!("/transactions/{A2}"));
    bench.add_block(42, 1);
    let sent = bench.work();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].contains(
        "\ncontent-length:581\n\n{\"meta\":{\"innerHash\":{},\"id\":0,\"hash\":{\"data\":\
        \"9843c81b5278e6b046e66fcd8584676806ca6ca47cc3dac04f931a9240a1cea5\"},\"height\":42},\"transaction\":{"
    ));
}

#[test]
fn an_unconfirmed_transaction_is_published_without_meta_data_and_then_to_its_accounts() {
    let mut bench = Bench::default();
    for topic in ["/unconfirmed".to_owned(), format!("/unconfirmed/{A1}"), format!("/unconfirmed/{A2}")] {
        bench.subscribe(1, &topic, &topic);
    }
    let sent = bench.add_transaction(0);
    assert_eq!(
        topics(&sent),
        ["1 /unconfirmed".to_owned(), format!("1 /unconfirmed/{A1}"), format!("1 /unconfirmed/{A2}")]
    );
    assert!(sent[0].contains("\ncontent-length:439\n") && sent[1].contains("\ncontent-length:595\n"));
    assert!(sent[1].contains("\"height\":9007199254740991}"));
}

#[test]
fn nothing_is_encoded_without_subscribers() {
    let mut bench = Bench::default();
    bench.add_block(2, 3);
    assert_eq!(bench.work(), NOTHING);
    bench.add_block(3, 3);
    assert_eq!(bench.slices(), 1, "nobody is subscribed to anything");
    bench.subscribe(1, "a", "/errors");
    bench.add_block(4, 3);
    let idle = bench.slices();
    bench.subscribe(1, "a", &format!("/account/{A1}"));
    bench.add_block(5, 3);
    assert!(bench.slices() > idle, "{idle}");
}

#[test]
fn a_failed_message_does_not_block_the_rest() {
    let mut bench = Bench::default();
    for account in [A1, A2] {
        bench.subscribe(1, "a", &format!("/account/{account}"));
    }
    bench.add_block(2, 1);
    bench.damage(A1);
    assert_eq!(topics(&bench.work()), [format!("1 /account/{A2}")]);
}

#[test]
fn blocks_are_published_in_slices_while_sessions_open_and_close() {
    let mut bench = Bench::empty(Limits::default());
    bench.effects.counts_only = true;
    for socket in 1..=300 {
        bench.open(socket, "10.0.0.1");
        bench.subscribe(socket, "a", "/blocks");
    }
    bench.add_block(2, 200);
    let (mut slices, mut late_session_charged) = (0, 0);
    while bench.broker.has_work(true) {
        slices += 1;
        let (before, charged) = (bench.effects.messages, bench.effects.charged.values().sum::<u64>());
        bench.slice(20);
        assert!(bench.effects.messages - before <= 21, "a slice is small");
        assert_eq!(bench.effects.charged.values().sum::<u64>() - charged, (bench.effects.messages - before) as u64);
        if bench.effects.messages >= 100 && late_session_charged == 0 {
            (1..=50).chain(290..=300).for_each(|socket| bench.disconnect(socket));
            bench.open(301, "10.0.0.1");
            bench.subscribe(301, "a", "/blocks");
            late_session_charged = bench.charged(301);
        }
    }
    assert!(slices > 15, "{slices}");
    assert_eq!(bench.charged(301), late_session_charged, "who comes late is told of the next block only");
    assert_eq!(bench.effects.messages, 289, "those who had left before it was their turn were not told");
    assert_eq!(bench.broker.table.pool.held_bytes(), 0, "nothing is held when all have been told");
}

#[test]
fn each_body_is_made_once_for_all_sessions() {
    let mut bench = Bench::empty(Limits::default());
    bench.effects.bodies = Some(Vec::new());
    for socket in 1..=100 {
        bench.open(socket, "10.0.0.1");
        bench.subscribe(socket, "a", &format!("/account/{A1}"));
    }
    bench.add_block(2, 1);
    assert_eq!(bench.work().len(), 100);
    let bodies = bench.effects.bodies.unwrap();
    assert!(bodies.len() == 100 && bodies.iter().all(|body| body.as_ptr() == bodies[0].as_ptr()));
}

/// The published chain updates: `new HEIGHT` for `/blocks/new`, and the height of each block.
fn published(sent: &[String]) -> Vec<String> {
    let text = |frame: &String| {
        let (head, body) = frame.split_once("\n\n").unwrap();
        let body = body.trim_end_matches("\r\n\0");
        if head.contains("destination:/blocks/new\n") {
            format!("new {body}")
        } else {
            body.split_once("\"height\":").unwrap().1.split([',', '}']).next().unwrap().to_owned()
        }
    };
    sent.iter().map(text).collect()
}

#[test]
fn a_reorg_publishes_each_block_once_and_the_first_height_of_each_change() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks/new");
    bench.subscribe(1, "b", "/blocks");
    bench.put_block(9, Vec::new());
    bench.broker.chain_changed(Height(4), Height(7));
    // A reorg from an earlier block comes before anything is published.
    bench.broker.chain_changed(Height(2), Height(6));
    assert_eq!(published(&bench.work()), ["new 3", "3", "4", "5", "6"]);
    bench.broker.chain_changed(Height(6), Height(8));
    bench.broker.chain_changed(Height(7), Height(9));
    assert_eq!(published(&bench.work()), ["new 7", "7", "new 8", "8", "9"], "of the first change one block is left");
    bench.broker.chain_changed(Height(5), Height(7));
    assert_eq!(published(&bench.work()), ["new 6", "6", "7"], "also those that were told in their old form");
    bench.broker.chain_changed(Height(7), Height(8));
    bench.broker.chain_changed(Height(8), Height(9));
    assert_eq!(published(&bench.work()), ["new 8", "8", "new 9", "9"]);
}

#[test]
fn chain_changes_without_subscribers_are_discarded() {
    let mut bench = Bench::default();
    bench.put_block(9, Vec::new());
    bench.broker.chain_changed(Height(2), Height(4));
    bench.broker.chain_changed(Height(4), Height(5));
    assert_eq!(bench.work(), NOTHING);
    bench.subscribe(1, "a", "/blocks/new");
    bench.broker.chain_changed(Height(2), Height(6));
    assert_eq!(published(&bench.work()), ["new 3"]);
}

#[test]
fn rolled_back_transactions_are_published_before_the_new_blocks() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/unconfirmed");
    bench.subscribe(1, "a", "/blocks/new");
    bench.add_block(2, 0);
    bench.broker.news.on_transaction(Rc::new(transfer(1)));
    bench.work_once(false, 1_000);
    bench.broker.news.on_transaction(Rc::new(transfer(2)));
    bench.broker.news.on_transaction(Rc::new(transfer(3)));
    let sent = bench.work();
    assert_eq!(topics(&sent), ["1 /unconfirmed", "1 /unconfirmed", "1 /unconfirmed", "1 /blocks/new"]);
}

#[test]
fn blocks_and_unconfirmed_transactions_are_published_alternately() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/unconfirmed");
    bench.subscribe(1, "a", "/blocks/new");
    (2..=4).for_each(|height| bench.add_block(height, 0));
    bench.slice(2);
    (1..=4).for_each(|number| bench.broker.news.on_transaction(Rc::new(transfer(number))));
    let sent: String =
        topics(&bench.work()).iter().map(|topic| if topic.contains("new") { 'b' } else { 'u' }).collect();
    assert_eq!(sent, "bububuu");
}

#[test]
fn pattern_subscriptions_get_messages_once_and_in_order() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", "/blocks/*");
    bench.subscribe(1, "b", "/blocks/new");
    bench.subscribe(2, "c", "/blocks/**");
    let sent = bench.height(2);
    assert_eq!(ids(&sent), ["a", "b", "c", "c"]);
}

// Messages with many frames.

/// A message of 64 KB with short frames.
fn many_frames() -> String {
    let pair = "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0UNSUBSCRIBE\nid:a\n\n\0";
    pair.repeat(65_536 / pair.len())
}

#[test]
fn a_message_of_many_frames_is_processed_in_steps_and_charged() {
    let mut bench = Bench::default();
    let frames = many_frames().matches('\0').count();
    let waits = bench.feed(1, many_frames().as_bytes()).unwrap();
    assert!(waits >= frames / 100, "{frames} frames in {waits} steps");
    assert!(bench.charged(1) >= frames as u64, "{frames} frames for {} units", bench.charged(1));
    assert_eq!(bench.charged(2), 0);
    assert_eq!(bench.broker.table.topics.len(), 0);
}

#[test]
fn the_rest_of_a_message_is_processed_before_later_input_of_the_session() {
    let mut bench = Bench::default();
    let message = many_frames() + "CONNECT\n\n\0";
    let taken = bench.broker.on_message(ConnectionId(1), message.as_bytes(), true, PRESENT, &mut bench.effects);
    assert_eq!((taken, bench.effects.drain().len()), (Progress::Yield, 0));
    assert_eq!(bench.receive(2, "CONNECT\n\n\0").len(), 1, "others need not wait");
    while bench.broker.on_resumed(ConnectionId(1), PRESENT, &mut bench.effects) == Progress::Yield {}
    assert_eq!(bench.effects.drain(), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
}

#[test]
fn a_frame_costs_the_same_with_many_subscriptions() {
    let cost = |held: usize| {
        let mut bench = Bench::default();
        (0..held).for_each(|n| bench.subscribe(1, &format!("s{n}"), &format!("/blocks/{n}")));
        let before = bench.charged(1);
        bench.feed(1, many_frames().as_bytes());
        bench.charged(1) - before
    };
    assert_eq!(cost(0), cost(990));
}

#[test]
fn a_frame_with_too_many_headers_is_rejected() {
    let mut bench = Bench::default();
    let frame = |headers: usize| format!("SEND\n{}\n\0", "a:\n".repeat(headers));
    assert_eq!(bench.receive(1, &frame(1_000)), NOTHING);
    assert!(bench.receive(1, &frame(1_001))[0].contains("more than 1000 headers"));
}

// Items owned by accounts, one message each.

const KINDS: [AccountTopic; 3] = [AccountTopic::Namespaces, AccountTopic::Definitions, AccountTopic::Mosaics];
const REQUESTS: [&str; 3] = ["account/namespace/owned", "account/mosaic/owned/definition", "account/mosaic/owned"];

/// A transfer with a mosaic from account 1 to account 2.
fn with_mosaic(number: i32) -> Transaction {
    let mut transfer = transfer(number);
    let Body::Transfer(body) = &mut transfer.body else { panic!("it is one") };
    body.mosaics = vec![Mosaic { id: MosaicId::parse("a:b").unwrap(), quantity: 1 }];
    transfer
}

fn by_account_1(body: Body) -> Transaction {
    Transaction { body, ..transfer(0) }
}

fn definition(levy: Option<Address>) -> Transaction {
    let id = MosaicId::parse("a:b").unwrap();
    let levy = levy.map(|recipient| Levy { kind: LevyKind::Absolute, recipient, mosaic: id.clone(), fee: 1 });
    let properties =
        MosaicProperties { divisibility: 0, initial_supply: 1_000, supply_mutable: true, transferable: true };
    let creator = transfer(0).signer;
    let definition = MosaicDefinition { creator, id, description: "d".to_owned(), properties, levy };
    by_account_1(Body::MosaicDefinitionCreation(Box::new(MosaicDefinitionCreation {
        definition,
        creation_fee_sink: address(FEE_SINK),
        creation_fee: Amount(0),
    })))
}

/// Account 7, the fee sink of these tests, for which nothing is published.
const FEE_SINK: &str = "TCGRPN45T7KAQKUCMD3UHVMM7TC5N4LKCRLJC3LS";
/// Topics published for a block with one transaction, without registered accounts.
fn published_topics(transaction: Transaction) -> Vec<String> {
    let mut bench = Bench::default();
    for account in [A1, A2, A5, A6, FEE_SINK] {
        for topic in KINDS {
            bench.subscribe(1, "a", &topic.of(&address(account)));
        }
    }
    // Account 2 receives the levy of the mosaic that exists.
    bench.put_block(2, vec![namespace(), definition(Some(address(A2)))]);
    bench.add_block_of(3, vec![transaction]);
    let mut topics: Vec<_> =
        topics(&bench.work()).into_iter().map(|text| text.trim_start_matches("1 /account/").to_owned()).collect();
    // An account may own several items.
    topics.dedup();
    topics
}

/// Topics published when the mosaics of these accounts have changed.
fn mosaic_topics(accounts: &[&str]) -> Vec<String> {
    let mut accounts = accounts.to_vec();
    accounts.sort_unstable();
    ["mosaic/owned/definition", "mosaic/owned"]
        .iter()
        .flat_map(|topic| accounts.iter().map(move |account| format!("{topic}/{account}")))
        .collect()
}

/// A namespace that account 1 rents.
fn namespace() -> Transaction {
    by_account_1(Body::ProvisionNamespace(ProvisionNamespace {
        rental_fee_sink: address(FEE_SINK),
        rental_fee: Amount(0),
        new_part: "a".to_owned(),
        parent: None,
    }))
}

/// A bench on whose chain account 1 of the scene owns two namespaces and two mosaics besides the currency.
fn with_owner() -> (Bench, String) {
    let mut bench = Bench::default();
    let mosaics = ["a:b", "a:c"].into_iter().zip(3..).map(|(id, number)| define(mosaic_of(id, None), number));
    let transactions = [rent(1, "a", 1), rent(1, "x", 2)].into_iter().chain(mosaics).collect();
    bench.put_block(2, transactions);
    (bench, crate::api::tests::address(1).to_string())
}

#[test]
fn every_owned_item_is_a_message_to_the_requesting_session() {
    let names = [
        &["\"fqn\":\"a\"", "\"fqn\":\"x\""][..],
        &["\"name\":\"b\"", "\"name\":\"c\"", "\"name\":\"xem\""],
        &["\"name\":\"xem\"", "\"name\":\"b\"", "\"name\":\"c\""],
    ];
    for ((kind, request), names) in KINDS.into_iter().zip(REQUESTS).zip(names) {
        let (mut bench, owner) = with_owner();
        let topic = kind.of(&address(&owner));
        for socket in [1, 2] {
            bench.subscribe(socket, "a", &topic);
        }
        let sent = bench.ask(1, &send(request, &owner));
        assert_eq!(topics(&sent), vec![format!("1 {topic}"); names.len()], "{request}");
        for name in names {
            assert_eq!(sent.iter().filter(|text| text.contains(name)).count(), 1, "{name}: {sent:?}");
        }
        assert_eq!(bench.ask(1, &send(request, A2)), NOTHING);
        assert_eq!(bench.registered(), 0, "it registers nothing");
    }
    let (mut bench, owner) = with_owner();
    bench.damage(&owner);
    bench.subscribe(1, "a", &format!("/account/mosaic/owned/{owner}"));
    bench.subscribe(1, "e", "/errors");
    assert_eq!(topics(&bench.ask(1, &send("account/mosaic/owned", &owner))), ["1 /errors"]);
}

#[test]
fn owned_items_are_not_read_without_subscribers() {
    let (mut bench, owner) = with_owner();
    for request in REQUESTS {
        let charges = [owner.as_str(), A2].map(|account| {
            let before = bench.charged(1);
            assert_eq!(bench.ask(1, &send(request, account)), NOTHING);
            bench.charged(1) - before
        });
        assert_eq!(charges[0], charges[1], "{request}");
    }
}

#[test]
fn a_mosaic_transfer_is_published_to_all_affected_accounts() {
    // In these tests account 2 receives the levy of every mosaic.
    assert_eq!(published_topics(with_mosaic(1)), mosaic_topics(&[A1, A2]));
    assert_eq!(published_topics(transfer(1)), NOTHING, "no mosaic moves");
    let mut currency = with_mosaic(1);
    let Body::Transfer(body) = &mut currency.body else { panic!("it is one") };
    body.mosaics[0].id = MosaicId::xem();
    assert_eq!(published_topics(currency), NOTHING, "the currency is told with the account");
    assert_eq!(published_topics(definition(None)), mosaic_topics(&[A1]));
    assert_eq!(published_topics(definition(Some(address(A5)))), mosaic_topics(&[A1, A5]));
    let supply =
        MosaicSupplyChange { mosaic: MosaicId::parse("a:b").unwrap(), kind: SupplyChangeKind::Create, delta: 1 };
    assert_eq!(published_topics(by_account_1(Body::MosaicSupplyChange(supply))), mosaic_topics(&[A1, A2]));
}

#[test]
fn a_namespace_is_published_to_its_renter() {
    let mut again = namespace();
    again.timestamp.0 += 1;
    assert_eq!(published_topics(again), [format!("namespace/owned/{A1}")]);
}

#[test]
fn a_multisig_mosaic_transfer_is_published_to_the_outer_signer_too() {
    let within = |inner: Transaction| {
        let inner = Transaction { signature: None, ..inner };
        let body = Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() }));
        Transaction { body, ..multisig() }
    };
    assert_eq!(multisig().signer_address(NETWORK), address(A6));
    assert_eq!(published_topics(within(with_mosaic(1))), mosaic_topics(&[A1, A2, A6]));
    assert_eq!(published_topics(within(definition(None))), mosaic_topics(&[A1]));
}

#[test]
fn owned_items_are_published_once_after_the_accounts() {
    let mut bench = Bench::default();
    let all = [format!("/account/{A1}"), format!("/account/mosaic/owned/{A1}"), format!("/account/mosaic/owned/{A2}")];
    all.iter().for_each(|topic| bench.subscribe(1, "a", topic));
    bench.put_block(2, vec![namespace(), definition(None)]);
    bench.add_block_of(3, vec![with_mosaic(1), with_mosaic(2)]);
    let sent = topics(&bench.work());
    let [own, first, second] = all.map(|topic| format!("1 {topic}"));
    let mut mosaics = [first, second];
    mosaics.sort_unstable();
    let [first, second] = mosaics;
    assert_eq!(sent, [own, first.clone(), first, second.clone(), second]);
}

#[test]
fn a_failure_for_one_owner_does_not_block_the_others() {
    let mut bench = Bench::default();
    for account in [A1, A2] {
        bench.subscribe(1, "a", &format!("/account/mosaic/owned/{account}"));
    }
    bench.put_block(2, vec![namespace(), definition(None)]);
    bench.add_block_of(3, vec![with_mosaic(1)]);
    bench.damage(A1);
    assert_eq!(topics(&bench.work()), vec![format!("1 /account/mosaic/owned/{A2}"); 2]);
}

#[test]
fn an_unconfirmed_transaction_publishes_no_owned_mosaics() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", &format!("/account/mosaic/owned/{A1}"));
    bench.broker.news.on_transaction(Rc::new(with_mosaic(1)));
    assert_eq!(bench.work(), NOTHING);
}

#[test]
fn recent_transactions_are_sent_before_unconfirmed_ones() {
    let mut bench = Bench::default();
    let account = crate::api::tests::address(2).to_string();
    let recent = format!("/recenttransactions/{account}");
    [recent.as_str(), "/unconfirmed"].iter().for_each(|topic| bench.subscribe(1, topic, topic));
    bench.add_to_mempool(1);
    let sent = bench.ask(1, &send("account/transfers/all", &account));
    assert_eq!(topics(&sent), [format!("1 {recent}"), "1 /unconfirmed".to_owned()]);
    assert!(sent[0].ends_with("\n\n{\"data\":[]}\r\n\0"));
    assert_eq!(bench.registered(), 0);
}

#[test]
fn node_info_is_available_once_the_node_is_booted() {
    let mut bench = Bench::default();
    for socket in [1, 2] {
        ["/node/info", "/errors"].iter().for_each(|topic| bench.subscribe(socket, topic, topic));
    }
    let sent = bench.ask(1, "SEND\ndestination:/w/api/node/info\n\nignored\0");
    assert_eq!(topics(&sent), ["1 /node/info"]);
    assert!(sent[0].contains("\n\n{\"metaData\":{"));
    bench.scene.status = NodeStatus::Booting;
    let sent = bench.ask(1, &send("node/info", A1));
    assert_eq!(topics(&sent), ["1 /errors"]);
    assert!(sent[0].contains("\"message\":\"NIS_ILLEGAL_STATE_NOT_BOOTED\""));
}

/// A session that is subscribed to an account with 500 mosaics besides the currency, and has queried them.
fn with_long_answer() -> Bench {
    let mut bench = Bench::default();
    [1, 2].iter().for_each(|socket| drop(bench.receive(*socket, "\n")));
    let owner = crate::api::tests::address(1);
    bench.subscribe(1, "a", &AccountTopic::Mosaics.of(&owner));
    bench.subscribe(2, "a", &format!("/account/{A1}"));
    let mosaics = (1..=500).map(|number| define(mosaic_of(&format!("a:m{number:03}"), None), number));
    bench.put_block(2, [rent(1, "a", 0)].into_iter().chain(mosaics).collect());
    bench.receive(1, &send("account/mosaic/owned", owner.as_str()).repeat(2));
    bench.slice(100);
    assert!((1..100).contains(&bench.effects.drain().len()));
    bench
}

#[test]
fn a_long_answer_waits_for_its_session_without_delaying_others() {
    let mut bench = with_long_answer();
    bench.effects.backlogs.insert(1, 64 * 1024);
    let part = bench.work().len();
    assert!(part < 500 && !bench.broker.has_work(true), "{part}");
    assert_eq!(bench.ask(2, &send("account/get", A1)).len(), 1);
    let retry = bench.broker.next_due().unwrap();
    bench.broker.on_timer(retry, &mut bench.effects);
    assert_eq!(bench.work(), NOTHING, "it has still too much to take");
    bench.effects.backlogs.clear();
    bench.broker.on_timer(retry + retry, &mut bench.effects);
    let rest = bench.work();
    assert!(rest.len() > 900 && rest.len() < 1000, "{}", rest.len());
    assert!(rest.last().unwrap().contains("\"name\":\"m500\""), "nothing is lost");
    assert_eq!(bench.broker.next_due(), None);
}

#[test]
fn a_long_answer_is_interleaved_with_those_of_other_sessions() {
    let mut bench = with_long_answer();
    bench.receive(2, &send("account/get", A1));
    bench.slice(100);
    bench.slice(100);
    let sent = topics(&bench.effects.drain());
    assert!(sent.contains(&format!("2 /account/{A1}")), "{sent:?}");
    let rest = bench.work();
    assert!(sent.len() < 100 && rest.len() > 800 && rest.last().unwrap().contains("\"name\":\"m500\""));
}

#[test]
fn a_waiting_answer_is_discarded_with_its_session() {
    let mut bench = with_long_answer();
    bench.effects.backlogs.insert(1, 64 * 1024);
    bench.work();
    bench.disconnect(1);
    assert_eq!(bench.broker.next_due(), None);
    assert!(!bench.broker.has_work(true));
}
