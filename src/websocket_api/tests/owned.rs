//! Items owned by accounts, one message each.

use super::*;
use crate::api::NodeStatus;
use crate::api::tests::{define, definition as mosaic_of, rent};
use crate::model::transaction::{
    MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
};
use crate::model::{
    Address, Amount, Body, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, Transaction, mosaic::LevyKind,
};
use crate::websocket_api::content::AccountTopic;

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
