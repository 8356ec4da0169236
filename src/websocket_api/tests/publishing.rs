//! Publishing to all subscribers: order and steps.

use super::*;

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
    assert_eq!(bench.broker.usage().message_bytes, 0, "nothing is held when all have been told");
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
