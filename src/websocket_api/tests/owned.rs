//! Items owned by accounts, one message each.

use super::*;
use crate::model::transaction::{
    MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
};
use crate::model::{
    Address, Amount, Body, Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, Transaction, mosaic::LevyKind,
};
use crate::websocket_api::OwnedKind;

const KINDS: [(OwnedKind, &str); 3] = [
    (OwnedKind::Namespaces, "/account/namespace/owned/"),
    (OwnedKind::Definitions, "/account/mosaic/owned/definition/"),
    (OwnedKind::Mosaics, "/account/mosaic/owned/"),
];
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
    let properties = MosaicProperties { divisibility: 0, initial_supply: 1, supply_mutable: true, transferable: true };
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
/// Account 5, which receives a levy.
const A5: &str = "TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI";
/// Account 6, which wraps the transactions of others.
const A6: &str = "TDDP2JY4XNKA4Q7FXGHIIJD5GNE2WEOGMDD2KXTM";

/// Topics published for a block with one transaction, without registered accounts.
fn published_topics(transaction: Transaction) -> Vec<String> {
    let mut bench = Bench::new(Settings { register_on_subscribe: false, ..Settings::default() });
    for account in [A1, A2, A5, A6, FEE_SINK] {
        for (kind, topic) in KINDS {
            bench.subscribe(1, "a", &format!("{topic}{account}"));
            bench.node.owned.insert((kind, address(account)), 1);
        }
    }
    let mut block = block_of(Height(2), 0);
    block.transactions.push(transaction);
    bench.node.blocks.insert(2, block);
    bench.broker.chain_changed(Height(1), Height(2));
    topics(&bench.work()).into_iter().map(|text| text.trim_start_matches("1 /account/").to_owned()).collect()
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

#[test]
fn every_owned_item_is_a_message_to_the_requesting_session() {
    for ((kind, topic), request) in KINDS.into_iter().zip(REQUESTS) {
        let mut bench = Bench::default();
        for socket in [1, 2] {
            bench.subscribe(socket, "a", &format!("{topic}{A1}"));
        }
        bench.node.owned.insert((kind, address(A1)), 3);
        let sent = bench.ask(1, &send(request, A1));
        assert_eq!(topics(&sent), vec![format!("1 {topic}{A1}"); 3], "{request}");
        for (number, text) in (1..).zip(&sent) {
            assert!(text.ends_with(&format!("\n\n{{\"number\":{number}}}\r\n\0")), "{text}");
        }
        assert_eq!(bench.ask(1, &send(request, A2)), NOTHING);
        assert_eq!(bench.registered(), 0, "it registers nothing");
        bench.node.broken = Some(address(A1));
        bench.subscribe(1, "e", "/errors");
        assert_eq!(topics(&bench.ask(1, &send(request, A1))), ["1 /errors"]);
    }
}

#[test]
fn owned_items_are_not_read_without_subscribers() {
    let mut bench = Bench::default();
    bench.node.owned.extend(KINDS.map(|(kind, _)| ((kind, address(A1)), 3)));
    for request in REQUESTS {
        assert_eq!(bench.ask(1, &send(request, A1)), NOTHING);
    }
    bench.subscribe(1, "a", "/blocks/new");
    bench.node.blocks.insert(2, block_of(Height(2), 0));
    bench.node.blocks.get_mut(&2).unwrap().transactions.push(with_mosaic(1));
    bench.broker.chain_changed(Height(1), Height(2));
    bench.work();
    assert!(bench.node.returned.borrow().is_empty());
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
    let body = ProvisionNamespace {
        rental_fee_sink: address(FEE_SINK),
        rental_fee: Amount(0),
        new_part: "a".to_owned(),
        parent: None,
    };
    assert_eq!(published_topics(by_account_1(Body::ProvisionNamespace(body))), [format!("namespace/owned/{A1}")]);
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
    bench.node.owned.extend([A1, A2].map(|account| ((OwnedKind::Mosaics, address(account)), 2)));
    let mut block = block_of(Height(2), 0);
    block.transactions = vec![with_mosaic(1), with_mosaic(2)];
    bench.node.blocks.insert(2, block);
    bench.broker.chain_changed(Height(1), Height(2));
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
        bench.node.owned.insert((OwnedKind::Mosaics, address(account)), 1);
    }
    bench.node.broken = Some(address(A1));
    let mut block = block_of(Height(2), 0);
    block.transactions.push(with_mosaic(1));
    bench.node.blocks.insert(2, block);
    bench.broker.chain_changed(Height(1), Height(2));
    assert_eq!(topics(&bench.work()), [format!("1 /account/mosaic/owned/{A2}")]);
}

#[test]
fn an_unconfirmed_transaction_publishes_no_owned_mosaics() {
    let mut bench = Bench::default();
    bench.subscribe(1, "a", &format!("/account/mosaic/owned/{A1}"));
    bench.node.owned.insert((OwnedKind::Mosaics, address(A1)), 1);
    bench.broker.on_transaction(Rc::new(with_mosaic(1)));
    assert_eq!(bench.work(), NOTHING);
}

#[test]
fn recent_transactions_are_sent_before_unconfirmed_ones() {
    let mut bench = Bench::default();
    let recent = format!("/recenttransactions/{A2}");
    [recent.as_str(), "/unconfirmed"].iter().for_each(|topic| bench.subscribe(1, topic, topic));
    bench.node.pool = vec![Rc::new(transfer(1))];
    let sent = bench.ask(1, &send("account/transfers/all", A2));
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
    assert!(sent[0].ends_with("\n\n{\"node\":1}\r\n\0"));
    bench.node.is_booting = true;
    let sent = bench.ask(1, &send("node/info", A1));
    assert_eq!(topics(&sent), ["1 /errors"]);
    assert!(sent[0].contains("\"message\":\"NIS_ILLEGAL_STATE_NOT_BOOTED\""));
}

/// A session that is subscribed to an account with many mosaics, and has queried them.
fn with_long_answer() -> Bench {
    let mut bench = Bench::default();
    [1, 2].iter().for_each(|socket| drop(bench.receive(*socket, "\n")));
    bench.subscribe(1, "a", &format!("/account/mosaic/owned/{A1}"));
    bench.subscribe(2, "a", &format!("/account/{A1}"));
    bench.node.owned.insert((OwnedKind::Mosaics, address(A1)), 500);
    bench.receive(1, &send("account/mosaic/owned", A1).repeat(2));
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
    assert!(rest.last().unwrap().contains("{\"number\":500}"), "nothing is lost");
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
    assert!(sent.len() < 100 && rest.len() > 800 && rest.last().unwrap().contains("{\"number\":500}"));
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
